"""Tests of settings files that a user names: read up to a limit, or refused with a reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy import limited_files
from proxy.limited_files import UnusableFile, content_of, tables, text_of


def reason(read: Callable[..., object], *given: object) -> str:
    with pytest.raises(UnusableFile) as caught:
        read(*given)
    return str(caught.value)


@pytest.mark.parametrize("read", [content_of, text_of])
def test_a_device_that_never_ends_is_refused(read: Callable[[Path], object]) -> None:
    assert reason(read, Path("/dev/zero")) == "is longer than 16 MiB"


def test_a_file_of_the_maximal_size_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limited_files, "MAX_BYTES", 3)
    three, four = tmp_path / "three", tmp_path / "four"
    three.write_bytes(b"abc")
    four.write_bytes(b"abcd")
    assert content_of(three) == b"abc"
    assert reason(content_of, four) == "is longer than 0 MiB"
    assert content_of(four, 4) == b"abcd"


def test_a_pipe_or_folder_may_be_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UnusableFile, match="no pipe"):
            content_of(other, refusal="no pipe")


def test_a_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"linger.ms=5")
    os.close(writing)
    assert text_of(Path(f"/dev/fd/{reading}")) == "linger.ms=5"
    os.close(reading)


def test_a_missing_file_or_one_without_text_is_reported(tmp_path: Path) -> None:
    assert reason(content_of, tmp_path / "none") == "can't be read (No such file or directory)"
    assert reason(content_of, tmp_path) == "can't be read (Is a directory)"
    (tmp_path / "binary").write_bytes(b"\xff")
    assert reason(text_of, tmp_path / "binary") == "is no UTF-8 text"


def test_a_key_that_the_parser_would_take_hours_for_is_refused() -> None:
    assert tables(b"a.b = 1") == {"a": {"b": 1}}
    assert reason(tables, b"\n" + b"a." * 100_000 + b"a = 1").startswith("is no TOML (a key of more than 32 names, at")
