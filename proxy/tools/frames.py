"""Bytes from a terminal, a file or a pipe -> frames -> what they say.

Whoever has a frame at hand has it as hex or as raw bytes, with its 4-byte length or without, alone or behind others:
all of it is told apart here. A frame's bytes never look like hex, since an api key's first byte is 0. Only the dialect
has to be said: nothing in a frame tells those of 0.7 from all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proxy.tools.kafka07 import request_tree, response_tree
from proxy.tools.tree import Shown, message_tree
from proxy.wire import catalog, kafka07
from proxy.wire.apis import Kind
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError, in_bytes
from proxy.wire.framing import LENGTH
from proxy.wire.headers import RequestHead, ResponseHead, request_head, response_head
from proxy.wire.kafka07 import RequestType

# what people's tools put between the digits: tcpdump, Wireshark, xxd -p, Python, C
_BETWEEN = re.compile(r"0x|\\x|[\s:,\"';]", re.IGNORECASE)
# a response that is its correlation id alone; in 0.7 its error code
SMALLEST = {Dialect.KAFKA: 4, Dialect.KAFKA_07: 2}
MASKED = Shown(mask=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """How to read: requests, or responses to (api key, version), or to a request of 0.7; and what to show."""

    response_to: tuple[int, int] | RequestType | None = None
    shown: Shown = MASKED
    dialect: Dialect = Dialect.KAFKA


def octets(text: str) -> bytes:
    """The bytes of hex, whatever stands between the digits.

    Errors: ValueError.
    """
    digits = _BETWEEN.sub("", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        odd = re.search(r"[^0-9a-fA-F]", digits)
        raise ValueError(f"no hex: {odd.group()!r} stands in it" if odd else "no hex: a digit is missing") from None


def octets_of(data: bytes) -> bytes:
    """The bytes of a file or a pipe, which may hold them as hex.

    Errors: none: what is not hex is taken as it is.
    """
    if not data or b"\0" in data:
        return data
    try:
        return octets(data.decode("ascii"))
    except ValueError:
        return data


def told(data: bytes, asked: Asked) -> Iterator[dict[str, Any]]:
    """What each frame in `data` says: its head, `body` as a tree, `why` if there is something to say about it.

    A frame of an unknown api or version has no `body` but its bytes.

    Errors: WireError when such a frame is reached; of several it says which.
    """
    frames = _frames(data, asked)
    for number, frame in enumerate(frames, 1):
        try:
            yield _told(frame, asked)
        except WireError as error:
            error.reason += f" (frame {number} of {len(frames)})" if len(frames) > 1 else ""
            raise


def _frames(data: bytes, asked: Asked) -> list[bytes]:
    """The frames behind their lengths, the last one perhaps cut off; all of it where nothing stands before it."""
    frames, whole = _split(data, SMALLEST[asked.dialect])
    if asked.dialect is Dialect.KAFKA_07:
        # What reads as a request has no length in front. A response's first bytes, taken for a length, lead nowhere.
        is_request = asked.response_to is None and _reads(data, asked)
        return [data] if is_request or not (whole or len(frames) > 1) else frames
    if whole:
        return frames if len(frames) > 1 or not _reads(data, asked) else [data]
    return frames if len(frames) > 1 and _reads(frames[0], asked) and not _reads(data, asked) else [data]


def _reads(frame: bytes, asked: Asked) -> bool:
    """Whether it is a frame as it stands: what looks like a length in front may be a correlation id."""
    try:
        found = _told(frame, asked)
    except WireError:
        return False
    return "why" not in found


def _split(data: bytes, smallest: int) -> tuple[list[bytes], bool]:
    """What stands behind lengths, and whether these lead exactly to the end; nothing where one is no frame's."""
    frames, at = [], 0
    while at + LENGTH.size <= len(data):
        (size,) = LENGTH.unpack_from(data, at)
        if size < smallest:
            return [], False
        at += LENGTH.size
        frames.append(data[at : at + size])
        at += size
    return frames + ([data[at:]] if at < len(data) else []), at == len(data) > 0


def _told(frame: bytes, asked: Asked) -> dict[str, Any]:
    if asked.dialect is Dialect.KAFKA_07:
        return _told_07(frame, asked)
    assert not isinstance(asked.response_to, RequestType)
    if asked.response_to is None:
        head: RequestHead | ResponseHead = request_head(frame)
        assert isinstance(head, RequestHead)
        facts = _names("request", head.api_key, head.api_version)
        facts |= {"correlation_id": head.correlation_id, "client_id": head.client_id}
        return facts | _body("request", head.api_key, head.api_version, frame, head.body, asked)
    key, version = asked.response_to
    head = response_head(frame, key, version)
    facts = _names("response", key, version) | {"correlation_id": head.correlation_id}
    return facts | _body("response", key, version, frame, head.body, asked)


def _told_07(frame: bytes, asked: Asked) -> dict[str, Any]:
    """0.7 has no versions, and nothing in it is masked."""
    if isinstance(asked.response_to, RequestType):
        answered, most = asked.response_to, asked.shown.records
        body = response_tree(kafka07.decode_response_to(frame, answered), most)
        return {"kind": "response", "api": answered.api, "api_key": int(answered), "body": body}
    request = kafka07.decode_request(frame)
    if isinstance(request, kafka07.UnknownRequest):
        why = f"unknown: type {request.number} of 0-{max(RequestType)} known"
        return {"kind": "request", "api": None, "api_key": request.number, "why": why, "bytes": request.body}
    body = request_tree(request, asked.shown.records)
    return {"kind": "request", "api": request.type.api, "api_key": int(request.type), "body": body}


def _names(kind: Kind, key: int, version: int) -> dict[str, Any]:
    return {"kind": kind, "api": catalog.api_name(key), "api_key": key, "api_version": version}


def _body(kind: Kind, key: int, version: int, frame: bytes, start: int, asked: Asked) -> dict[str, Any]:
    codec = catalog.codec(kind, key, version) if kind == "request" else catalog.codec_of_response(frame, key, version)
    if codec is None:
        known = catalog.versions(key)
        why = f"version {version} of {known.start}-{known.stop - 1} known" if known else "the catalog has no such api"
        return {"why": f"unknown: {why}", "bytes": frame[start:]}
    values, end = codec.decode(frame, start)
    body = message_tree(codec.message, codec.version, values, asked.shown)
    more = len(frame) - end
    return {"body": body} | ({"why": f"{in_bytes(more)} more behind its end"} if more else {})
