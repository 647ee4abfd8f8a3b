"""One cluster that the proxy stands for: its listeners, and the connections that they accept.

A proxy has one `Cluster` for each cluster; `Common` is what they share, `Parts` what differs in a parent and in its
workers. The two nurseries are the proxy's: the inner one accepts until the proxy stops, the outer one finishes what was
accepted.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, NamedTuple

import trio

from proxy.config import ClusterSettings, Others
from proxy.conversation import Cause, Conversation, Direction, Routes, Routes07
from proxy.log import log
from proxy.metrics.traffic import Traffic
from proxy.net.brokers.discovery import DiscoveryQuery
from proxy.net.brokers.nodes import Nodes, bind
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.change import Change, nothing_else
from proxy.net.connection.relay import TURN, Relay, Shared
from proxy.net.connection.rewriting import is_rewritten
from proxy.net.limits.connections import ConnectionLimit, TooManyConnections
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.limits.idle import end_idle
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.log_throttle import LogThrottle
from proxy.net.observer import Observer, Opened
from proxy.net.sockets.proxy_header import Gone, NoHeader, read_header
from proxy.net.sockets.proxy_protocol import Route
from proxy.net.sockets.streams import PeerLost, Stream, accepted
from proxy.net.sockets.tls import Followed, NoHandshake, Secured, UnknownName, secured, towards_client
from proxy.net.state.file import NotAState, State, read_state, unreadable
from proxy.rewrite import addresses, api_versions
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting
from proxy.wire import catalog
from proxy.wire.apis import MessageKind
from proxy.wire.dialects import Dialect
from proxy.wire.keys import API_VERSIONS, SASL_HANDSHAKE

# how long to wait for a connection to end where accept() fails with EMFILE and the like
ACCEPT_PAUSE = 0.1
# known nodes whose listeners are opened before the proxy says that it listens: more than any cluster of today has, and
# they open within a second. A free port among ten thousand that are taken costs the kernel milliseconds
MOST_AT_START = 1000
# a client that reads the end of its connection closes it at once; the proxy waits no longer for one that hangs
LINGER_SECONDS = 5.0
# ends after which the client may not have taken all that was sent to it
LINGERING = frozenset(Cause) - {
    Cause.CLIENT_CLOSED,
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
# ends after which the broker may have responses on their way that nobody reads. A connection that is closed with these
# unread is reset, and requests that the broker has not taken yet (acks=0) are lost
FLUSHED = frozenset(
    (Cause.CLIENT_RESET, Cause.CLIENT_LOST, Cause.STALLED, Cause.UNEXPECTED_RESPONSE, Cause.NOT_REWRITABLE)
)
# how clients leave a broker that takes their connections and answers nothing
GIVEN_UP = frozenset((Cause.CLIENT_CLOSED, Cause.CLIENT_RESET, Cause.CLIENT_LOST))


def routes(dialect: Dialect = Dialect.KAFKA) -> Routes:
    """The routes of each API and version: see docs/proxy.md."""
    if dialect is Dialect.KAFKA_07:
        return Routes07()
    return Routes(
        # a handshake holds no secret, but says whose name stands in the tokens behind it
        mark_request=lambda key, version: key == SASL_HANDSHAKE or _holds_secret("request", key, version),
        mark_response=lambda key, version: is_rewritten(key, version) or _holds_secret("response", key, version),
        # the recorder looks for the secrets in these; in those of unknown versions it masks everything
        looks_through_request=lambda key, version: bool(catalog.secrets("request", key, version)),
        looks_through_response=lambda key, version: bool(catalog.secrets("response", key, version)),
        answered=lambda key, version: key == API_VERSIONS and version > api_versions.newest_known(),
        refused=_is_refused,
    )


def _holds_secret(kind: MessageKind, key: int, version: int) -> bool:
    if catalog.known(key, version):
        return bool(catalog.secrets(kind, key, version))
    return catalog.may_hold_secrets(kind, key)


def _is_refused(key: int, version: int) -> bool:
    """Whether the response would name brokers where the proxy does not know to look."""
    newest = addresses.newest(key)
    return newest is not None and version > newest


@dataclass(frozen=True, slots=True)
class Common:
    """Everything that all clusters of a proxy use together.

    Args:
        numbers: the connections' numbers.
        held: the limit on bytes held in all connections.
        limit: the limit on connections.
        room: where sockets wait for the observer.
        stopping: set once the proxy is to stop.
        accepting: the nursery that ends once the proxy is to stop.
        connections: the nursery in which connections come to their end.
        seed: a number that all processes of this proxy have in common, and no other proxy.
    """

    numbers: Iterator[int]
    held: HeldBytes
    limit: ConnectionLimit
    observer: Observer | None
    room: RecorderBackpressure | None
    stopping: trio.Event
    accepting: trio.Nursery
    connections: trio.Nursery
    seed: int = 0


# takes the next client of a listener: its socket, and where it comes from
Accept = Callable[[trio.SocketListener], Awaitable[tuple[trio.socket.SocketType, Any]]]
# accepts on a listener for a node, or None for bootstrap, from now on
Serve = Callable[[trio.SocketListener, int | None], None]


async def accept_next(listener: trio.SocketListener) -> tuple[trio.socket.SocketType, Any]:
    """See `Accept`. Takes the client as soon as it is there."""
    return await listener.socket.accept()


class Parts(NamedTuple):
    """The parts of a cluster that differ in a proxy of one process, in a parent and in a worker.

    nodes: makes the node table; each listener that the table opens goes to the `Serve`.
    upstreams: makes the way to the brokers of these nodes.
    serve: takes the listeners; None: the cluster accepts on them itself.
    accept: takes the next client of a listener.
    opened, closed: called when a connection begins, and when it has ended.
    """

    nodes: Callable[[Serve], Nodes]
    upstreams: Callable[[Nodes, Followed | None, DiscoveryQuery], Upstreams]
    serve: Serve | None = None
    accept: Accept = accept_next
    opened: Callable[[], None] = nothing_else
    closed: Callable[[], None] = nothing_else


def own_parts(settings: ClusterSettings, common: Common, reserved: tuple[range, ...] = ()) -> Parts:
    """The parts of a proxy of one process. `reserved`: ports that are other clusters'."""
    return Parts(
        nodes=lambda serve: Nodes(settings, serve, known_nodes(settings), common.observer, reserved),
        upstreams=partial(Upstreams, settings),
    )


