"""Frames: a 4-byte big-endian length, and that many bytes.

Describes only the part of a head that all APIs and versions share: length, api key and version in one 32-bit number,
correlation id. `headers.py` reads whole heads. Source: Kafka's protocol guide, "Request and
response headers"; broker limit `socket.request.max.bytes`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

LENGTH = struct.Struct(">i")
# length, api_and_version (key << 16 | version), correlation id
REQUEST_HEAD = struct.Struct(">iIi")
# length, correlation id
RESPONSE_HEAD = struct.Struct(">ii")

# api key, version and correlation id: no request can be shorter; and a response has at least its correlation id
SHORTEST_REQUEST = 8
SHORTEST_RESPONSE = 4


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """The longest frames let through, in bytes behind the length."""

    # the broker's own default, socket.request.max.bytes
    request: int = 100 * 1024 * 1024
    # fetch.max.bytes is 55 MB by default, but one oversized batch is always returned whole
    response: int = 1024 * 1024 * 1024


def framed(frame: bytes) -> bytes:
    """The frame with its length in front."""
    return LENGTH.pack(len(frame)) + frame


def pack_api_and_version(api_key: int, api_version: int) -> int:
    """API key and version as one number, as a request's head holds them: two int16 in 32 bits."""
    return (api_key & 0xFFFF) << 16 | (api_version & 0xFFFF)


def unpack_api_and_version(api_and_version: int) -> tuple[int, int]:
    """(API key, version), both int16."""
    key, version = api_and_version >> 16, api_and_version & 0xFFFF
    return key - ((key & 0x8000) << 1), version - ((version & 0x8000) << 1)
