"""Bytes from a terminal, a file or a pipe -> frames -> trees of their values.

Input may be hex or raw bytes, with 4-byte lengths or without, one frame or several; this module detects which. A
frame's bytes never look like hex, because an api key's first byte is 0. Only the dialect must be given: no frame shows
that it is one of 0.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proxy.tools.body import left_over
from proxy.tools.kafka07 import request_tree, response_tree
from proxy.tools.tree import Shown, message_tree
from proxy.wire import apis, catalog, kafka07
from proxy.wire.apis import MessageKind
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.errors import OverBudget, WireError
from proxy.wire.framing import LENGTH
from proxy.wire.headers import RequestHead, ResponseHead, request_head, response_head
from proxy.wire.kafka07 import RequestType

# separators of hex digits in tcpdump, Wireshark, xxd -p, Python, C
_BETWEEN = re.compile(r"0x|\\x|[\s:,\"';]", re.IGNORECASE)
# the shortest response: a correlation id alone; in 0.7 an error code
SMALLEST = {Dialect.KAFKA: 4, Dialect.KAFKA_07: 2}


@dataclass(frozen=True, slots=True)
class Asked:
    """The way to read frames: as requests, or as responses to (api key, version) or to a request of 0.7."""

    response_to: tuple[int, int] | RequestType | None = None
    shown: Shown = field(default_factory=lambda: Shown(mask=True))
    dialect: Dialect = Dialect.KAFKA


def octets(text: str) -> bytes:
    """The bytes that hex digits write, with any usual separators between the digits. Errors: ValueError."""
    digits = _BETWEEN.sub("", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        odd = re.search(r"[^0-9a-fA-F]", digits)
        why = f"{odd.group()!r} stands in it" if odd else "a digit is missing"
        raise ValueError(f"no hex: {why}; right would be two digits a byte, such as 0003000c") from None


def octets_of(data: bytes) -> bytes:
    """The bytes of a file or a pipe: of its hex digits if it is hex, otherwise as they are. Raises nothing."""
    if not data or b"\0" in data:
        return data
    try:
        return octets(data.decode("ascii"))
    except ValueError:
        return data


def trees(data: bytes, asked: Asked) -> Iterator[dict[str, Any]]:
    """A dict for each frame in `data`: its head, `body` as a tree, and a remark as `why`, if there is one.

    A frame of an unknown api or version has its bytes in place of `body`. If the budget is exceeded, `body` is the part
    that was decoded by then.

    Errors: WireError when an unreadable frame is reached; it names the frame if there are several.
    """
    count = _count(data, asked)
    for number, frame in enumerate(_split(data) if count else [data], 1):
        try:
            yield _tree(frame, asked)
        except WireError as error:
            error.reason += f" (frame {number} of {count})" if count > 1 else ""
            raise


def _count(data: bytes, asked: Asked) -> int:
    """The number of frames with lengths, the last one perhaps cut off; 0 for a single frame without a length."""
    count, whole = _lengths(data, SMALLEST[asked.dialect])
    if asked.dialect is Dialect.KAFKA_07:
        # Bytes that read as a request have no length in front. A response's first bytes are no valid length.
        is_request = asked.response_to is None and _reads(data, asked)
        return 0 if is_request or not (whole or count > 1) else count
    if whole:
        return count if count > 1 or not _reads(data, asked) else 0
    return count if count > 1 and _reads(next(_split(data)), asked) and not _reads(data, asked) else 0


def _reads(frame: bytes, asked: Asked) -> bool:
    """True if the bytes are a frame without a length: an apparent length may be a correlation id."""
    try:
        if asked.dialect is Dialect.KAFKA_07:
            return not isinstance(kafka07.decode_request(frame), kafka07.UnknownRequest)
        _, codec, start = _head(frame, asked)
        # the values are not kept, so a budget of their own pays for them
        end = codec.decode(frame, start, budget=Budget(asked.shown.budget.size))[1] if codec else 0
    except WireError:
        return False
    return end == len(frame)


def _lengths(data: bytes, smallest: int) -> tuple[int, bool]:
    """The number of frames, a cut one included, and True if they fill the data exactly; (0, False) for a bad length."""
    count, at = 0, 0
    while at + LENGTH.size <= len(data):
        (size,) = LENGTH.unpack_from(data, at)
        if size < smallest:
            return 0, False
        at += LENGTH.size + size
        count += 1
    return count + (at < len(data)), at == len(data) > 0


def _split(data: bytes) -> Iterator[bytes]:
    """The frame behind each length, and the bytes behind the last frame."""
    at = 0
    while at + LENGTH.size <= len(data):
        (size,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        yield data[at : at + size]
        at += size
    if at < len(data):
        yield data[at:]


def _tree(frame: bytes, asked: Asked) -> dict[str, Any]:
    if asked.dialect is Dialect.KAFKA_07:
        return _tree_07(frame, asked)
    facts, codec, start = _head(frame, asked)
    return facts | (_body(frame, codec, start, asked.shown) if codec else _unknown(frame, facts, start))


def _head(frame: bytes, asked: Asked) -> tuple[dict[str, Any], catalog.Codec | None, int]:
    """The head's values, the codec of the body, and the body's offset."""
    assert not isinstance(asked.response_to, RequestType)
    if asked.response_to is None:
        head: RequestHead | ResponseHead = request_head(frame)
        assert isinstance(head, RequestHead)
        facts = _names("request", head.api_key, head.api_version)
        facts |= {"correlation_id": head.correlation_id, "client_id": head.client_id}
        return facts, catalog.codec("request", head.api_key, head.api_version), head.body
    key, version = asked.response_to
    head = response_head(frame, key, version)
    facts = _names("response", key, version) | {"correlation_id": head.correlation_id}
    return facts, catalog.codec_of_response(frame, key, version), head.body


def _tree_07(frame: bytes, asked: Asked) -> dict[str, Any]:
    """A frame of 0.7, which has no versions and no masked values."""
    if isinstance(asked.response_to, RequestType):
        answered = asked.response_to
        response = kafka07.decode_response_to(frame, answered)
        body = response_tree(response, asked.shown.records, budget=asked.shown.budget)
        return {"kind": "response", "api": answered.api, "api_key": int(answered), "body": body}
    request = kafka07.decode_request(frame)
    if isinstance(request, kafka07.UnknownRequest):
        why = f"unknown: type {request.number} of 0-{max(RequestType)} known"
        return {"kind": "request", "api": None, "api_key": request.number, "why": why, "bytes": request.body}
    body = request_tree(request, asked.shown.records, budget=asked.shown.budget)
    return {"kind": "request", "api": request.type.api, "api_key": int(request.type), "body": body}


def _names(kind: MessageKind, key: int, version: int) -> dict[str, Any]:
    return {"kind": kind, "api": apis.api_name(key), "api_key": key, "api_version": version}


def _unknown(frame: bytes, facts: dict[str, Any], start: int) -> dict[str, Any]:
    known, version = apis.versions(facts["api_key"]), facts["api_version"]
    why = f"version {version} of {known.start}-{known.stop - 1} known" if known else "the catalog has no such api"
    return {"why": f"unknown: {why}", "bytes": frame[start:]}


def _body(frame: bytes, codec: catalog.Codec, start: int, shown: Shown) -> dict[str, Any]:
    try:
        values, end = codec.decode(frame, start, budget=shown.budget)
        why = left_over(len(frame) - end)
    except OverBudget as error:
        values, why = error.values or {}, str(error)
    body = message_tree(codec.message, codec.version, values, shown)
    return {"body": body} | ({"why": why} if why else {})
