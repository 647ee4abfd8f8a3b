"""The limits of a cluster's connections: their bytes, times and number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from proxy.config.mapping import Mapped
from proxy.schema.keys import Key
from proxy.schema.kinds import COUNT, LIMIT, NETWORK_TIMEOUT, at_least
from proxy.units import MIB
from proxy.wire.framing import FrameLimits

LIMITS = FrameLimits()


@dataclass(frozen=True, slots=True)
class Flow(Mapped):
    """The keys that set limits and times."""

    request_limit: Annotated[
        int,
        Key(
            LIMIT,
            "limits.request",
            "The longest request that is let through; brokers' own limit is socket.request.max.bytes.",
            "100MiB",
        ),
    ] = LIMITS.request
    response_limit: Annotated[
        int, Key(LIMIT, "limits.response", "The longest response that is let through.", "1GiB")
    ] = LIMITS.response
    hold_limit: Annotated[
        int,
        Key(
            LIMIT,
            "limits.hold",
            "The longest response that is held whole to be rewritten; a connection with a longer one is closed.",
            "64MiB",
        ),
    ] = 64 * MIB
    dial_seconds: Annotated[
        float,
        Key(
            NETWORK_TIMEOUT,
            "timeouts.dial",
            "How long a broker may take to accept a connection, the look-up of its name included.",
            "10s",
        ),
    ] = 10
    # a client waits for an answer no longer than its request.timeout.ms, 30 s by default
    half_close_seconds: Annotated[
        float,
        Key(
            NETWORK_TIMEOUT,
            "timeouts.half_close",
            "How long a client's end of stream is kept from the broker while answers are in flight.",
            "30s",
        ),
    ] = 30
    tls_seconds: Annotated[
        float,
        Key(
            NETWORK_TIMEOUT, "timeouts.tls", "How long a TLS handshake may take, with clients and with brokers.", "10s"
        ),
    ] = 10
    idle_seconds: Annotated[
        float | None,
        Key(
            NETWORK_TIMEOUT,
            "timeouts.idle",
            "Close a connection on which no byte has moved for this long, unless an answer is owed.",
            "15m",
            unset="never: brokers end idle connections themselves (connections.max.idle.ms, 10 minutes by default)",
        ),
    ] = None
    age_seconds: Annotated[
        float | None,
        Key(
            NETWORK_TIMEOUT,
            "timeouts.age",
            "End a connection that is this old, give or take a tenth at random. What the proxy has read is answered "
            "first. The client connects again, through a load balancer perhaps to another proxy.",
            "30m",
            unset="any age",
        ),
    ] = None
    keepalive_seconds: Annotated[
        float,
        Key(
            # the kernel counts in seconds
            at_least(1),
            "timeouts.keepalive",
            "After this much silence the kernel asks whether the peer's machine is still there. If there is no answer "
            "for as long again, the connection ends.",
            "2m",
        ),
    ] = 60
    forget_node_seconds: Annotated[
        float,
        Key(
            NETWORK_TIMEOUT,
            "timeouts.forget_node",
            "A node that no answer has named for this long, and that nobody is connected to, gives its listener back. "
            "Its port stays its own. Time without answers that list the cluster's nodes does not count.",
            "10m",
        ),
    ] = 3600
    connection_limit: Annotated[
        int | None,
        Key(
            COUNT,
            "limits.connections",
            "The most connections of this cluster's clients at the same time. Further ones are closed at once.",
            2000,
            unset="as many as files may be open",
        ),
    ] = None
    address_limit: Annotated[
        int | None,
        Key(
            COUNT,
            "limits.connections_per_address",
            "The most connections from one IP address at the same time. Further ones are closed at once.",
            200,
            unset="any number",
        ),
    ] = None
