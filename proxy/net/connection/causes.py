"""What follows from the cause of a connection's end: what the log says, and whether a socket lingers.

Every cause is in exactly one of `LINES`, `BY_PEERS` and `SAID_ELSEWHERE`. The part of the proxy that decides to end a
connection makes a `Decision`: what was seen there, and the setting that changes it. `cluster.py` logs it once, when the
connection has ended; the recorder writes it into the capture.
"""

from __future__ import annotations

from collections.abc import Mapping
from logging import DEBUG, INFO, WARNING
from types import MappingProxyType
from typing import Any, NamedTuple

from proxy.conversation import Cause, Conversation, Step
from proxy.log import log
from proxy.net.connection.rewriting import NotRewritable, TooLarge
from proxy.net.log_throttle import LogThrottle
from proxy.net.sockets.protocols import PROXY_HEADER, TLS, spoken
from proxy.rewrite import addresses
from proxy.wire.apis import api_name, name_or_key
from proxy.wire.dialects import Dialect
from proxy.wire.framing import LENGTH, unpack_api_and_version

# of a frame that ends a connection: the bytes that are looked at
HEAD_SIZE = 12
# of each fact: the characters that the capture keeps, since a peer's bytes may stand in a reason
MOST_RECORDED = 500


class Decision(NamedTuple):
    """Why the proxy ends a connection.

    event: the log's event, if it says more than that of the cause (`LINES`).
    setting: the key of the settings that changes the decision; "": there is none.
    facts: what was seen: keys of the log event.
    repeats: what makes two events the same, beside the event itself: the throttle logs one of them a minute.
    """

    event: str = ""
    setting: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})
    repeats: str = ""


class Line(NamedTuple):
    """What the log says of a connection that the proxy has ended for a cause. `setting`: as of `Decision`."""

    event: str
    setting: str = ""
    level: int = WARNING


LINES: Mapping[Cause, Line] = {
    Cause.BAD_LENGTH: Line("frame has a bad length"),
    Cause.UNEXPECTED_RESPONSE: Line("response is not the one that is awaited"),
    Cause.UNSUPPORTED_VERSION: Line("request is in a version that the proxy can't rewrite"),
    Cause.NOT_REWRITABLE: Line("response can't be rewritten"),
    Cause.TLS_HANDSHAKE: Line("no TLS with a client"),
    Cause.UNKNOWN_NAME: Line("no TLS with a client", "advertise"),
    Cause.LEADS_BACK: Line("connection comes from this proxy itself", "upstream"),
    Cause.IDLE: Line("connection was idle", "timeouts.idle", INFO),
    # no trouble, and once an age for every client
    Cause.AGED: Line("connection has reached its age", "timeouts.age", DEBUG),
    Cause.STALLED: Line("connection kept others waiting", "stalled"),
    Cause.BAD_PROXY_HEADER: Line("no header of the PROXY protocol", "proxy_protocol.accept"),
    Cause.UNTRUSTED: Line("client is no trusted load balancer", "proxy_protocol.trusted"),
}
# a peer has ended the connection, or is gone
BY_PEERS = frozenset(
    {
        Cause.CLIENT_CLOSED,
        Cause.PROBE,
        Cause.BROKER_CLOSED,
        Cause.CLIENT_RESET,
        Cause.BROKER_RESET,
        Cause.CLIENT_LOST,
        Cause.BROKER_LOST,
    }
)
# the cause -> the event that is logged where the proxy decides; a stop is logged once for all connections
SAID_ELSEWHERE: Mapping[Cause, str] = {
    Cause.UNKNOWN_NODE: "node is not known",
    Cause.UPSTREAM_DOWN: "connection without upstream",
    Cause.TOO_MANY_CONNECTIONS: "too many connections",
    Cause.PROXY_FAULT: "fault in a connection",
    Cause.DRAINED: "stopping",
    Cause.DRAIN_DEADLINE: "exchanges in flight are cut off",
}

# causes after which the client's connection lingers: the client may not have read everything that was sent to it
LINGER_AT_CLIENT = frozenset(Cause) - {
    Cause.CLIENT_CLOSED,
    Cause.PROBE,
    Cause.CLIENT_RESET,
    Cause.UNKNOWN_NODE,
    Cause.UPSTREAM_DOWN,
    Cause.DRAIN_DEADLINE,
    Cause.CLIENT_LOST,
    Cause.STALLED,
    Cause.TOO_MANY_CONNECTIONS,
    Cause.BAD_PROXY_HEADER,
    Cause.UNTRUSTED,
}
# causes after which the broker's connection lingers: its responses may still arrive. Closing with unread responses
# resets the connection, and loses requests that the broker has not read yet (acks=0)
LINGER_AT_BROKER = frozenset(
    (Cause.CLIENT_RESET, Cause.CLIENT_LOST, Cause.STALLED, Cause.UNEXPECTED_RESPONSE, Cause.NOT_REWRITABLE)
)
# causes that become PROBE if the client has sent nothing
ENDS_OF_PROBES = (Cause.CLIENT_CLOSED, Cause.CLIENT_RESET)
# causes that mean that the client left. A broker that has never responded by then counts as silent (`report_silent`)
GIVEN_UP = frozenset((Cause.CLIENT_CLOSED, Cause.CLIENT_RESET, Cause.CLIENT_LOST))


