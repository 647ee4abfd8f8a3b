from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from proxy import limited_files
from proxy.limited_files import MAX_NAMES
from proxy.schema.errors import BadSetting
from proxy.settings.file import read_file

TEXT = "drain = 3\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "wiretap.toml"


def reason(path: Path, *, again: bool = False) -> str:
    with pytest.raises(BadSetting) as error:
        read_file(path, again=again)
    (line,) = error.value.lines
    assert line.startswith(f"--config {path} ")
    assert line.endswith("; right would be a file as in docs/settings.md")
    return line.removeprefix(f"--config {path} ").partition(";")[0]


def test_a_file_is_read_at_the_start_and_again_also_behind_links(path, tmp_path):
    """Kubernetes mounts it like this: a link into a folder that is itself a link, replaced as a whole."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "wiretap.toml").write_text(TEXT)
    (tmp_path / "data").symlink_to("one")
    path.symlink_to("data/wiretap.toml")
    for again in (False, True):
        assert read_file(path, again=again) == {"drain": 3}


def test_a_pipe_is_read_at_the_start(path):
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=[TEXT])
    writer.start()
    assert read_file(path) == {"drain": 3}
    writer.join()


def test_a_settings_file_in_a_pipe_is_read_at_the_start():
    reading, writing = os.pipe()
    os.write(writing, TEXT.encode())
    os.close(writing)
    try:
        assert read_file(Path(f"/dev/fd/{reading}")) == {"drain": 3}
    finally:
        os.close(reading)


def test_a_pipe_is_not_waited_for_when_it_is_to_be_read_again(path):
    os.mkfifo(path)
    assert reason(path, again=True) == "is no regular file, so it can be read at the start only"


def test_a_reload_takes_nothing_from_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, TEXT.encode())
    try:
        assert "at the start only" in reason(Path(f"/dev/fd/{reading}"), again=True)
        assert os.read(reading, 100) == TEXT.encode()
    finally:
        os.close(reading)
        os.close(writing)


def test_a_device_that_never_ends_ends(monkeypatch):
    monkeypatch.setattr(limited_files, "MAX_BYTES", 1 << 20)
    assert reason(Path("/dev/zero")) == "is longer than 1 MiB"
    assert "at the start only" in reason(Path("/dev/zero"), again=True)


def test_no_file_at_all_is_an_empty_one():
    assert read_file(Path("/dev/null")) == {}


def test_each_refusal_leaves_no_file_open(path):
    path.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    assert reason(path) == "can't be read (Is a directory)"
    assert "at the start only" in reason(path, again=True)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("again", [False, True])
def test_a_missing_or_unreadable_settings_file_is_reported(path, again):
    assert reason(path, again=again) == "can't be read (No such file or directory)"


BAD: dict[str, tuple[str | bytes, str]] = {
    "half a line": ("drain =", "is no TOML (Invalid value (at end of document))"),
    "no text": (b"\xff", "is no TOML ('utf-8' codec can't decode"),
    "lists in lists": ("a = " + "[" * 5000 + "]" * 5000, "is no TOML (its lists or tables nest too deep)"),
    "tables in tables": ("a = " + "{a = " * 5000 + "1" + "}" * 5000, "is no TOML (its lists or tables nest too deep)"),
    "digits": ("a = " + "9" * 5000, "is no TOML (a number of very many digits)"),
    "names": ("\n" + "a." * MAX_NAMES + "a = 1", f"is no TOML (a key of more than {MAX_NAMES} names, at line 2)"),
    "names with blanks": ("[" + "a . " * MAX_NAMES + "a]", "is no TOML (a key of more than"),
    "names in quotes": ('"a\\"".' * MAX_NAMES + "'b' = 1", "is no TOML (a key of more than"),
    "names in a table": ("x = {" + "a." * MAX_NAMES + "a = 1}", "is no TOML (a key of more than"),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("bad", BAD)
def test_a_settings_file_that_is_no_toml_or_too_costly_is_refused(path, bad, again):
    content, said = BAD[bad]
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert reason(path, again=again).startswith(said)


GOOD = {
    "as many names as may be": "a." * (MAX_NAMES - 1) + "a = 1",
    "dots in a text": 'a = "' + "1.2.3.4," * 100 + '"',
    "a long word": "a" * 100_000 + " = 1",
    "many quotes": "a = '" + '"' * 100_000 + "'",
    "hexadecimal digits": "a = 0x" + "f" * 5000,
}


@pytest.mark.parametrize("good", GOOD)
def test_a_settings_file_that_only_looks_costly_is_read(path, good):
    path.write_text(GOOD[good])
    assert read_file(path)
