"""Decides which bytes of a frame must be masked before the frame reaches the log.

Used by `connection_recorder`. Secrets are bare login tokens, and the fields of known messages that the `.kafka` files
mark `secret`. Opaque frames are masked whole, except for their heads, in three cases: while a login may be under way,
if their API may carry secrets, and if they may be no Kafka frames at all. Bytes that belong to no frame are masked.
Values of Kafka configs that are known to be no passwords are not masked (`proxy.wire.plain_settings`).

Masking replaces values by zeros and keeps their lengths, so that a masked frame can still be decoded. If a frame has
bytes after its message, the frame counts as unreadable, because these bytes may be a secret.
Source: Kafka's own `toString` masking, docs/proxy/secrets.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.conversation.exchange import Exchange, FrameKind
from proxy.conversation.step import Mark
from proxy.wire import catalog
from proxy.wire.apis import MessageKind
from proxy.wire.catalog import Codec, Search
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.headers import request_head, response_head
from proxy.wire.keys import SASL_HANDSHAKE

# bytes at a frame's beginning that never hold a secret: from its length field to its correlation id, both included
REQUEST_HEAD = 12
RESPONSE_HEAD = 8
# the length field alone, for tokens and for frames without a readable head
TOKEN_HEAD = 4

HEADS = {
    FrameKind.REQUEST: REQUEST_HEAD,
    FrameKind.RESPONSE: RESPONSE_HEAD,
    FrameKind.TOKEN: TOKEN_HEAD,
    FrameKind.BYTES: TOKEN_HEAD,
}

# bytes that belong to no frame: how many stay unmasked at their beginning. Kafka 0.7 has no secrets
UNFRAMED_HEADS = {Dialect.KAFKA: 0, Dialect.KAFKA_07: REQUEST_HEAD}


@dataclass(frozen=True, slots=True)
class Rule:
    """The bytes of a frame to mask: all after its first `head` bytes; if `searched`, only the secrets in them."""

    head: int
    searched: bool = False


# the kinds of frames that hold messages -> the catalog's names for them
_MESSAGES: dict[FrameKind, MessageKind] = {FrameKind.REQUEST: "request", FrameKind.RESPONSE: "response"}
_WHOLE = {kind: Rule(head) for kind, head in HEADS.items()}
_SEARCHED = {kind: Rule(HEADS[kind], searched=True) for kind in _MESSAGES}


def rule(mark: Mark) -> Rule | None:
    """The rule for a marked frame; None: it is not masked."""
    exchange = mark.exchange
    if exchange is None:
        # a token, or a frame without a readable head
        return _WHOLE[mark.kind]
    if exchange.own_answer is not None and mark.kind is FrameKind.RESPONSE:
        return None
    kind, key, version = _MESSAGES[mark.kind], exchange.api_key, exchange.api_version
    if exchange.opaque is not None or not exchange.route.known:
        may_hold_secret = mark.may_hold_secret or exchange.is_unidentified or catalog.may_hold_secrets(kind, key)
        return _WHOLE[mark.kind] if may_hold_secret else None
    assert version is not None, "the dialect of 0.7 has no marks"
    return _SEARCHED[mark.kind] if catalog.secrets(kind, key, version) else None


def mask_nothing(marks: Iterable[Mark]) -> bool:
    """True if the recorder has nothing to do for these marks: none of the frames is masked or names a mechanism.

    Most marks are for the relay alone, which rewrites the addresses in such frames.
    """
    for mark in marks:
        exchange = mark.exchange
        if exchange is None or exchange.api_key == SASL_HANDSHAKE or rule(mark) is not None:
            return False
    return True


def search(kind: FrameKind, exchange: Exchange) -> Search:
    """A new search for the secrets in a frame whose rule is `searched`."""
    return _codec(kind, exchange).search()


def sasl_token(kind: FrameKind, exchange: Exchange, frame: bytes) -> bytes | None:
    """The token in a SaslAuthenticate frame without length field. None: unreadable, or an error code other than 0."""
    try:
        if kind is FrameKind.REQUEST:
            body = request_head(frame).body
        else:
            body = response_head(frame, exchange.api_key, exchange.api_version or 0).body
        values, _ = _codec(kind, exchange).decode(frame, body)
    except WireError:
        return None
    return None if values.get("error_code") else bytes(values["auth_bytes"])


def _codec(kind: FrameKind, exchange: Exchange) -> Codec:
    codec = catalog.codec(_MESSAGES[kind], exchange.api_key, exchange.api_version or 0)
    assert codec is not None, "only known messages are searched"
    return codec
