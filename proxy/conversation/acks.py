"""Finds the acks of a Produce request, which stand after the client id and the transactional id.

Used by `requests` and the recorder: with acks=0, no response comes.
"""

from __future__ import annotations

import struct

from proxy.wire.errors import Malformed, Truncated, in_bytes
from proxy.wire.primitives import read_tags, read_uvarint

# ProduceRequest.json: flexible from v9 on (header v2, whose client id is not compact), transactional id from v3 on
FLEXIBLE, TRANSACTIONAL = 9, 3
# the acks stand within so many bytes: both ids have at most 32,767 bytes, and the header's tagged fields are few
LONGEST_PRODUCE_HEAD = 128 * 1024
# an incomplete head is read again with each chunk: many tags that arrive byte by byte would take quadratic time
MAX_TAGS = 64
ACKS_SIZE = 2

int16 = struct.Struct(">h").unpack_from


def acks_at(data: bytes, at: int, version: int) -> int:
    """The offset of the acks (int16, big-endian) of the Produce frame whose length field is at `data[at]`.

    Raises:
        Truncated: the bytes end before the acks are whole.
        Malformed: the bytes are no Produce request, or the frame ends before its acks.
    """
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    try:
        at = _after_string(data, at + 12)
        if version >= FLEXIBLE:
            at = _after_tags(data, at)
        if version >= TRANSACTIONAL:
            at = _after_compact_string(data, at) if version >= FLEXIBLE else _after_string(data, at)
        if at + ACKS_SIZE > end:
            raise Malformed("the frame ends before its acks")
        int16(data, at)
        return at
    except struct.error as error:
        raise Truncated("the acks have not come") from error


def _after_string(data: bytes, at: int) -> int:
    (length,) = int16(data, at)
    if length < -1:
        raise Malformed(f"a string of {in_bytes(length)}")
    return at + 2 + max(int(length), 0)


def _after_tags(data: bytes, at: int) -> int:
    if data[at : at + 1] == b"\0":
        # nearly all heads
        return at + 1
    count, _ = read_uvarint(data, at)
    if count > MAX_TAGS:
        raise Malformed(f"a head with {count} tagged fields")
    return read_tags(data, at)[1]


def _after_compact_string(data: bytes, at: int) -> int:
    length, at = read_uvarint(data, at)
    return at + max(length - 1, 0)
