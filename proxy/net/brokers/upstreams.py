"""Dials one cluster's brokers for clients, and decides when to query them for the cluster's nodes.

A broker that can't be reached is logged once, and once more when it is back. If a client's broker can't be reached, the
cluster is queried again, because the broker may have moved.

An address that leads back to the proxy must not be dialled again and again. If it leads straight to a listener of the
proxy, the remote address of each new connection shows that. If it leads there through other proxies or load balancers,
a discovery query comes back. The query is sent at each discovery, and whenever the connections to an address have
doubled.

While traffic is recorded, each address to which clients are connected is asked for the cluster's id again: another
cluster may have taken its place.
"""

from __future__ import annotations

import errno
import math
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any

import trio

from proxy.config import ClusterSettings
from proxy.conversation import Cause
from proxy.log import log
from proxy.metrics.nodes import DialFailure, NodeRow
from proxy.net.brokers.bootstrap import Bootstrap
from proxy.net.brokers.discovery import (
    ClosedByBroker,
    DemandsLogin,
    Dial,
    DiscoveredNodes,
    LeadsBackIndirectly,
    LoopProbe,
    NotAnswered,
    ask_for_nodes,
)
from proxy.net.brokers.expiring_set import ExpiringSet
from proxy.net.brokers.nodes import Nodes
from proxy.net.log_throttle import LogThrottle
from proxy.net.sockets.proxy_protocol import ClientEndpoints, encode_header
from proxy.net.sockets.race import AllLost
from proxy.net.sockets.streams import VANISHED, LeadsBack, PeerLost, Stream, dial, root_of
from proxy.net.sockets.tls import LiveCredentials, NoHandshake, towards_broker
from proxy.schema.addresses import Address
from proxy.wire.dialects import Dialect

# pauses after a discovery, in seconds. With each further failure in a row, the pause doubles up to the longest: clients
# may remember a node's port, and are refused until an answer has named the node
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 5.0
# the longest pause while brokers end the connection and may demand a login: each query counts as a failed login
LONGEST_PAUSE_IF_CLOSED = 60.0
# the shortest time between queries that clients cause, in seconds: clients may request any node id
CLIENT_QUERY_SECONDS = 1.0
# seconds for which an address that has led back is not dialled for clients; its name may lead elsewhere later. The
# proxy's own queries don't dial a direct loop either. They dial an indirect one: an answer shows that the loop is gone
LOOP_TTL = 60.0
# the number of open connections to an address at which it is first checked for a loop; each check after that needs
# twice as many. A loop of so many connections costs little, and most addresses never have so many
LOOP_CHECK_FROM = 128
# the shortest time between two rounds of questions for the cluster's id, in seconds, and how many are asked at once
ID_ROUND_SECONDS, IDS_AT_ONCE = 1.0, 8
# seconds that the last round may take, while the proxy stops
LAST_ROUND_SECONDS = 2.0
# seconds for which an address is not asked for the id after it has left a question unanswered: it may count as a failed
# login
UNANSWERED_TTL = 600.0
_OF_ERRNO = {errno.ECONNREFUSED: DialFailure.REFUSED, errno.ETIMEDOUT: DialFailure.TIMEOUT}


