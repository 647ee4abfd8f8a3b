"""How long a response makes its client wait for a quota: `throttle_time_ms`, read without a decode.

In most bodies the field comes first, at a fixed offset. In the bodies of Produce and ApiVersions, arrays come before
it; a projection steps over them.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Any

from proxy.wire import catalog
from proxy.wire.compile.layout import layout
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH, RESPONSE_HEAD
from proxy.wire.headers import response_head, response_header_version
from proxy.wire.primitives import Buffer

_FIELD = "throttle_time_ms"
_INT32 = Struct(">i")
# a frame without its length begins with the correlation id, and the header's tags where it has them
_HEAD = RESPONSE_HEAD.size - LENGTH.size
_NO_TAGS = b"\0"


@cache
def throttle_place(api_key: int, api_version: int) -> int | None:
    """The field's offset in a frame without its length, if the header has no tags.

    None if the offset varies, or if the response is unknown or lacks the field.
    """
    codec = catalog.codec("response", api_key, api_version)
    place = _HEAD + response_header_version(api_key, api_version)
    for slot in layout(codec.message, codec.version).slots if codec else ():
        if slot.name == _FIELD:
            return place
        if slot.code is None:
            return None
        place += slot.size
    return None


def throttle_ms(frame: Buffer, api_key: int, api_version: int) -> int | None:
    """The wait in milliseconds; None if the response lacks the field or can't be read.

    `frame`: the whole response, without its length.
    """
    place = throttle_place(api_key, api_version)
    has_tags = response_header_version(api_key, api_version) and frame[_HEAD : _HEAD + 1] != _NO_TAGS
    if place is None or has_tags:
        return _projected(frame, api_key, api_version)
    if len(frame) < place + _INT32.size:
        return None
    found: int = _INT32.unpack_from(frame, place)[0]
    return found


def _projected(frame: Buffer, api_key: int, api_version: int) -> int | None:
    """As `throttle_ms`, by a projection that steps over everything before the field."""
    project = _projection(api_key, api_version)
    if project is None:
        return None
    try:
        found = project(frame, response_head(frame, api_key, api_version).body)
    except WireError:
        return None
    return next((value for spans in found.values() for value, _, _ in spans), None)


@cache
def _projection(api_key: int, api_version: int) -> Any:
    codec = catalog.codec("response", api_key, api_version)
    has_field = codec and any(slot.name == _FIELD for slot in layout(codec.message, codec.version).slots)
    return codec.project((_FIELD,)) if codec and has_field else None
