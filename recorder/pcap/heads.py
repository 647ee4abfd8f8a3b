"""Which bytes may be the head of a request or of a response. Sans-IO.

A request's head is told by itself: a length, an API and a version of the catalog, a client id that is text. A response
has a length and a correlation id alone, so it is told by the request that it answers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from proxy.wire import apis
from proxy.wire.framing import (
    LENGTH,
    REQUEST_HEAD,
    RESPONSE_HEAD,
    SHORTEST_REQUEST,
    SHORTEST_RESPONSE,
    FrameLimits,
    unpack_api_and_version,
)

# a request's head up to its client id's length, its own length included
WHOLE_HEAD = 14
# a client id at most: Kafka's own programs take names that people have given
_LONGEST_ID = 512
# bytes that may begin a request: length, API key, version, any correlation id, the client id's length. Each
# match is empty, so that heads may overlap
_MAY_BEGIN = re.compile(rb"(?=[\x00-\x06]...\x00[\x00-\x7f]\x00[\x00-\x1f]....(?:[\x00-\x02].|\xff\xff))", re.DOTALL)


class Head(NamedTuple):
    """A frame that begins at stream offset `offset`. `end`: the offset behind it; `api_key`: None of a response."""

    offset: int
    end: int
    correlation_id: int
    api_key: int | None


def request_at(
    data: bytes | bytearray, at: int, limits: FrameLimits, *, is_expected: bool = False
) -> tuple[int, int, int] | None:
    """(frame's length, correlation id, API key) of the request that may begin at `data[at]`, or None.

    Needs WHOLE_HEAD bytes. Of the client id, as much is read as there is. `is_expected`: a request is to begin here, so
    that it may be of an API or a version that the catalog lacks.
    """
    size, api_and_version, correlation_id = REQUEST_HEAD.unpack_from(data, at)
    key, version = unpack_api_and_version(api_and_version)
    id_size = int.from_bytes(data[at + 12 : at + 14], "big", signed=True)
    if not SHORTEST_REQUEST + 2 <= size <= limits.request or not -1 <= id_size <= min(_LONGEST_ID, size - 10):
        return None
    if not (is_expected or apis.known(key, version)) or not _is_text(bytes(data[at + 14 : at + 14 + max(id_size, 0)])):
        return None
    return size, correlation_id, key


def _is_text(piece: bytes) -> bool:
    # a piece may end within a character
    return piece.decode("utf-8", "ignore").isprintable() and b"\x00" not in piece


def request_places(data: bytes | bytearray, begin: int) -> list[int]:
    """The offsets from `begin` on at which a request may begin."""
    return [match.start() for match in _MAY_BEGIN.finditer(data, begin)]


def response_at(data: bytes | bytearray, at: int, limits: FrameLimits) -> tuple[int, int] | None:
    """(frame's length, correlation id) of the response that may begin at `data[at]`, or None. Needs 8 bytes."""
    size, correlation_id = RESPONSE_HEAD.unpack_from(data, at)
    return (size, correlation_id) if SHORTEST_RESPONSE <= size <= limits.response else None


def response_places(data: bytes | bytearray, begin: int, correlation_ids: set[int]) -> list[int]:
    """The offsets from `begin` on at which responses with one of these correlation ids may begin."""
    places = []
    for correlation_id in correlation_ids:
        wanted = correlation_id.to_bytes(4, "big", signed=True)
        at = data.find(wanted, begin + LENGTH.size)
        while at >= 0:
            places.append(at - LENGTH.size)
            at = data.find(wanted, at + 1)
    return sorted(places)
