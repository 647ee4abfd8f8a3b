"""Tests of lengths, and of the integer of api key and version, against `struct`."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.framing import REQUEST_HEAD, framed, pack_api_and_version, unpack_api_and_version

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)


@given(st.binary(max_size=300))
def test_a_frame_has_its_length_in_front(frame: bytes) -> None:
    (size,) = struct.unpack_from(">i", framed(frame))
    assert (size, framed(frame)[4:]) == (len(frame), frame)


@given(INT16, INT16)
def test_key_and_version_are_one_integer_in_a_requests_head(key: int, version: int) -> None:
    head = struct.pack(">ihhi", 8, key, version, 7)
    assert REQUEST_HEAD.unpack(head) == (8, pack_api_and_version(key, version), 7)
    assert unpack_api_and_version(pack_api_and_version(key, version)) == (key, version)
