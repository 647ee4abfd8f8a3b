"""Tests of the hash that stands for a value, and of the key's file."""

import hashlib
import hmac
import os
from pathlib import Path

import pytest

from proxy.limited_files import UnusableFile
from recorder.hashing.hasher import HASH_SIZE, Hasher, read_key

KEY = bytes(range(32))


@pytest.mark.parametrize("value", [b"", b"4111 1111 1111 1111", b"x" * 100_000])
def test_a_hash_is_an_hmac_of_sha_256_cut_to_16_bytes(value: bytes) -> None:
    assert Hasher(KEY).hashed(value) == hmac.new(KEY, value, hashlib.sha256).digest()[:16]
    assert HASH_SIZE == 16


def test_null_stays_null_and_is_no_empty_value() -> None:
    assert Hasher(KEY).hashed(None) is None
    assert Hasher(KEY).hashed(b"") is not None


def test_another_key_makes_another_hash() -> None:
    assert Hasher(KEY).hashed(b"v") != Hasher(KEY[::-1]).hashed(b"v")


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="31 bytes, 32 are needed"):
        Hasher(KEY[:31])


def test_no_text_shows_the_key() -> None:
    assert repr(Hasher(b"secret of thirty-two bytes......")) == "<Hasher>"


def key_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_key_is_all_bytes_of_its_file(tmp_path: Path) -> None:
    assert read_key(key_file(tmp_path, KEY + b"\n", 0o400)) == KEY + b"\n"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UnusableFile, match=rf"mode 0{mode:o}\): chmod 600"):
        read_key(key_file(tmp_path, KEY, mode))


def test_a_file_of_a_short_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="has 31 bytes, a key needs 32"):
        read_key(key_file(tmp_path, KEY[1:]))


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in {"pipe": "is no plain file", "missing": "can't be read", ".": "is no plain file"}.items():
        with pytest.raises(UnusableFile, match=reason):
            read_key(tmp_path / name)
