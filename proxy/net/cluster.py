"""One cluster that the proxy stands for: its listeners and their connections.

`server.py` makes a `Cluster` for each cluster in the settings. All share a `ProxyContext`. `ClusterParts` are the parts
that differ in a proxy of one process, in the parent of workers, and in a worker.

A connection passes these steps: it is accepted, counted against the limits, identified by its PROXY header and its TLS
handshake, connected to a broker once it has spoken, and relayed (`connection/relay.py`). A connection that ends without
a byte is a probe of a load balancer or a monitor: no broker is dialled for it.
"""

from __future__ import annotations

import errno
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
from proxy.metrics.collector import ClusterNumbers, ClusterState
from proxy.metrics.nodes import node_label
from proxy.metrics.traffic import CountedConnection, Traffic
from proxy.net.brokers.discovery import LoopProbe
from proxy.net.brokers.node_ports import bind
from proxy.net.brokers.nodes import Nodes
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.change import Change, do_nothing
from proxy.net.connection.causes import (
    GIVEN_UP,
    LINGER_AT_BROKER,
    LINGER_AT_CLIENT,
    Decision,
    as_recorded,
    log_ending,
    refused,
)
from proxy.net.connection.relay import FRAMES_PER_TURN, ClusterContext, Relay
from proxy.net.connection.rewriting import is_rewritten
from proxy.net.limits.age import end_aged
from proxy.net.limits.connections import ConnectionLimit, TooManyConnections
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.limits.idle import end_idle
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.log_throttle import LogThrottle
from proxy.net.sockets.proxy_protocol import ClientEndpoints
from proxy.net.sockets.proxy_protocol_reader import NoHeader, read_header
from proxy.net.sockets.streams import NothingSent, PeerLost, Stream, accepted
from proxy.net.sockets.tls import (
    ClusterCredentials,
    LiveCredentials,
    NoHandshake,
    UnknownName,
    cluster_credentials,
    towards_client,
)
from proxy.net.state.file import NotAState, SavedState, read_state, unreadable
from proxy.observer import Observer, OpenedConnection
from proxy.rewrite import addresses, api_versions
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting
from proxy.wire.dialects import Dialect
from proxy.wire.keys import API_VERSIONS

# the pause after accept() has failed with EMFILE and the like: a connection may end meanwhile
ACCEPT_PAUSE = 0.1
# the number of known nodes whose listeners are opened before the proxy reports that it is ready. Opening 1000 listeners
# takes less than a second, and today's clusters have fewer nodes. Beyond 10,000 ports, each takes milliseconds
MAX_AT_START = 1000
# the longest that a connection lingers: the proxy has sent its end of stream, and waits for the peer's
# (`Stream.finish`). A peer that does not hang sends its own at once
LINGER_SECONDS = 5.0
# the longest silence of a client for which no broker is dialled yet, unless the settings have an idle time: as long as
# brokers of default settings leave a connection idle (connections.max.idle.ms)
SILENT_SECONDS = 600.0


