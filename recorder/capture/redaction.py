"""Which bytes of a frame must be masked before the frame reaches the log.

Secrets are bare login tokens, and the fields of known messages that the `.kafka` files mark `secret`. Unreadable bytes
count as secrets too: while a login may be under way, in an API that may carry secrets, and where framing has ended.
Opaque frames are no exception. Values of Kafka configs that are known to be no passwords are not masked
(`proxy.wire.plain_settings`). Values are blanked, their lengths are not, so that a masked frame can still be decoded. A
frame with more bytes than its message is unreadable: the surplus may be a secret. Source: Kafka's own `toString`
masking, docs/proxy.md "Secrets".
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.conversation.exchange import Exchange, FrameKind
from proxy.conversation.step import Mark
from proxy.wire import catalog
from proxy.wire.apis import MessageKind
from proxy.wire.catalog import Codec, Search
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from proxy.wire.headers import request_head, response_head

# the first bytes of a frame, which never hold a secret: from its length to its correlation id, both included
REQUEST_HEAD = 12
RESPONSE_HEAD = 8
# a token's length; also that of a frame without a readable head
TOKEN_HEAD = 4

HEADS = {
    FrameKind.REQUEST: REQUEST_HEAD,
    FrameKind.RESPONSE: RESPONSE_HEAD,
    FrameKind.TOKEN: TOKEN_HEAD,
    FrameKind.BYTES: TOKEN_HEAD,
}

# the first bytes of an unframed rest that are not masked: none, but in Kafka 0.7, which has no secrets, 12
UNFRAMED_HEADS = {Dialect.KAFKA: 0, Dialect.KAFKA_07: REQUEST_HEAD}


@dataclass(frozen=True, slots=True)
class Rule:
    """The bytes of a frame to mask: all after its first `head` bytes, or, if `searched`, the secrets found in it."""

    head: int
    searched: bool = False


# the two kinds of frame that hold messages, as the catalog names them
_MESSAGES: dict[FrameKind, MessageKind] = {FrameKind.REQUEST: "request", FrameKind.RESPONSE: "response"}
_WHOLE = {kind: Rule(head) for kind, head in HEADS.items()}
_SEARCHED = {kind: Rule(HEADS[kind], searched=True) for kind in _MESSAGES}


def rule(mark: Mark) -> Rule | None:
    """How to mask the frame that a conversation has marked; None: not at all."""
    exchange = mark.exchange
    if exchange is None:
        # a token, or a frame without a readable head
        return _WHOLE[mark.kind]
    if exchange.own_answer is not None and mark.kind is FrameKind.RESPONSE:
        return None
    kind, key, version = _MESSAGES[mark.kind], exchange.api_key, exchange.api_version
    if exchange.opaque is not None or not exchange.route.known:
        hidden = mark.before_login or exchange.is_unidentified or catalog.may_hold_secrets(kind, key)
        return _WHOLE[mark.kind] if hidden else None
    assert version is not None, "the dialect of 0.7 has no marks"
    return _SEARCHED[mark.kind] if catalog.secrets(kind, key, version) else None


def search(kind: FrameKind, exchange: Exchange) -> Search:
    """A search for the secrets in a frame whose rule is `searched`."""
    return _codec(kind, exchange).search()


def sasl_token(kind: FrameKind, exchange: Exchange, frame: bytes) -> bytes | None:
    """The token in a SaslAuthenticate frame, given without its length. None: unreadable, or its error code is not 0."""
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
    found = catalog.codec(_MESSAGES[kind], exchange.api_key, exchange.api_version or 0)
    assert found is not None, "only known messages are searched"
    return found