class Upstreams:
    """One cluster's brokers.

    `reached`: True if the cluster seems up. Set when any broker is reached, cleared when no bootstrap server is.

    Args:
        credentials: for TLS towards brokers; None: plaintext.
        loop_probe: the first request of each discovery query; all processes of the proxy share it.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        nodes: Nodes,
        credentials: LiveCredentials | None = None,
        loop_probe: LoopProbe | None = None,
    ) -> None:
        self.reached = False
        self.bootstrap = Bootstrap(settings.name, settings.upstream)
        self._settings = settings
        self._credentials = credentials
        self._nodes = nodes
        self._down: set[Address] = set()
        self._loop_probe = loop_probe or LoopProbe()
        # addresses that lead straight to the proxy, and addresses that lead to it through other proxies
        self._direct_loops: ExpiringSet[Address] = ExpiringSet(LOOP_TTL)
        self._indirect_loops: ExpiringSet[Address] = ExpiringSet(LOOP_TTL)
        # address -> the number of open connections: now, and when the address was last checked for a loop
        self._open: Counter[str] = Counter()
        self._open_when_checked: dict[str, int] = {}
        # address that clients have reached since it was last asked for the cluster's id -> the name that led there
        self._to_identify: dict[str, Address] = {}
        self._more_to_identify = trio.Event()
        self._unanswered: ExpiringSet[str] = ExpiringSet(UNANSWERED_TTL)
        # for the log event of unknown nodes: with `sni`, clients can make up any number of them
        self._unknown_throttle = LogThrottle()
        # for the log event of clients that got no broker
        self._ended_throttle = LogThrottle()
        self._query_lock = trio.Lock()
        self._client_query_lock = trio.Lock()
        self._queries = 0
        self._discovered = False
        # the newest query's outcome in all brokers that it reached, if that is the same in all
        self._was_closed = self._demands_login = self._answers_queries = False
        self._client_query_at = -math.inf
        self._discovery_requested = trio.Event()
        self._logged_reason = ""

    async def connect(
        self, number: int, node_id: int | None, row: NodeRow, endpoints: ClientEndpoints | None = None
    ) -> Stream | Cause:
        """Returns the broker connection for the client's connection `number`, or the cause why there is none.

        Args:
            node_id: the node that the client wants; None: any bootstrap server.
            row: the counts of that node.
            endpoints: the client's, for the PROXY header; None: the header names no client.
        """
        try:
            broker = await self._dial_wanted(node_id, row, endpoints)
        except PeerLost as error:
            row.reach = row.reach.after(time.time(), success=False)
            keys = _keys(number, node_id, endpoints)
            level = self._ended_throttle.level(f"{node_id} {error}")
            log(level, "connection without upstream", **keys, reason=error, setting="upstream")
            self.request_discovery()
            return Cause.UPSTREAM_DOWN
        if broker is None:
            assert node_id is not None, "a bootstrap server needs no id"
            return self._unknown_node(number, node_id, endpoints)
        row.reach = row.reach.after(time.time(), success=True)
        return broker

    async def _dial_wanted(self, node_id: int | None, row: NodeRow, endpoints: ClientEndpoints | None) -> Stream | None:
        """Returns a connection to what a client wants; None: the node is not known. Raises PeerLost."""
        # a sidecar's own node (`own_node`) is the bootstrap server
        if node_id is None or node_id == self._settings.node_map.own_node:
            return await self._dial_bootstrap(row, endpoints)
        address = await self._address_of(node_id)
        return None if address is None else await self._dial_node(address, row, endpoints)

    def count_opened(self, peer: str) -> bool:
        """Counts a connection to an address (`Stream.peer`) as open. True if the address is due for a loop check."""
        self._open[peer] += 1
        if self._settings.dialect is Dialect.KAFKA_07:
            # a broker of 0.7 answers no query
            return False
        is_check_due = self._open[peer] >= max(LOOP_CHECK_FROM, 2 * self._open_when_checked.get(peer, 0))
        if is_check_due:
            self._open_when_checked[peer] = self._open[peer]
        return is_check_due

    def count_closed(self, peer: str) -> None:
        """Counts a connection to an address as ended."""
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]
            self._open_when_checked.pop(peer, None)

    async def check_for_loop(self, peer: str) -> None:
        """Queries the broker at an address (`Stream.peer`); `_query_at` notices a query that comes back."""
        try:
            await self._query_at(Address.parse(peer))
        except PeerLost as error:
            log(DEBUG, "upstream did not answer the loop check", upstream=peer, reason=error)
        except Exception:
            # an answer that causes a fault must not end the proxy
            log(ERROR, "fault in a loop check", trace=True, upstream=peer)

    def _unknown_node(self, number: int, node_id: int, endpoints: ClientEndpoints | None) -> Cause:
        level = self._unknown_throttle.level(str(node_id))
        log(level, "node is not known", cluster=self._settings.name, **_keys(number, node_id, endpoints))
        return Cause.UNKNOWN_NODE

    def use(self, settings: ClusterSettings, credentials: LiveCredentials | None) -> None:
        """Uses these settings and credentials for each broker that is dialled from now on."""
        self._settings, self._credentials = settings, credentials

    def request_discovery(self) -> None:
        """Has `keep_discovering` discover the nodes soon: a broker could not be reached, and may have moved."""
        self._discovery_requested.set()

    async def keep_discovering(self) -> None:
        """Discovers the nodes at the start and after each `request_discovery`, until cancelled."""
        while True:
            self._discovery_requested = trio.Event()
            pause = FIRST_PAUSE
            while not await self.discover() and not self._is_query_futile():
                await trio.sleep(pause)
                pause = min(pause * 2, self._longest_pause())
            # clients that reconnect at once must not cause one query after the other
            await trio.sleep(FIRST_PAUSE)
            await self._next_query()

    async def _next_query(self) -> None:
        """Returns when a query is requested, or when answers are due that show which nodes there are (`Naming`)."""
        naming = self._nodes.naming
        while not self._discovery_requested.is_set():
            with trio.move_on_after(naming.question_seconds):
                await self._discovery_requested.wait()
            if self._answers_queries and not naming.was_listed:
                return

    async def keep_asking_for_ids(self) -> None:
        """Asks the brokers that clients have reached for the cluster's id, until cancelled; not if nobody records."""
        if not self._asks_for_ids:
            return
        try:
            while True:
                await self._more_to_identify.wait()
                await self._ask_for_ids()
                await trio.sleep(ID_ROUND_SECONDS)
        finally:
            with trio.move_on_after(LAST_ROUND_SECONDS, shield=True):
                await self._ask_for_ids()

    @property
    def _asks_for_ids(self) -> bool:
        # a broker of 0.7 answers no query
        return self._nodes.identity.is_recorded and self._settings.dialect is not Dialect.KAFKA_07

    async def _ask_for_ids(self) -> None:
        self._more_to_identify = trio.Event()
        reached, self._to_identify = self._to_identify, {}
        limiter = trio.CapacityLimiter(IDS_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for peer, name in reached.items():
                nursery.start_soon(self._ask_for_id, peer, name, limiter)

    async def _ask_for_id(self, peer: str, name: Address, limiter: trio.CapacityLimiter) -> None:
        identity = self._nodes.identity
        if peer in self._unanswered:
            identity.not_answered()
            return
        try:
            async with limiter:
                await self._ask(partial(self._connection, Address.parse(peer), tls_name=name.host))
        except trio.Cancelled:
            # the proxy stops: the last round asks
            self._to_identify.setdefault(peer, name)
            raise
        except NotAnswered:
            self._unanswered.add(peer)
            identity.not_answered()
        except PeerLost as error:
            log(DEBUG, "upstream was not reached to ask for its id", upstream=peer, reason=error)
        except Exception:
            # an answer that causes a fault must not end the proxy
            log(ERROR, "fault in a question for the id", trace=True, upstream=peer)

    async def _ask(self, connect: Dial) -> DiscoveredNodes:
        """Asks the broker that `connect` dials for the nodes and the id of its cluster. Raises PeerLost."""
        discovered = await ask_for_nodes(connect, self._loop_probe)
        self._nodes.identity.answered(discovered.cluster_id)
        return discovered

    async def discover(self) -> bool:
        """Learns the cluster's nodes from a bootstrap server.

        Returns True if a server has named them and each has a listener. In the dialect of 0.7, returns True if a
        bootstrap server could be reached. Concurrent calls share one query.
        """
        queries_before = self._queries
        async with self._query_lock:
            if self._queries == queries_before:
                self._discovered = await self._discover_once()
                self._queries += 1
            return self._discovered

    async def discover_for_client(self) -> bool:
        """As `discover`, for a node that a client wants and the table lacks: at most once in `CLIENT_QUERY_SECONDS`."""
        async with self._client_query_lock:
            if trio.current_time() - self._client_query_at >= CLIENT_QUERY_SECONDS:
                self._discovered = await self.discover()
                self._client_query_at = trio.current_time()
        return self._discovered

    def _is_query_futile(self) -> bool:
        """True if a failed query is not repeated: nodes are known, and their brokers demand a login.

        Such brokers never answer a query. All others may answer the next one.
        """
        return self._demands_login and self._nodes.has_known_broker

    def _longest_pause(self) -> float:
        # a broker that ends the connection at once may start or stop, or demand a login by a certificate
        may_demand_login = self._demands_login or (self._was_closed and self._nodes.has_known_broker)
        return LONGEST_PAUSE_IF_CLOSED if may_demand_login else LONGEST_PAUSE

    async def _discover_once(self) -> bool:
        if self._settings.dialect is Dialect.KAFKA_07:
            return await self._can_connect()
        self._was_closed = self._demands_login = self._answers_queries = False
        try:
            nodes, cluster_id = await self.bootstrap.first_success(self._query_at, lambda discovered: None)
            self._answers_queries = True
            self._nodes.note((node.node_id for node in nodes), is_list=True)
            await self._nodes.ensure(nodes, cluster_id)
        except AllLost as lost:
            unanswered = [reason for reason in lost.reasons if isinstance(reason, NotAnswered)]
            self.reached = bool(unanswered)
            self._was_closed = self.reached and all(isinstance(reason, ClosedByBroker) for reason in unanswered)
            self._demands_login = self.reached and all(isinstance(reason, DemandsLogin) for reason in unanswered)
            if not self._demands_login:
                self._nodes.naming.count_failure()
            self._log_failure(str(lost))
        except OSError as error:
            self._log_failure(f"no listener can be had: {error.strerror}")
        except Exception:
            # an answer that causes a fault must not end the proxy
            log(ERROR, "fault in a discovery", trace=True, cluster=self._settings.name)
        else:
            self._logged_reason = ""
            return True
        return False

    async def _query_at(self, address: Address) -> DiscoveredNodes:
        """Queries the broker at this address for its cluster's nodes. Raises PeerLost."""
        try:
            discovered = await self._ask(partial(self._dial, address))
        except LeadsBackIndirectly as error:
            if address not in self._indirect_loops:
                log(WARNING, "upstream leads back", cluster=self._settings.name, upstream=address, reason=error)
            self._indirect_loops.add(address)
            raise
        self._indirect_loops.discard(address)
        return discovered

    async def _can_connect(self) -> bool:
        """True if a bootstrap server accepts a connection. A broker of 0.7 answers no query."""
        try:
            broker = await self.bootstrap.first_success(self._dial, Stream.close)
        except PeerLost:
            self.reached = False
            return False
        broker.close()
        return True

    def _log_failure(self, reason: str) -> None:
        """Logs why the nodes were not discovered: as a warning if the last reason was another."""
        level = DEBUG if reason == self._logged_reason else WARNING
        log(level, "the cluster does not name its nodes", cluster=self._settings.name, reason=reason)
        self._logged_reason = reason

    async def _address_of(self, node_id: int) -> Address | None:
        """The address of a node's broker; if it is unknown, after a discovery. None: it is still unknown."""
        if self._nodes.upstream(node_id) is None:
            await self.discover_for_client()
        return self._nodes.upstream(node_id)

    async def _dial_bootstrap(self, row: NodeRow, endpoints: ClientEndpoints | None) -> Stream:
        """Returns a connection to the first bootstrap server that accepts one. Raises PeerLost."""
        attempt = partial(self._dial_for_client, row=row, endpoints=endpoints)
        try:
            return await self.bootstrap.first_success(attempt, Stream.close)
        except PeerLost:
            self.reached = False
            raise

    async def _dial_node(self, address: Address, row: NodeRow, endpoints: ClientEndpoints | None) -> Stream:
        """Returns a connection to a node's broker. Raises PeerLost."""
        if not self._leads_back(address):
            with suppress(LeadsBack):
                return await self._dial_for_client(address, row, endpoints)
        # the broker of a sidecar advertises the proxy's name, and is itself the bootstrap server
        return await self._dial_bootstrap(row, endpoints)

    async def _dial_for_client(self, address: Address, row: NodeRow, endpoints: ClientEndpoints | None) -> Stream:
        if address in self._indirect_loops:
            row.add_dial_failure(DialFailure.LEADS_BACK)
            raise PeerLost(f"{address} leads back to this proxy by way of others")
        try:
            broker = await self._dial(address, endpoints)
        except PeerLost as error:
            row.add_dial_failure(dial_failure(error))
            raise
        if self._asks_for_ids:
            self._to_identify[broker.peer] = address
            self._more_to_identify.set()
        return broker

    async def _dial(self, address: Address, endpoints: ClientEndpoints | None = None) -> Stream:
        """Returns a connection to the broker at this address, for a client or the proxy itself. Raises PeerLost."""
        try:
            broker = await self._connection(address, endpoints)
        except PeerLost as error:
            if address not in self._down:
                self._down.add(address)
                log(WARNING, "upstream is down", cluster=self._settings.name, upstream=address, reason=error)
            raise
        self.reached = True
        if address in self._down:
            self._down.remove(address)
            log(INFO, "upstream is back", cluster=self._settings.name, upstream=address)
        return broker

    def _leads_back(self, address: Address) -> bool:
        """True if an address is one of the proxy's own names, or has led straight to the proxy within LOOP_TTL."""
        return address in self._nodes.own_listeners or address in self._direct_loops

    def _leads_to_proxy(self, sock: socket.socket) -> bool:
        """True if a connection has reached the proxy itself; else a broker. Raises OSError: it has ended."""
        if self._nodes.own_listeners.are_reached_by(sock):
            return True
        self._nodes.identity.reached(sock)
        return False

    async def _connection(
        self, address: Address, endpoints: ClientEndpoints | None = None, *, tls_name: str = ""
    ) -> Stream:
        """Returns a connection to the broker at this address. `tls_name`: the name in its certificate; "": its host."""
        if self._leads_back(address):
            raise LeadsBack(address)
        try:
            return await connection(
                address, self._settings, self._credentials, endpoints, tls_name=tls_name, is_own=self._leads_to_proxy
            )
        except LeadsBack:
            self._direct_loops.add(address)
            raise


async def connection(
    address: Address,
    settings: ClusterSettings,
    credentials: LiveCredentials | None,
    endpoints: ClientEndpoints | None = None,
    *,
    tls_name: str = "",
    is_own: Callable[[socket.socket], bool] = lambda sock: False,
) -> Stream:
    """Dials a broker as the settings say: the PROXY header, then TLS.

    Args:
        endpoints: the client's, for the PROXY header; None: the header names no client.
        tls_name: the name in the broker's certificate, unless the settings have one; "": the address's host.
        is_own: see `dial`.

    Raises PeerLost, of which NoHandshake and LeadsBack are kinds.
    """
    plain = await dial(
        address,
        settings.dial_seconds,
        preamble=encode_header(settings.send_proxy, endpoints),
        keepalive=settings.keepalive_seconds,
        is_own=is_own,
    )
    name = settings.upstream_tls and settings.upstream_tls.server_name
    return await towards_broker(plain, credentials, name or tls_name or address.host, settings.tls_seconds)


def _keys(number: int, node_id: int | None, endpoints: ClientEndpoints | None) -> dict[str, Any]:
    """The log's keys of a client's connection."""
    client = {} if endpoints is None else {"client": endpoints.client}
    return {"connection": number, **client, **({} if node_id is None else {"node": node_id})}


def dial_failure(lost: PeerLost) -> DialFailure:
    """Returns the cause of a dial's failure."""
    if isinstance(lost, LeadsBack):
        return DialFailure.LEADS_BACK
    if isinstance(lost, NoHandshake):
        return DialFailure.TLS
    if isinstance(lost.__cause__, trio.TooSlowError):
        return DialFailure.TIMEOUT
    root = root_of(lost.__cause__ or lost)
    if isinstance(root, socket.gaierror):
        # its number is no errno
        return DialFailure.UNRESOLVED
    number = root.errno if isinstance(root, OSError) else None
    if number in _OF_ERRNO:
        return _OF_ERRNO[number]
    return DialFailure.UNREACHABLE if number in VANISHED else DialFailure.OTHER
