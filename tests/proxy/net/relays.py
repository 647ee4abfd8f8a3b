"""Builds a relay between a scripted client and a scripted broker, with all that it needs."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from proxy.config import ClusterSettings, ProxySettings
from proxy.conversation import Cause, Conversation, Direction, Step
from proxy.metrics.nodes import BOOTSTRAP
from proxy.metrics.traffic import Traffic
from proxy.net.brokers.nodes import Nodes
from proxy.net.cluster import routes
from proxy.net.connection.relay import FRAMES_PER_TURN, ClusterContext, Relay
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.sockets.streams import Stream
from proxy.net.state.file import SavedState
from proxy.observer import OpenedConnection
from proxy.schema.addresses import Address
from tests.proxy.net.peers import HOST, PATIENCE, Peer, connected

ANY = Address(HOST, 0)
NONE: Mapping[int, Any] = {}
# the address that brokers give in these tests: nobody dials it
UPSTREAM = "up-1.invalid"


BROKER = Address(UPSTREAM, 9092)


def settings(
    *upstream: Address,
    listen: Address = ANY,
    advertise: str | None = None,
    named: Mapping[int, Address] = NONE,
    base: int | None = None,
    remembered: Mapping[int, int] = NONE,
    **others: Any,
) -> ClusterSettings:
    """Returns settings of a cluster on free ports."""
    return ClusterSettings(
        upstream or (BROKER,),
        listen,
        advertise=advertise,
        nodes=named,
        node_ports=base,
        remembered=remembered,
        **others,
    )


def whole(*clusters: ClusterSettings, **others: Any) -> ProxySettings:
    """Returns settings of a proxy with these clusters."""
    return ProxySettings(clusters, **others)


class Watcher:
    """An observer that notes everything, and runs a scripted action when bytes arrive."""

    session = "20261121T130500Z-watched"

    def __init__(self, on_arrival: Callable[[Direction, bytes], None] = lambda direction, chunk: None) -> None:
        self.must_wait = False
        self.failed = 0
        self.unwritten = 0
        self.losses: dict[str, int] = {}
        # callbacks for when there is space
        self.waiting: list[Callable[[], None]] = []
        self.on_arrival = on_arrival
        self.events: list[tuple[Any, ...]] = []
        self.bytes = dict.fromkeys(Direction, b"")
        # by cluster and kind (ids, upstreams, listeners)
        self.identities: dict[tuple[str, str], list[str]] = {}
        self.decisions: list[Mapping[str, str | int]] = []

    def opened(self, facts: OpenedConnection, talk: Conversation) -> None:
        self.events.append(("opened", facts))

    def arrived(self, connection: int, direction: Direction, chunk: bytes, at_ns: int, step: Step) -> None:
        self.events.append(("arrived", direction, chunk))
        self.bytes[direction] += chunk
        self.on_arrival(direction, chunk)

    def answered(self, connection: int, correlation_id: int, frame: bytes, at_ns: int) -> None:
        self.events.append(("answered", correlation_id, frame))

    def half_closed(self, connection: int, direction: Direction, at_ns: int) -> None:
        self.events.append(("half_closed", direction))

    def closed(self, connection: int, cause: Cause, at_ns: int, decision: Mapping[str, str | int]) -> None:
        self.events.append(("closed", connection, cause))
        self.decisions.append(decision)

    def node(self, node_id: int, upstream: str, listener: str, cluster: str) -> None:
        self.events.append(("node", node_id, upstream, listener))

    def identified(self, cluster: str, **of_it: Iterable[str]) -> None:
        for kind, values in of_it.items():
            self.identities.setdefault((cluster, kind), []).extend(values)

    def selection_change(self, recording: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        return partial(self._choose, recording), partial(self._choose, "as before")

    def _choose(self, recording: Any) -> None:
        self.events.append(("chosen", recording))

    def when_not_full(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def make_room(self) -> None:
        """Makes the recorder take more, and reports so in a thread of its own."""
        self.must_wait = False
        waiting, self.waiting = self.waiting, []
        thread = threading.Thread(target=lambda: [call() for call in waiting])
        thread.start()
        thread.join()

    @property
    def child_input(self) -> bytes:
        return b""

    def child_ended(self) -> None:
        self.events.append(("child ended",))

    def counters(self) -> Mapping[str, float]:
        return {"failed": self.failed}

    def close(self) -> None:
        self.events.append(("close",))

    def seen(self, name: str) -> list[tuple[Any, ...]]:
        return [event for event in self.events if event[0] == name]


@dataclass
class Listeners:
    """The listeners that `Nodes` opens: they stay open, but nothing accepts on them."""

    opened: dict[int, trio.SocketListener] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)

    def serve(self, listener: trio.SocketListener, node_id: int) -> Callable[[], None]:
        assert node_id not in self.opened
        self.opened[node_id] = listener
        self.ports[node_id] = listener.socket.getsockname()[1]
        return partial(self._close, node_id)

    def _close(self, node_id: int) -> None:
        self.opened.pop(node_id).socket.close()
        del self.ports[node_id]

    def close(self) -> None:
        for listener in self.opened.values():
            listener.socket.close()


class RelaysStream(Stream):
    """A stream whose functions a test can replace (`frames.divert`)."""


@dataclass
class Relaying:
    client: Peer
    broker: Peer
    # the relay's own ends of both connections
    to_client: RelaysStream
    to_broker: RelaysStream
    relay: Relay
    talk: Conversation
    traffic: Traffic
    watcher: Watcher
    listeners: Listeners
    finished: trio.Event = field(default_factory=trio.Event)
    cause: Cause | None = None
    fault: BaseException | None = None

    async def ends_with(self, *causes: Cause) -> None:
        """Asserts that the connection ends for one of these causes."""
        with trio.fail_after(PATIENCE):
            await self.finished.wait()
        if self.fault is not None:
            raise self.fault
        assert self.cause in causes

    async def run(self) -> None:
        try:
            self.cause = await self.relay.run()
        except Exception as fault:
            self.fault = fault
        finally:
            self.finished.set()
            for stream in (self.to_client, self.to_broker):
                stream.close()


@asynccontextmanager
async def relaying(
    watcher: Watcher | None = None,
    buffers: int = 0,
    advertise: str | None = None,
    held: HeldBytes | None = None,
    **others: Any,
) -> AsyncIterator[Relaying]:
    """Runs a relay during the `with` block. `buffers`: sizes of the sockets' buffers, which bound the bytes in them."""
    watcher = watcher or Watcher()
    chosen = settings(advertise=advertise, **others)
    listeners = Listeners()
    nodes = Nodes(chosen, listeners.serve, SavedState(), watcher)
    traffic = Traffic()
    context = ClusterContext(
        chosen, nodes, traffic, held or HeldBytes(1 << 28, 30), watcher, RecorderBackpressure(watcher)
    )
    client, inner = connected(buffers=buffers)
    outer, broker = connected(buffers=buffers)
    talk = Conversation(routes(chosen.dialect), chosen.limits, max_frames=FRAMES_PER_TURN)
    to_client, to_broker = RelaysStream(inner, "client"), RelaysStream(outer, "broker")
    relay = Relay(traffic.connection(1, BOOTSTRAP, talk.login), to_client, to_broker, talk, context)
    relaying = Relaying(Peer(client), Peer(broker), to_client, to_broker, relay, talk, traffic, watcher, listeners)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(relaying.run)
            yield relaying
            nursery.cancel_scope.cancel()
    finally:
        relaying.client.close()
        relaying.broker.close()
        listeners.close()


def listens(port: int) -> bool:
    """True if connections there are accepted now. Blocks for a moment."""
    with socket.socket() as sock:
        return sock.connect_ex((HOST, port)) == 0