def log_ending(cause: Cause, decision: Decision, throttle: LogThrottle, **keys: Any) -> None:
    """Logs that a connection has ended, if the proxy has ended it. `keys`: those of every connection's events."""
    line = LINES.get(cause)
    if line is not None:
        event, setting = decision.event or line.event, decision.setting or line.setting
        level = throttle.level(f"{event} {decision.repeats}", line.level)
        named: dict[str, Any] = {"setting": setting} if setting else {}
        log(level, event, **keys, **decision.facts, **named)


def as_recorded(cause: Cause, decision: Decision) -> dict[str, str | int]:
    """A decision as the capture keeps it: the event, the setting, and facts. Empty if a peer ended the connection."""
    line = LINES.get(cause)
    if line is None:
        return {}
    said = {"event": decision.event or line.event, "setting": decision.setting or line.setting, **decision.facts}
    known = {name: value for name, value in said.items() if value not in ("", None)}
    return {name: value if isinstance(value, int) else str(value)[:MOST_RECORDED] for name, value in known.items()}


def of_request(step: Step, conversation: Conversation, *, is_tls: bool) -> Decision:
    """The decision to end a connection at a request: where `step` stops. `is_tls`: the client speaks TLS."""
    head = bytes(step.data[step.stop : step.stop + HEAD_SIZE])
    if step.cause is Cause.UNSUPPORTED_VERSION:
        key, version = unpack_api_and_version(int.from_bytes(head[4:8], "big"))
        facts = {"api": name_or_key(key), "version": version, "newest": addresses.newest(key)}
        return Decision(facts=facts, repeats=f"{key} {version}")
    protocol = spoken(head) if not step.offset + step.stop else None
    if protocol is not None:
        return _foreign(protocol, is_tls=is_tls)
    asked = _asked(head, conversation)
    if asked.get("api", "") is None:
        # a request that is only too long names an API
        return Decision("request has a bad length", facts={"length": LENGTH.unpack_from(head)[0]})
    return _bad_length(head, conversation.limits.request, "request", "limits.request", asked)


def _foreign(protocol: str, *, is_tls: bool) -> Decision:
    if protocol == PROXY_HEADER:
        return Decision("client sends a PROXY header, and this listener takes none from it", "proxy_protocol.accept")
    if protocol == TLS and not is_tls:
        return Decision("client speaks TLS, and this port is for plaintext", "tls")
    return Decision(f"client speaks {protocol}, and this port is for Kafka")


def of_response(step: Step, conversation: Conversation, upstream: str) -> Decision:
    """The decision to end a connection at a response: where `step` stops. `upstream`: the broker's address."""
    in_flight = conversation.in_flight
    oldest = {"api": in_flight[0].api} if in_flight and in_flight[0].api else {}
    if step.cause is Cause.UNEXPECTED_RESPONSE:
        kind, what = conversation.unexpected(step)
        return Decision(kind.value, facts={"upstream": upstream, "what": what} | oldest)
    head = bytes(step.data[step.stop : step.stop + HEAD_SIZE])
    protocol = spoken(head) if not step.offset + step.stop else None
    if protocol is not None:
        setting = "tls.upstream" if protocol == TLS else "upstream"
        return Decision(f"upstream speaks {protocol} instead of Kafka", setting, {"upstream": upstream})
    limit = conversation.limits.response
    return _bad_length(head, limit, "response", "limits.response", {"upstream": upstream} | oldest)


def of_rewriting(error: NotRewritable) -> Decision:
    """The decision to end a connection at a response that can't be rewritten."""
    rejected = error.exchange.api or ""
    is_too_large = isinstance(error.__cause__, TooLarge)
    facts = {"api": rejected, "reason": str(error)}
    return Decision(
        setting="limits.hold" if is_too_large else "",
        facts=facts,
        repeats=f"{rejected} {'limit' if is_too_large else error}",
    )


def refused(error: Exception, setting: str, **facts: Any) -> Decision:
    """The decision to refuse a client for an error, before a broker is dialled. Facts that are None are left out."""
    known = {name: value for name, value in facts.items() if value is not None}
    return Decision(setting=setting, facts=known | {"reason": str(error)}, repeats=str(error))


def _bad_length(head: bytes, limit: int, frame: str, setting: str, facts: Mapping[str, Any]) -> Decision:
    (length,) = LENGTH.unpack_from(head)
    seen = {**facts, "length": length}
    repeats = str(facts.get("api", ""))
    if length > limit:
        return Decision(f"{frame} is longer than the limit", setting, seen | {"limit": limit}, repeats)
    return Decision(f"{frame} has a bad length", "", seen, repeats)


def _asked(head: bytes, conversation: Conversation) -> dict[str, Any]:
    """The API that a request's head names (None: Kafka has no such API), and its version; {} if they have not come."""
    if conversation.dialect is not Dialect.KAFKA or len(head) < HEAD_SIZE:
        return {}
    key, version = unpack_api_and_version(int.from_bytes(head[4:8], "big"))
    return {"api": api_name(key), "version": version}