def routes(dialect: Dialect = Dialect.KAFKA) -> Routes:
    """Returns a dialect's routes: how the proxy treats the frames of each API and version (docs/proxy/frames.md)."""
    if dialect is Dialect.KAFKA_07:
        return Routes07()
    return Routes.marking_secrets(
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
        connection_numbers: gives each connection its number.
        held: the limit on bytes held in all connections.
        connection_limit: the limit on the connections of all clusters.
        observer: the recorder; None: nothing is recorded.
        backpressure: lets connections wait for an observer that is full; None exactly if `observer` is None.
        stopping: set once the proxy is to stop.
        accepting: the inner nursery: its tasks accept clients. Cancelled once the proxy is to stop.
        connections: the outer nursery: its tasks serve accepted clients, and go on during the drain.
        seed: a random number that all processes of this proxy share: from it, each process knows the discovery
            queries of all (`LoopProbe`).
    """

    connection_numbers: Iterator[int]
    held: HeldBytes
    connection_limit: ConnectionLimit
    observer: Observer | None
    backpressure: RecorderBackpressure | None
    stopping: trio.Event
    accepting: trio.Nursery
    connections: trio.Nursery
    seed: int = 0


# accepts the next client of a listener; returns its socket and its address
Accept = Callable[[trio.SocketListener], Awaitable[tuple[trio.socket.SocketType, Any]]]
# begins accepting on a new listener, for the node that it stands for (None: bootstrap); returns a function that closes
# the listener
Serve = Callable[[trio.SocketListener, int | None], Callable[[], None]]


async def accept_next(listener: trio.SocketListener) -> tuple[trio.socket.SocketType, Any]:
    """The usual `Accept`: accepts a client as soon as it connects."""
    return await listener.socket.accept()


class ClusterParts(NamedTuple):
    """The parts of a cluster that differ in a proxy of one process, in a parent and in a worker.

    make_nodes: makes the node table, which passes each listener that it opens to the given `Serve`.
    make_upstreams: makes the `Upstreams` of that node table.
    serve: called with each listener; None: `Cluster.accept_on`.
    accept: accepts the next client of a listener.
    on_opened, on_closed: called when a client is accepted, and when its connection has ended.
    """

    make_nodes: Callable[[Serve], Nodes]
    make_upstreams: Callable[[Nodes, LiveCredentials | None, LoopProbe], Upstreams]
    serve: Serve | None = None
    accept: Accept = accept_next
    on_opened: Callable[[], None] = do_nothing
    on_closed: Callable[[], None] = do_nothing


def single_process_parts(
    settings: ClusterSettings, context: ProxyContext, reserved: tuple[range, ...] = ()
) -> ClusterParts:
    """Returns the parts of a cluster in a proxy of one process. `reserved`: see `Nodes`."""
    return ClusterParts(
        make_nodes=lambda serve: Nodes(settings, serve, saved_state(settings), context.observer, reserved),
        make_upstreams=partial(Upstreams, settings),
    )


def saved_state(settings: ClusterSettings) -> SavedState:
    """Returns the content of the cluster's state file; empty without a file. Blocks. Raises BadSetting."""
    if settings.state is None:
        return SavedState()
    try:
        return read_state(settings.state)
    except (NotAState, OSError) as error:
        raise BadSetting(unreadable(settings.state, error), cluster=settings.name) from error


class Arrival(NamedTuple):
    """An accepted client.

    endpoints: the two ends of the accepted connection; once a PROXY header is read, the two that it names.
    node_id: the node that the listener stands for; None: bootstrap.
    listener: the listener's address.
    entering: cancels the connection while its PROXY header, its TLS handshake or its first request are awaited.
    """

    client: Stream
    endpoints: ClientEndpoints
    node_id: int | None
    listener: str
    entering: trio.CancelScope


class Cluster:
    """One cluster, from start to stop. `traffic`: its counts. `nodes`: its node table. `upstreams`: its brokers."""

    def __init__(self, settings: ClusterSettings, context: ProxyContext, parts: ClusterParts) -> None:
        self.name = settings.name
        self.traffic = Traffic(context.observer.session if context.observer is not None else "")
        self._settings = settings
        self._context = context
        self._parts = parts
        self._routes = routes(settings.dialect)
        self._tls = cluster_credentials(settings)
        self._loop_probe = LoopProbe(context.seed, settings.name)
        self._log_throttle = LogThrottle()
        self._serve = parts.serve or self.accept_on
        self.nodes = parts.make_nodes(self._serve)
        self.nodes.on_forgotten = self.traffic.forget_node
        self.upstreams = parts.make_upstreams(self.nodes, self._tls.upstream, self._loop_probe)
        shared = (context.held, context.observer, context.backpressure, self._loop_probe)
        self._cluster_context = ClusterContext(settings, self.nodes, self.traffic, *shared)
        self._limit = ConnectionLimit(settings.connection_limit, self.name, "limits.connections")
        self._address_limit = ConnectionLimit(settings.address_limit, self.name, "limits.connections_per_address")
        self._relays: set[Relay] = set()
        self._entering: set[trio.CancelScope] = set()
        # cancels the task that ends connections by their age
        self._aging = trio.CancelScope()
        # the number of open connections; `_one_ended` is set when one ends
        self._open = 0
        self._one_ended = trio.Event()

    async def listen(self) -> Address:
        """Opens all listeners; returns the address of the bootstrap listener. Raises BadSetting.

        Of the nodes that the state file knows, the listeners beyond the first `MAX_AT_START` are opened later.
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
        self._context.accepting.start_soon(self.nodes.keep_giving_back)
        self.watch()
        return listening

    def watch(self) -> None:
        """Starts to ask who the brokers are, for the recorder, and to end idle and old connections."""
        self._context.accepting.start_soon(self.nodes.identity.keep_looking_up)
        self._context.accepting.start_soon(self.upstreams.keep_asking_for_ids)
        if self._settings.idle_seconds is not None:
            self._context.accepting.start_soon(end_idle, self._relays, self._settings.idle_seconds)
        self._watch_age()

    def _watch_age(self) -> None:
        """Ends connections by the age in the settings, from now on, and no more by an earlier one."""
        self._aging.cancel()
        self._aging = trio.CancelScope()
        seconds = self._settings.age_seconds
        if seconds is not None and not self._context.stopping.is_set():
            self._context.accepting.start_soon(self._end_aged, seconds, self._aging)

    async def _end_aged(self, seconds: float, aging: trio.CancelScope) -> None:
        with aging:
            await end_aged(self._relays, seconds)

    def read_certificates(self, settings: ClusterSettings) -> ClusterCredentials | None:
        """Returns the certificates that new settings name; None: their TLS is unchanged. Blocks. Raises BadSetting."""
        is_unchanged = (settings.tls, settings.upstream_tls) == (self._settings.tls, self._settings.upstream_tls)
        return None if is_unchanged else cluster_credentials(settings)

    async def changes_to(self, settings: ClusterSettings, certificates: ClusterCredentials | None) -> list[Change]:
        """Returns the changes that put new settings into effect. Raises BadSetting.

        Args:
            certificates: the result of `read_certificates` for these settings.
        """
        new = replace(
            self._settings, tls=settings.tls, upstream_tls=settings.upstream_tls, age_seconds=settings.age_seconds
        )
        apply = partial(self._put_into_effect, new, certificates if certificates is not None else self._tls)
        undo = partial(self._put_into_effect, self._settings, self._tls)
        return [await self.nodes.change_to(settings.node_map), Change(apply, undo)]

    def _put_into_effect(self, settings: ClusterSettings, cluster_credentials: ClusterCredentials) -> None:
        is_other_age = settings.age_seconds != self._settings.age_seconds
        self._settings, self._tls = settings, cluster_credentials
        self.upstreams.use(settings, cluster_credentials.upstream)
        if is_other_age:
            self._watch_age()

    def _listen(self) -> Address:
        address = self._settings.listen
        try:
            sock = bind(address)
        except OSError as error:
            wrong = Setting("listen", address), f" can't be had ({error.strerror})"
            right = "a free port of this machine, for example ", Setting("listen", "127.0.0.1:19092")
            raise BadSetting(Fault(wrong, right)) from error
        listening = Address(address.host, sock.getsockname()[1])
        self.nodes.add_bootstrap(sock, listening)
        self._serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), self._settings.node_map.own_node)
        return listening

    def drain(self) -> None:
        """Lets each connection end at its next frame boundary, once its requests in flight are answered."""
        for relay in set(self._relays):
            relay.drain()
        # a connection that is still entering has nothing in flight
        for scope in set(self._entering):
            scope.cancel()

    async def all_ended(self) -> None:
        """Returns when no connection is open."""
        while self._open:
            self._one_ended = trio.Event()
            await self._one_ended.wait()

    @property
    def unfinished(self) -> int:
        """The number of connections that lose something if they end now."""
        return sum(not relay.may_end_now for relay in self._relays)

    def state(self) -> ClusterState:
        """What this process has of the cluster now. Called in any thread."""
        # copied in one step of the interpreter: the event loop may add a relay meanwhile
        return ClusterState(sum(relay.queued_bytes for relay in list(self._relays)), self._tls.ends)

    def numbers(self, traffic: Traffic, state: Callable[[], ClusterState]) -> ClusterNumbers:
        """Returns what the metrics show of the cluster. `traffic`, `state`: of this process, or of all workers."""
        limit = self._settings.connection_limit
        return ClusterNumbers(
            self.name, traffic, self.nodes.listeners, self.nodes.room, lambda: self.upstreams.reached, limit, state
        )

    def accept_on(self, listener: trio.SocketListener, node_id: int | None) -> Callable[[], None]:
        """A `Serve`: accepts clients in a task. Until the task runs, clients wait in the listening socket's backlog."""
        if self._context.stopping.is_set():
            # while the proxy stops, a response in flight has named a new node
            listener.socket.close()
        else:
            self._context.accepting.start_soon(self._accept_all, listener, node_id)
        return listener.socket.close

    async def _accept_all(self, listener: trio.SocketListener, node_id: int | None) -> None:
        if _is_closed(listener):
            return
        address = str(Address(*listener.socket.getsockname()[:2]))
        logged_errno = 0
        async with listener:
            while not _is_closed(listener):
                try:
                    sock, peer = await self._parts.accept(listener)
                    arrival = self._arrived(sock, peer, node_id, address)
                except (ConnectionAbortedError, trio.ClosedResourceError):
                    continue
                except OSError as error:
                    if error.errno == errno.EINVAL and not _listens(listener):
                        # the parent has given the listener back: it does not listen in any process
                        return
                    if error.errno != logged_errno:
                        log(WARNING, "connections can't be accepted", listener=address, reason=error.strerror)
                        logged_errno = error.errno or 0
                    await trio.sleep(ACCEPT_PAUSE)
                    continue
                except Exception:
                    # `_arrived` has closed that connection; the listener must go on
                    log(ERROR, "fault in a connection that begins", trace=True, listener=address)
                    await trio.sleep(ACCEPT_PAUSE)
                    continue
                logged_errno = 0
                self._begin(arrival)

    def _arrived(self, sock: trio.socket.SocketType, peer: Any, node_id: int | None, listener: str) -> Arrival:
        """Returns the arrival of an accepted client. Closes the socket if it raises: OSError, or a fault."""
        try:
            endpoints = ClientEndpoints(Address(*peer[:2]), Address(*sock.getsockname()[:2]))
            self.nodes.identity.add_listeners(endpoints.destination)
            client = self._client_stream(sock, str(endpoints.client))
        except BaseException:
            sock.close()
            raise
        return Arrival(client, endpoints, node_id, listener, trio.CancelScope())

    def _client_stream(self, sock: trio.socket.SocketType, client: str) -> Stream:
        plain = accepted(sock, client, self._settings.keepalive_seconds)
        try:
            return towards_client(plain, self._tls.listener)
        except BaseException:
            plain.close()
            raise

    def _begin(self, arrival: Arrival) -> None:
        """Counts the connection as open, and starts its task (`_connection`), which counts it as closed."""
        self._open += 1
        self.nodes.count_opened(arrival.node_id)
        self._parts.on_opened()
        self._context.connections.start_soon(self._connection, arrival)

    async def _connection(self, arrival: Arrival) -> None:
        """Serves one client, then closes its connection."""
        try:
            cause = await self._served(arrival)
            # a client that was cancelled while it was entering has sent no request, so it need not read answers first
            if cause in LINGER_AT_CLIENT and not arrival.entering.cancel_called:
                await arrival.client.finish(LINGER_SECONDS)
        finally:
            arrival.client.close()
            self._open -= 1
            self.nodes.count_closed(arrival.node_id)
            self._parts.on_closed()
            self._one_ended.set()

    async def _served(self, arrival: Arrival) -> Cause:
        """Serves a connection and counts it. Returns why it ended. A fault in one connection ends no other."""
        number = next(self._context.connection_numbers)
        conversation = Conversation(self._routes, self._settings.limits, max_frames=FRAMES_PER_TURN)
        peer = arrival.client.peer
        # stays if this task is cancelled
        cause, decision = Cause.DRAIN_DEADLINE, Decision()
        self.traffic.opened()
        try:
            with self._context.connection_limit.admit(client=peer), self._limit.admit(client=peer):
                self._entering.add(arrival.entering)
                with arrival.entering:
                    cause, decision = await self._let_in(number, arrival, conversation)
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
            peer, node = arrival.client.peer, self._node_for_log(arrival)
            log(DEBUG, "connection closed", connection=number, client=peer, **node, cause=cause)
            keys = {"connection": number, "listener": arrival.listener, "client": peer, **node}
            log_ending(cause, decision, self._log_throttle, **keys)
        return cause

    async def _let_in(self, number: int, arrival: Arrival, conversation: Conversation) -> tuple[Cause, Decision]:
        """Serves a client that the limits admit. Returns why the connection ended."""
        opened_ns = time.monotonic_ns()
        try:
            return await self._meet(number, arrival, conversation)
        except NothingSent:
            self._record_probe(number, arrival, conversation, opened_ns)
            return Cause.PROBE, Decision()

    async def _meet(self, number: int, arrival: Arrival, conversation: Conversation) -> tuple[Cause, Decision]:
        """Reads the PROXY header if one is due, then connects the client. Returns why the connection ended.

        Raises:
            NothingSent: the client ended the connection without a byte of its own, before a broker was dialled.
        """
        client, endpoints = arrival.client, arrival.endpoints
        trusted = self._settings.accept_proxy and self._settings.trusts(endpoints.client.host)
        if self._settings.accept_proxy and not trusted and self._settings.others is Others.REFUSED:
            return Cause.UNTRUSTED, Decision()
        if trusted:
            try:
                endpoints = await read_header(client, self._settings.header_seconds) or endpoints
            except NothingSent:
                raise
            except PeerLost as lost:
                return Cause.CLIENT_LOST if lost.vanished else Cause.CLIENT_RESET, Decision()
            except NoHeader as error:
                return Cause.BAD_PROXY_HEADER, refused(error, error.setting)
            client.peer = str(endpoints.client)
            self.nodes.identity.add_listeners(endpoints.destination)
        with self._address_limit.admit(endpoints.client.host, client=client.peer):
            return await self._connect_and_relay(number, arrival._replace(endpoints=endpoints), conversation)

    async def _connect_and_relay(
        self, number: int, arrival: Arrival, conversation: Conversation
    ) -> tuple[Cause, Decision]:
        """Connects the client to its broker, and relays. Returns why the connection ended. Raises NothingSent."""
        client = arrival.client
        try:
            await client.handshake(self._settings.tls_seconds)
            # a TLS handshake has shown already that the client is no bare probe
            if not client.is_tls and not await client.has_spoken(self._settings.idle_seconds or SILENT_SECONDS):
                return Cause.IDLE, Decision()
        except NoHandshake as error:
            cause = Cause.UNKNOWN_NAME if isinstance(error, UnknownName) else Cause.TLS_HANDSHAKE
            return cause, refused(error, error.setting, asked_for=client.requested_name)
        except NothingSent:
            raise
        except PeerLost:
            return Cause.CLIENT_LOST, Decision()
        self._entering.discard(arrival.entering)
        # does not raise: the handshake has refused server names that are no node's
        node_id = self._settings.node_map.requested_node(arrival.node_id, client.requested_name)
        counted = self.traffic.connection(number, node_label(node_id, self.nodes.is_served), conversation.login)
        self.traffic.connected(counted)
        # stays if this task is cancelled
        cause = Cause.DRAIN_DEADLINE
        try:
            cause, decision = await self._reach_and_relay(counted, node_id, arrival, conversation)
        except Exception:
            cause = Cause.PROXY_FAULT
            raise
        finally:
            self.traffic.disconnected(counted, cause)
        return cause, decision

    async def _reach_and_relay(
        self, counted: CountedConnection, node_id: int | None, arrival: Arrival, conversation: Conversation
    ) -> tuple[Cause, Decision]:
        """Connects the client to the node that it wants, and relays. Returns why the connection ended."""
        number, client = counted.number, arrival.client
        broker = await self.upstreams.connect(number, node_id, counted.node, arrival.endpoints)
        if isinstance(broker, Cause):
            return broker, Decision()
        ends = (arrival.listener, client.peer, node_id, broker.peer)
        facts = OpenedConnection(number, time.monotonic_ns(), *ends, client.is_tls, self.name, client.principal)
        # with one listener for all nodes, only now is it known which one the client wants
        self.nodes.count_opened(node_id)
        try:
            if self.upstreams.count_opened(broker.peer):
                self._context.connections.start_soon(self.upstreams.check_for_loop, broker.peer)
            relay = Relay(counted, client, broker, conversation, self._cluster_context)
            cause = await self._run_relay(relay, conversation, facts, broker.peer)
            return cause, relay.decision
        finally:
            self.nodes.count_closed(node_id)
            self.upstreams.count_closed(broker.peer)
            broker.close()

    def _node_for_log(self, arrival: Arrival) -> dict[str, Any]:
        """Returns the log's key for the node that a client wants; {}: bootstrap, or not known."""
        node_id = arrival.node_id
        with suppress(ValueError):
            node_id = self._settings.node_map.requested_node(node_id, arrival.client.requested_name)
        return {} if node_id is None else {"node": node_id}

    def _record_probe(self, number: int, arrival: Arrival, conversation: Conversation, opened_ns: int) -> None:
        observer, client = self._context.observer, arrival.client
        if observer is not None:
            ends = (arrival.listener, client.peer, arrival.node_id, None)
            observer.opened(OpenedConnection(number, opened_ns, *ends, client.is_tls, self.name), conversation)
            observer.closed(number, Cause.PROBE, time.monotonic_ns(), {})

    async def _run_relay(
        self, relay: Relay, conversation: Conversation, facts: OpenedConnection, upstream: str
    ) -> Cause:
        observer = self._context.observer
        if observer is not None:
            observer.opened(facts, conversation)
        self._relays.add(relay)
        try:
            if self._context.stopping.is_set():
                relay.drain()
            cause = await relay.run()
            self._relays.discard(relay)
            if cause in GIVEN_UP and conversation.in_flight and not conversation.offsets[Direction.RESPONSE]:
                self.upstreams.bootstrap.report_silent(upstream)
            if cause in LINGER_AT_BROKER or (cause is Cause.CLIENT_CLOSED and relay.is_owed_a_response):
                await relay.hear_out(LINGER_SECONDS)
            return cause
        finally:
            self._relays.discard(relay)
            if observer is not None:
                decision = as_recorded(relay.cause, relay.decision)
                if relay.unread_bytes:
                    decision["unread_bytes"] = relay.unread_bytes
                observer.closed(facts.connection, relay.cause, time.monotonic_ns(), decision)


def _is_closed(listener: trio.SocketListener) -> bool:
    """True once the listener was given back."""
    return listener.socket.fileno() < 0


def _listens(listener: trio.SocketListener) -> bool:
    """False once any process has shut the listener down: then no process can accept on it."""
    return bool(listener.socket.getsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_ACCEPTCONN))
