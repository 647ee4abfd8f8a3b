"""One cluster that the proxy stands for: its listeners and their connections.

A proxy has one `Cluster` for each cluster; they share a `ProxyContext`; `Parts` differ in a parent and in its
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
from proxy.net.change import Change, do_nothing
from proxy.net.connection.relay import FRAMES_PER_TURN, ClusterContext, Relay
from proxy.net.connection.rewriting import is_rewritten
from proxy.net.limits.connections import ConnectionLimit, TooManyConnections
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.limits.idle import end_idle
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.log_throttle import LogThrottle
from proxy.net.observer import Observer, OpenedConnection
from proxy.net.sockets.proxy_header import NoHeader, NothingSent, read_header
from proxy.net.sockets.proxy_protocol import ClientEndpoints
from proxy.net.sockets.streams import PeerLost, Stream, accepted
from proxy.net.sockets.tls import ClusterTls, LiveCredentials, NoHandshake, UnknownName, cluster_tls, towards_client
from proxy.net.state.file import NotAState, SavedState, read_state, unreadable
from proxy.rewrite import addresses, api_versions
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting
from proxy.wire.dialects import Dialect
from proxy.wire.keys import API_VERSIONS

# the pause after accept() has failed with EMFILE and the like: a connection may end meanwhile
ACCEPT_PAUSE = 0.1
# known nodes whose listeners are opened before the proxy reports that it listens: more than any cluster of today has,
# opened within a second. To find a free port among ten thousand taken ones costs the kernel milliseconds
MAX_AT_START = 1000
# a client that reads the end of its connection closes it at once; the proxy waits no longer for one that hangs
LINGER_SECONDS = 5.0
# causes of an end after which the client may not have read all that was sent to it
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
# causes of an end after which responses of the broker may still arrive. A connection that is closed with unread ones is
# reset, and requests that the broker has not read yet (acks=0) are lost
FLUSHED = frozenset(
    (Cause.CLIENT_RESET, Cause.CLIENT_LOST, Cause.STALLED, Cause.UNEXPECTED_RESPONSE, Cause.NOT_REWRITABLE)
)
# causes with which clients leave a broker that takes their connections and never answers
GIVEN_UP = frozenset((Cause.CLIENT_CLOSED, Cause.CLIENT_RESET, Cause.CLIENT_LOST))


def routes(dialect: Dialect = Dialect.KAFKA) -> Routes:
    """The routes of each API and version: see docs/proxy.md."""
    if dialect is Dialect.KAFKA_07:
        return Routes07()
    return Routes.to_record(
        rewritten=is_rewritten,
        answered_by_proxy=lambda key, version: key == API_VERSIONS and version > api_versions.newest_known(),
        refused=_is_refused,
    )


def _is_refused(key: int, version: int) -> bool:
    """True if the response may name brokers in fields that the proxy does not know."""
    newest = addresses.newest(key)
    return newest is not None and version > newest


@dataclass(frozen=True, slots=True)
class ProxyContext:
    """Everything that all clusters of a proxy share.

    Args:
        numbers: the connections' numbers.
        held: the limit on bytes held in all connections.
        limit: the limit on connections.
        backpressure: has sockets wait for an observer that is full.
        stopping: set once the proxy is to stop.
        accepting: the nursery that ends once the proxy is to stop.
        connections: the nursery in which connections finish.
        seed: a number that all processes of this proxy share, and no other proxy has.
    """

    numbers: Iterator[int]
    held: HeldBytes
    limit: ConnectionLimit
    observer: Observer | None
    backpressure: RecorderBackpressure | None
    stopping: trio.Event
    accepting: trio.Nursery
    connections: trio.Nursery
    seed: int = 0


# accepts the next client of a listener: its socket and its address
Accept = Callable[[trio.SocketListener], Awaitable[tuple[trio.socket.SocketType, Any]]]
# accepts on a listener for a node, or None for bootstrap, from now on
Serve = Callable[[trio.SocketListener, int | None], None]


async def accept_next(listener: trio.SocketListener) -> tuple[trio.socket.SocketType, Any]:
    """See `Accept`. Accepts the client as soon as it connects."""
    return await listener.socket.accept()


class Parts(NamedTuple):
    """The parts of a cluster that differ in a proxy of one process, in a parent and in a worker.

    nodes: makes the node table, which hands each listener that it opens to the `Serve`.
    upstreams: makes the `Upstreams` of these nodes.
    serve: called with each listener; None: the cluster accepts on it itself.
    accept: accepts the next client of a listener.
    opened, closed: called when a connection begins, and when it has ended.
    """

    nodes: Callable[[Serve], Nodes]
    upstreams: Callable[[Nodes, LiveCredentials | None, DiscoveryQuery], Upstreams]
    serve: Serve | None = None
    accept: Accept = accept_next
    opened: Callable[[], None] = do_nothing
    closed: Callable[[], None] = do_nothing


def single_process_parts(settings: ClusterSettings, context: ProxyContext, reserved: tuple[range, ...] = ()) -> Parts:
    """The parts of a proxy of one process. `reserved`: ports of other clusters."""
    return Parts(
        nodes=lambda serve: Nodes(settings, serve, known_nodes(settings), context.observer, reserved),
        upstreams=partial(Upstreams, settings),
    )


def known_nodes(settings: ClusterSettings) -> SavedState:
    """The state in the cluster's state file. Raises BadSetting."""
    if settings.state is None:
        return SavedState()
    try:
        return read_state(settings.state)
    except (NotAState, OSError) as error:
        raise BadSetting(unreadable(settings.state, error), cluster=settings.name) from error


