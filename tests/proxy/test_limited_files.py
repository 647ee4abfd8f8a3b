"""A file of settings that a user names: read up to a limit, or refused in words that stand behind its name."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy import limited_files
from proxy.limited_files import UnusableFile, content_of, read_limited, tables, text_of


def reason(read: Callable[..., object], *given: object) -> str:
    with pytest.raises(UnusableFile) as caught:
        read(*given)
    return str(caught.value)


@pytest.mark.parametrize("read", [content_of, text_of])
def test_a_device_that_never_ends_is_refused(read: Callable[[Path], object]) -> None:
    assert reason(read, Path("/dev/zero")) == "is longer than 16 MiB"


def test_as_much_as_the_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_files, "MAX_BYTES", 3)
    assert read_limited(io.BytesIO(b"abc")) == b"abc"
    assert reason(read_limited, io.BytesIO(b"abcd")) == "is longer than 0 MiB"
    assert read_limited(io.BytesIO(b"abcd"), 4) == b"abcd"


def test_a_pipe_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"linger.ms=5")
    os.close(writing)
    assert text_of(Path(f"/dev/fd/{reading}")) == "linger.ms=5"
    os.close(reading)


def test_what_is_not_there_or_is_no_text_is_said(tmp_path: Path) -> None:
    assert reason(content_of, tmp_path / "none") == "can't be read (No such file or directory)"
    assert reason(content_of, tmp_path) == "can't be read (Is a directory)"
    (tmp_path / "binary").write_bytes(b"\xff")
    assert reason(text_of, tmp_path / "binary") == "is no UTF-8 text"


def test_a_key_that_the_parser_would_take_hours_for_is_refused() -> None:
    assert tables(b"a.b = 1") == {"a": {"b": 1}}
    assert reason(tables, b"\n" + b"a." * 100_000 + b"a = 1").startswith("is no TOML (a key of more than 32 names, at")
