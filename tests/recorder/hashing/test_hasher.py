"""Tests of the hash that stands for a value."""

import hashlib
import hmac

import pytest

from recorder.hashing.hasher import HASH_SIZE, Hasher

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


def test_no_text_shows_the_key() -> None:
    assert repr(Hasher(b"secret of thirty-two bytes......")) == "<Hasher>"