class Arrival(NamedTuple):
    """A client that was accepted: the endpoints of its connection, and the node and the listener that it connected to.

    entering: cancels the connection until header and handshake have told who the client is.
    """

    client: Stream
    endpoints: ClientEndpoints
    node_id: int | None
    listener: str
    entering: trio.CancelScope


class Cluster:
    """Everything of one cluster, from start to stop."""

    def __init__(self, settings: ClusterSettings, context: ProxyContext, parts: Parts) -> None:
        self.name = settings.name
        self.traffic = Traffic()
        self._settings = settings
        self._context = context
        self._parts = parts
        self._routes = routes(settings.dialect)
        self._tls = cluster_tls(settings)
        self._discovery = DiscoveryQuery(context.seed, settings.name)
        self._log_throttle = LogThrottle()
        self._serve = parts.serve or self.accept_on
        self.nodes = parts.nodes(self._serve)
        self.upstreams = parts.upstreams(self.nodes, self._tls.upstream, self._discovery)
        of_all = (context.held, context.observer, context.backpressure, self._log_throttle, self._discovery)
        self._cluster_context = ClusterContext(settings, self.nodes, self.traffic, *of_all)
        self._limit = ConnectionLimit(settings.connection_limit, self.name)
        self._address_limit = ConnectionLimit(settings.address_limit, self.name)
        self._relays: set[Relay] = set()
        self._entering: set[trio.CancelScope] = set()
        # how many connections have not ended; set when one ends
        self._open = 0
        self._ended = trio.Event()

    async def listen(self) -> Address:
        """Opens the listeners of all known nodes; returns the bootstrap listener's address. Raises BadSetting.

        Listeners of known nodes beyond the first `MAX_AT_START` are opened later.
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
        await self.nodes.listen_for_known(known[:MAX_AT_START])
        self._context.accepting.start_soon(self.nodes.listen_for_known, known[MAX_AT_START:])
        self._context.accepting.start_soon(self.upstreams.keep_discovering)
        self.watch_idle()
        return listening

    def watch_idle(self) -> None:
        """Ends connections on which nothing moves, from now on, if the settings say so."""
        if self._settings.idle_seconds is not None:
            self._context.accepting.start_soon(end_idle, self._relays, self._settings.idle_seconds)

    def read_certificates(self, settings: ClusterSettings) -> ClusterTls | None:
        """The certificates that new settings name; None if they are the same. Blocks. Raises BadSetting."""
        same = (settings.tls, settings.upstream_tls) == (self._settings.tls, self._settings.upstream_tls)
        return None if same else cluster_tls(settings)

    async def prepared(self, settings: ClusterSettings, certificates: ClusterTls | None) -> list[Change]:
        """The changes that put new settings into effect. Raises BadSetting.

        Args:
            certificates: the result of `read_certificates` for these settings.
        """
        new = replace(self._settings, tls=settings.tls, upstream_tls=settings.upstream_tls)
        apply = partial(self._put_into_effect, new, certificates if certificates is not None else self._tls)
        undo = partial(self._put_into_effect, self._settings, self._tls)
        return [await self.nodes.prepared(settings.node_map), Change(apply, undo)]

    def _put_into_effect(self, settings: ClusterSettings, cluster_tls: ClusterTls) -> None:
        self._settings, self._tls = settings, cluster_tls
        self.upstreams.take(settings, cluster_tls.upstream)

    def _listen(self) -> Address:
        wanted = self._settings.listen
        try:
            sock = bind(wanted)
        except OSError as error:
            wrong = Setting("listen", wanted), f" can't be had ({error.strerror})"
            right = "a free port of this machine, for example ", Setting("listen", "127.0.0.1:19092")
            raise BadSetting(Fault(wrong, right)) from error
        listening = Address(wanted.host, sock.getsockname()[1])
        self.nodes.add_bootstrap(sock, listening)
        self._serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), self._settings.node_map.own_node)
        return listening

    def drain(self) -> None:
        """Has connections end at their next frame boundary, once the requests in flight are answered."""
        for relay in set(self._relays):
            relay.drain()
        # connections that are still entering have nothing in flight
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
        return sum(not relay.may_end_now for relay in self._relays)

    def accept_on(self, listener: trio.SocketListener, node_id: int | None) -> None:
        """See `Serve`. The socket listens already, so no client is refused before the task runs."""
        if self._context.stopping.is_set():
            # a response in flight has named a new node: its listener is closed like all others
            listener.socket.close()
        else:
            self._context.accepting.start_soon(self._accept_all, listener, node_id)

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
        """The arrival of an accepted client. Raises OSError, or any fault; the socket is then closed."""
        try:
            endpoints = ClientEndpoints(Address(*peer[:2]), Address(*sock.getsockname()[:2]))
            client = self._stream(sock, str(endpoints.client))
        except BaseException:
            sock.close()
            raise
        return Arrival(client, endpoints, node_id, here, trio.CancelScope())

    def _stream(self, sock: trio.socket.SocketType, client: str) -> Stream:
        plain = accepted(sock, client, self._settings.keepalive_seconds)
        try:
            return towards_client(plain, self._tls.listener)
        except BaseException:
            plain.close()
            raise

    def _begin(self, arrival: Arrival) -> None:
        """Counts the connection as open, until `_connection` ends."""
        self._open += 1
        self._parts.opened()
        self._context.connections.start_soon(self._connection, arrival)

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
        number = next(self._context.numbers)
        conversation = Conversation(self._routes, self._settings.limits, max_frames=FRAMES_PER_TURN)
        # the cause that stands if this task is cancelled
        cause = Cause.DRAIN_DEADLINE
        self.traffic.opened()
        try:
            with self._context.limit.admit(), self._limit.admit():
                self._entering.add(arrival.entering)
                with arrival.entering:
                    cause = await self._let_in(number, arrival, conversation)
                if arrival.entering.cancelled_caught:
                    cause = Cause.DRAINED
        except* TooManyConnections:
            cause = Cause.TOO_MANY_CONNECTIONS
        except* Exception:
            cause = Cause.PROXY_FAULT
            log(ERROR, "fault in a connection", trace=True, connection=number)
        finally:
            self._entering.discard(arrival.entering)
            self.traffic.closed(cause, conversation.unfinished, conversation.login)
            peer, meant = arrival.client.peer, self._named(arrival)
            log(DEBUG, "connection closed", connection=number, client=peer, **meant, cause=cause)
        return cause

    async def _let_in(self, number: int, arrival: Arrival, conversation: Conversation) -> Cause:
        """Finds out who the client is, then connects it."""
        client, endpoints = arrival.client, arrival.endpoints
        trusted = self._settings.accept_proxy and self._settings.trusts(endpoints.client.host)
        if self._settings.accept_proxy and not trusted and self._settings.others is Others.REFUSED:
            self._log_refused("no load balancer that is trusted", arrival, "")
            return Cause.UNTRUSTED
        if trusted:
            try:
                endpoints = await read_header(client, self._settings.header_seconds) or endpoints
            except NothingSent:
                return Cause.CLIENT_CLOSED
            except PeerLost:
                return Cause.CLIENT_RESET
            except NoHeader as reason:
                self._log_refused("no header of the PROXY protocol", arrival, str(reason))
                return Cause.BAD_PROXY_HEADER
            client.peer = str(endpoints.client)
        with self._address_limit.admit(endpoints.client.host):
            return await self._connected(number, arrival._replace(endpoints=endpoints), conversation)

    async def _connected(self, number: int, arrival: Arrival, conversation: Conversation) -> Cause:
        client = arrival.client
        try:
            await client.handshake(self._settings.tls_seconds)
        except NoHandshake as reason:
            self._log_refused("no TLS with a client", arrival, str(reason))
            return Cause.UNKNOWN_NAME if isinstance(reason, UnknownName) else Cause.TLS_HANDSHAKE
        self._entering.discard(arrival.entering)
        # the handshake has refused names that mean no node
        node_id = self._settings.node_map.requested_node(arrival.node_id, client.server_name)
        broker = await self.upstreams.connect(number, node_id, arrival.endpoints)
        if isinstance(broker, Cause):
            return broker
        at = (number, time.monotonic_ns(), arrival.listener, client.peer, node_id, broker.peer)
        facts = OpenedConnection(*at, client.is_tls, self.name, client.principal)
        try:
            if self.upstreams.opened(broker.peer):
                self._context.connections.start_soon(self.upstreams.check_for_loop, broker.peer)
            relay = Relay(number, client, broker, conversation, self._cluster_context)
            cause = await self._relayed(relay, conversation, facts)
            if cause in GIVEN_UP and conversation.in_flight and not conversation.offsets[Direction.RESPONSE]:
                self.upstreams.bootstrap.report_silent(broker.peer)
            if cause in FLUSHED:
                await broker.finish(LINGER_SECONDS)
            return cause
        finally:
            self.upstreams.closed(broker.peer)
            broker.close()

    def _named(self, arrival: Arrival) -> dict[str, Any]:
        """The node that a client wants, as a key for the log; {} if that is not known."""
        node_id = arrival.node_id
        with suppress(ValueError):
            node_id = self._settings.node_map.requested_node(node_id, arrival.client.server_name)
        return {} if node_id is None else {"node": node_id}

    def _log_refused(self, event: str, arrival: Arrival, reason: str) -> None:
        """Logs why a client is refused: as a warning unless the reason was logged lately."""
        level, client = self._log_throttle.level(reason), arrival.client
        name: dict[str, Any] = {} if client.server_name is None else {"asked_for": client.server_name}
        log(level, event, listener=arrival.listener, client=client.peer, **name, reason=reason)

    async def _relayed(self, relay: Relay, conversation: Conversation, facts: OpenedConnection) -> Cause:
        observer = self._context.observer
        if observer is not None:
            observer.opened(facts, conversation)
        self._relays.add(relay)
        try:
            if self._context.stopping.is_set():
                relay.drain()
            return await relay.run()
        finally:
            self._relays.discard(relay)
            if observer is not None:
                observer.closed(facts.connection, relay.cause, time.monotonic_ns())