def known_nodes(settings: ClusterSettings) -> State:
    """What the cluster's state file says. Raises BadSetting."""
    if settings.state is None:
        return State()
    try:
        return read_state(settings.state)
    except (NotAState, OSError) as error:
        raise BadSetting(unreadable(settings.state, error), cluster=settings.name) from error


class Arrival(NamedTuple):
    """A client that was accepted: the route of its connection, and the node and the listener that it connected to.

    entering: the time until header and handshake have said who the client is.
    """

    client: Stream
    route: Route
    node_id: int | None
    listener: str
    entering: trio.CancelScope


class Cluster:
    """Everything of one cluster, from start to stop."""

    def __init__(self, settings: ClusterSettings, common: Common, parts: Parts) -> None:
        self.name = settings.name
        self.traffic = Traffic()
        self._settings = settings
        self._common = common
        self._parts = parts
        self._routes = routes(settings.dialect)
        self._secured = secured(settings)
        self._question = DiscoveryQuery(common.seed, settings.name)
        self._news = LogThrottle()
        self._serve = parts.serve or self.accept_on
        self.nodes = parts.nodes(self._serve)
        self.upstreams = parts.upstreams(self.nodes, self._secured.upstream, self._question)
        of_all = (common.held, common.observer, common.room)
        self._shared = Shared(settings, self.nodes, self.traffic, *of_all, self._news, self._question)
        self._limit = ConnectionLimit(settings.connection_limit, self.name)
        self._address_limit = ConnectionLimit(settings.address_limit, self.name)
        self._relays: set[Relay] = set()
        self._entering: set[trio.CancelScope] = set()
        # how many connections have not ended; set when one ends
        self._open = 0
        self._ended = trio.Event()

    async def listen(self) -> Address:
        """Opens the listeners of all known nodes; returns the bootstrap listener's address. Raises BadSetting.

        Of very many known nodes, the listeners behind the first `MOST_AT_START` are opened later.
        """
        for warning in self._settings.node_map.warnings:
            log(WARNING, warning, cluster=self.name)
        try:
            listening = self._listen()
            self.nodes.listen_for_named()
        except BadSetting as error:
            raise BadSetting(*error.faults, cluster=self.name) from error
        known = self.nodes.known
        if self._settings.state is not None:
            log(INFO, "nodes are kept", cluster=self.name, state=self._settings.state, known=len(known))
        await self.nodes.listen_for_known(known[:MOST_AT_START])
        self._common.accepting.start_soon(self.nodes.listen_for_known, known[MOST_AT_START:])
        self._common.accepting.start_soon(self.upstreams.keep_asking)
        self.watch_idle()
        return listening

    def watch_idle(self) -> None:
        """Ends connections on which nothing moves, from now on, if the settings say so."""
        if self._settings.idle_seconds is not None:
            self._common.accepting.start_soon(end_idle, self._relays, self._settings.idle_seconds)

    def read(self, settings: ClusterSettings) -> Secured | None:
        """The certificates of these settings; None where they are the present ones. Blocks. Raises BadSetting."""
        same = (settings.tls, settings.upstream_tls) == (self._settings.tls, self._settings.upstream_tls)
        return None if same else secured(settings)

    async def prepared(self, settings: ClusterSettings, found: Secured | None) -> list[Change]:
        """The changes that put new settings into effect. Raises BadSetting.

        Args:
            found: the result of `read` for these settings.
        """
        new = replace(self._settings, tls=settings.tls, upstream_tls=settings.upstream_tls)
        take = partial(self._take, new, found if found is not None else self._secured)
        put_back = partial(self._take, self._settings, self._secured)
        return [await self.nodes.prepared(settings.node_map), Change(take, put_back)]

    def _take(self, settings: ClusterSettings, secured: Secured) -> None:
        self._settings, self._secured = settings, secured
        self.upstreams.take(settings, secured.upstream)

    def _listen(self) -> Address:
        wanted = self._settings.listen
        try:
            sock = bind(wanted)
        except OSError as error:
            wrong = Setting("listen", wanted), f" can't be had ({error.strerror})"
            right = "a free port of this machine, for example ", Setting("listen", "127.0.0.1:19092")
            raise BadSetting(Fault(wrong, right)) from error
        listening = Address(wanted.host, sock.getsockname()[1])
        self.nodes.bootstrap_at(sock, listening)
        self._serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), self._settings.node_map.own)
        return listening

    def drain(self) -> None:
        """Has connections end at their next frame boundary, once what is in flight is answered."""
        for relay in set(self._relays):
            relay.drain()
        # clients that are still entering have nothing in flight
        for scope in set(self._entering):
            scope.cancel()

    async def ended(self) -> None:
        """Returns when no connection is open."""
        while self._open:
            self._ended = trio.Event()
            await self._ended.wait()

    @property
    def unfinished(self) -> int:
        """How many connections lose something if they end now."""
        return sum(not relay.is_idle for relay in self._relays)

    def accept_on(self, listener: trio.SocketListener, node_id: int | None) -> None:
        """See `Serve`. The socket listens already, so nobody is turned away until the task runs."""
        if self._common.stopping.is_set():
            # a response in flight names a new node: its listener is closed like all others
            listener.socket.close()
        else:
            self._common.accepting.start_soon(self._accept_all, listener, node_id)

    async def _accept_all(self, listener: trio.SocketListener, node_id: int | None) -> None:
        here = str(Address(*listener.socket.getsockname()[:2]))
        refused = 0
        async with listener:
            while True:
                try:
                    sock, peer = await self._parts.accept(listener)
                    arrival = self._arrived(sock, peer, node_id, here)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    if error.errno != refused:
                        log(WARNING, "connections can't be accepted", listener=here, reason=error.strerror)
                        refused = error.errno or 0
                    await trio.sleep(ACCEPT_PAUSE)
                    continue
                except Exception:
                    # that connection has been closed; the listener must go on for others
                    log(ERROR, "fault in a connection that begins", trace=True, listener=here)
                    await trio.sleep(ACCEPT_PAUSE)
                    continue
                refused = 0
                self._begin(arrival)

    def _arrived(self, sock: trio.socket.SocketType, peer: Any, node_id: int | None, here: str) -> Arrival:
        """A client's connection as it begins. Raises OSError, or a fault: then it is closed."""
        try:
            route = Route(Address(*peer[:2]), Address(*sock.getsockname()[:2]))
            client = self._stream(sock, str(route.client))
        except BaseException:
            sock.close()
            raise
        return Arrival(client, route, node_id, here, trio.CancelScope())

    def _stream(self, sock: trio.socket.SocketType, client: str) -> Stream:
        plain = accepted(sock, client, self._settings.keepalive_seconds)
        try:
            return towards_client(plain, self._secured.listener)
        except BaseException:
            plain.close()
            raise

    def _begin(self, arrival: Arrival) -> None:
        """Counts the connection as open, until `_connection` ends."""
        self._open += 1
        self._parts.opened()
        self._common.connections.start_soon(self._connection, arrival)

    async def _connection(self, arrival: Arrival) -> None:
        """One client, from its first byte to its last."""
        try:
            cause = await self._served(arrival)
            # a client that was still entering has asked for nothing
            if cause in LINGERING and not arrival.entering.cancel_called:
                await arrival.client.finish(LINGER_SECONDS)
        finally:
            arrival.client.close()
            self._open -= 1
            self._parts.closed()
            self._ended.set()

    async def _served(self, arrival: Arrival) -> Cause:
        """Serves a connection and counts it. A fault in a connection ends no other."""
        number = next(self._common.numbers)
        talk = Conversation(self._routes, self._settings.limits, most_frames=TURN)
        # the cause that stands if this task is cancelled
        cause = Cause.DRAIN_DEADLINE
        self.traffic.opened()
        try:
            with self._common.limit.place(), self._limit.place():
                self._entering.add(arrival.entering)
                with arrival.entering:
                    cause = await self._let_in(number, arrival, talk)
                if arrival.entering.cancelled_caught:
                    cause = Cause.DRAINED
        except* TooManyConnections:
            cause = Cause.TOO_MANY_CONNECTIONS
        except* Exception:
            cause = Cause.PROXY_FAULT
            log(ERROR, "fault in a connection", trace=True, connection=number)
        finally:
            self._entering.discard(arrival.entering)
            self.traffic.closed(cause, talk.unfinished, talk.login)
            peer, meant = arrival.client.peer, self._named(arrival)
            log(DEBUG, "connection closed", connection=number, client=peer, **meant, cause=cause)
        return cause

    async def _let_in(self, number: int, arrival: Arrival, talk: Conversation) -> Cause:
        """Finds out who the client is, then connects it."""
        client, route = arrival.client, arrival.route
        trusted = self._settings.accept_proxy and self._settings.trusts(route.client.host)
        if self._settings.accept_proxy and not trusted and self._settings.others is Others.REFUSED:
            self._say_refused("no load balancer that is trusted", arrival, "")
            return Cause.UNTRUSTED
        if trusted:
            try:
                route = await read_header(client, self._settings.header_seconds) or route
            except Gone:
                return Cause.CLIENT_CLOSED
            except PeerLost:
                return Cause.CLIENT_RESET
            except NoHeader as reason:
                self._say_refused("no header of the PROXY protocol", arrival, str(reason))
                return Cause.BAD_PROXY_HEADER
            client.peer = str(route.client)
        with self._address_limit.place(route.client.host):
            return await self._connected(number, arrival._replace(route=route), talk)

    async def _connected(self, number: int, arrival: Arrival, talk: Conversation) -> Cause:
        client = arrival.client
        try:
            await client.handshake(self._settings.tls_seconds)
        except NoHandshake as reason:
            self._say_refused("no TLS with a client", arrival, str(reason))
            return Cause.UNKNOWN_NAME if isinstance(reason, UnknownName) else Cause.TLS_HANDSHAKE
        self._entering.discard(arrival.entering)
        # the handshake has refused names that mean no node
        node_id = self._settings.node_map.meant(arrival.node_id, client.server_name)
        broker = await self.upstreams.connect(number, node_id, arrival.route)
        if isinstance(broker, Cause):
            return broker
        at = (number, time.monotonic_ns(), arrival.listener, client.peer, node_id, broker.peer)
        facts = Opened(*at, client.is_tls, self.name, client.principal)
        try:
            if self.upstreams.opened(broker.peer):
                self._common.connections.start_soon(self.upstreams.ask_whether_it_leads_back, broker.peer)
            cause = await self._relayed(Relay(number, client, broker, talk, self._shared), talk, facts)
            if cause in GIVEN_UP and talk.in_flight and not talk.offsets[Direction.RESPONSE]:
                self.upstreams.bootstrap.was_silent(broker.peer)
            if cause in FLUSHED:
                await broker.finish(LINGER_SECONDS)
            return cause
        finally:
            self.upstreams.closed(broker.peer)
            broker.close()

    def _named(self, arrival: Arrival) -> dict[str, Any]:
        """The node that a client wants, for the log, if it wants one and that could be told."""
        node_id = arrival.node_id
        with suppress(ValueError):
            node_id = self._settings.node_map.meant(node_id, arrival.client.server_name)
        return {} if node_id is None else {"node": node_id}

    def _say_refused(self, event: str, arrival: Arrival, reason: str) -> None:
        """Logs why a client is not let in: as a warning when that is news."""
        level, client = self._news.level(reason), arrival.client
        name: dict[str, Any] = {} if client.server_name is None else {"asked_for": client.server_name}
        log(level, event, listener=arrival.listener, client=client.peer, **name, reason=reason)

    async def _relayed(self, relay: Relay, talk: Conversation, facts: Opened) -> Cause:
        observer = self._common.observer
        if observer is not None:
            observer.opened(facts, talk)
        self._relays.add(relay)
        try:
            if self._common.stopping.is_set():
                relay.drain()
            return await relay.run()
        finally:
            self._relays.discard(relay)
            if observer is not None:
                observer.closed(facts.connection, relay.cause, time.monotonic_ns())
