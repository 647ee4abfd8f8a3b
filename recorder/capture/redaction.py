"""Which bytes of a frame must be masked before the frame reaches the log.

Secrets are fields of known messages (the marks in the message language) and bare login tokens. Unreadable bytes count
as secrets too: during a possible login, in an API that may carry secrets, and where framing has ended. Opaque never
overrides redaction. Settings that are known to be plain stay (`proxy.wire.plain_settings`). Only values are blanked,
never their lengths, so that a masked frame can still be decoded. A frame with more bytes than its message counts as
unreadable: the rest may be the secret. Source: Kafka's own `toString` masking, docs/proxy.md
"Secrets".
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


# plain bytes at the beginning of unframed ones: none; in 0.7, which has no secrets, the head that could not be framed
UNFRAMED_HEADS = {Dialect.KAFKA: 0, Dialect.KAFKA_07: REQUEST_HEAD}


@dataclass(frozen=True, slots=True)
class Rule:
    """The bytes of a frame to mask: all behind its first `head` bytes, or, if `searched`, the secrets found in it."""

    head: int
    searched: bool = False


# the two kinds of frame that have messages, as the catalog names them
_MESSAGES: dict[FrameKind, MessageKind] = {FrameKind.REQUEST: "request", FrameKind.RESPONSE: "response"}
_WHOLE = {kind: Rule(head) for kind, head in HEADS.items()}
_SEARCHED = {kind: Rule(HEADS[kind], searched=True) for kind in _MESSAGES}


def rule(mark: Mark) -> Rule | None:
    """The rule for the frame of a mark; None if nothing is masked."""
    exchange = mark.exchange
    if exchange is None:
        # a token, or bytes that are no frame
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


def token(kind: FrameKind, exchange: Exchange, frame: bytes) -> bytes | None:
    """The token in a SaslAuthenticate frame (given without its length); None for an error or an unreadable frame."""
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
