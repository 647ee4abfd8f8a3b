"""Which bytes of a frame may not be kept, before anything of it reaches the log.

Secrets are fields of known messages (the marks in the message language), bare login tokens, and whatever can't be read
while a login may be under way or in an API that may carry secrets: opaque never overrides redaction. Only values are
blanked, never their lengths, so that a masked frame can still be decoded. A frame that holds more than its message is
none that can be read: what stands there may be the secret. Source: Kafka's own `toString` masking,
docs/proxy.md "Pairing".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.conversation.exchange import Exchange, FrameKind
from proxy.conversation.step import Mark
from proxy.wire import catalog
from proxy.wire.apis import Kind
from proxy.wire.errors import WireError
from proxy.wire.headers import request_head, response_head

# the request of the first names the mechanism whose tokens the second carries
SASL_HANDSHAKE = 17
SASL_AUTHENTICATE = 36
# bytes of a frame, its length included, that never hold a secret: up to the correlation id
REQUEST_HEAD = 12
RESPONSE_HEAD = 8
# of a token, only its length
TOKEN_HEAD = 4

HEADS = {
    FrameKind.REQUEST: REQUEST_HEAD,
    FrameKind.RESPONSE: RESPONSE_HEAD,
    FrameKind.TOKEN: TOKEN_HEAD,
    FrameKind.BYTES: TOKEN_HEAD,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What to mask of a frame: the values at `paths`, or, without any, everything behind its first `head` bytes."""

    head: int
    paths: tuple[str, ...] = ()


# the two kinds of frame that have messages, as the catalog names them
_MESSAGES: dict[FrameKind, Kind] = {FrameKind.REQUEST: "request", FrameKind.RESPONSE: "response"}
_WHOLE = {kind: Rule(head) for kind, head in HEADS.items()}


def rule(mark: Mark) -> Rule | None:
    """What to mask of the frame that a mark belongs to; None: nothing."""
    exchange = mark.exchange
    if exchange is None:
        return _WHOLE[mark.kind] if mark.kind is FrameKind.TOKEN or mark.before_login else None
    if exchange.made is not None and mark.kind is FrameKind.RESPONSE:
        return None
    key, version = exchange.api_key, exchange.api_version
    if exchange.opaque is not None or not exchange.route.known:
        hidden = mark.before_login or catalog.may_hold_secrets(_MESSAGES[mark.kind], key)
        return _WHOLE[mark.kind] if hidden else None
    assert version is not None, "the dialect of 0.7 has no marks"
    paths = catalog.secrets(_MESSAGES[mark.kind], key, version)
    return Rule(HEADS[mark.kind], paths) if paths else None


def secret_spans(kind: FrameKind, exchange: Exchange, frame: bytes, paths: tuple[str, ...]) -> list[tuple[int, int]]:
    """(start, stop) of the secret values in a whole frame, in offsets behind its length.

    Raises:
        WireError: the frame can't be read, or bytes or tagged fields are in it that its message doesn't have.
    """
    key, version = exchange.api_key, exchange.api_version
    codec = None if version is None else catalog.codec(_MESSAGES[kind], key, version)
    if codec is None or version is None:
        raise WireError("no message of this version is known", api=exchange.api, version=version)
    body = request_head(frame).body if kind is FrameKind.REQUEST else response_head(frame, key, version).body
    values, end = codec.decode(frame, body)
    if end != len(frame) or _has_unknown_tags(values):
        raise WireError("more than its message is in it", api=exchange.api, version=version)
    found = codec.project(paths)(frame, body)
    return sorted(span for values in found.values() for span in _value_spans(values))


def _has_unknown_tags(value: object) -> bool:
    if isinstance(value, dict):
        return "_tags" in value or any(map(_has_unknown_tags, value.values()))
    return isinstance(value, list) and any(map(_has_unknown_tags, value))


def _value_spans(values: Iterable[tuple[object, int, int]]) -> Iterable[tuple[int, int]]:
    for value, start, stop in values:
        if isinstance(value, (bytes, bytearray, memoryview)):
            start = max(start, stop - len(value))
        elif isinstance(value, str):
            start = max(start, stop - len(value.encode("utf-8", "surrogatepass")))
        elif value is None:
            continue
        if start < stop:
            yield start, stop
