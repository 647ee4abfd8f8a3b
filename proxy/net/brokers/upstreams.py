"""The brokers, as the proxy reaches them: dialled for clients, asked for the cluster's nodes.

Who can't be reached is said once, and once when it is back; then the cluster is asked again, for the broker may be
elsewhere now.

An address that leads back to the proxy is not dialled on and on. One that leads straight to its own listeners is known
by the first connection to it. One that leads to it by way of others is known by the proxy's own query, which comes
back: asked at the start, and whenever the connections to an address have doubled.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING

import trio

from proxy.config import ClusterSettings
from proxy.conversation import Cause
from proxy.log import log
from proxy.net.brokers.bootstrap import Bootstrap
from proxy.net.brokers.discovery import DiscoveryQuery, LedBack, NotAnswered, Told, ask_for_nodes
from proxy.net.brokers.expiring_set import ExpiringSet
from proxy.net.brokers.nodes import Nodes
from proxy.net.log_throttle import LogThrottle
from proxy.net.sockets.proxy_protocol import Route, header
from proxy.net.sockets.race import AllLost
from proxy.net.sockets.streams import LeadsBack, PeerLost, Stream, dial
from proxy.net.sockets.tls import Followed, towards_broker
from proxy.schema.addresses import Address
from proxy.wire.dialects import Dialect

# pauses between two queries that nobody answered, in seconds
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# clients may ask for any node: the cluster is not asked about it again within so many seconds of its last answer
ANSWER_HOLDS = 1.0
# so long an address that was found to lead back to the proxy is not dialled again; a name may lead elsewhere later
LEADS_BACK_HOLDS = 60.0
# open connections to one address from which on it is asked whether it leads back, each time that they have doubled: so
# many cost little, and most addresses never have them
FIRST_CROWD = 128


class Upstreams:
    """Who to connect a client to, and whether there is anybody. `reached`: a bootstrap server was, when last tried."""

    def __init__(
        self,
        settings: ClusterSettings,
        nodes: Nodes,
        credentials: Followed | None = None,
        query: DiscoveryQuery | None = None,
    ) -> None:
        self.reached = False
        self.bootstrap = Bootstrap(settings.name, settings.upstream)
        self._settings = settings
        self._credentials = credentials
        self._nodes = nodes
        self._down: set[Address] = set()
        self._query = query or DiscoveryQuery()
        # addresses that lead straight to the proxy, and those that do by way of others
        self._own: ExpiringSet[Address] = ExpiringSet(LEADS_BACK_HOLDS)
        self._circles: ExpiringSet[Address] = ExpiringSet(LEADS_BACK_HOLDS)
        # addresses -> open connections; and how many there were when it was last asked whether it leads back
        self._open: Counter[str] = Counter()
        self._asked_at: dict[str, int] = {}
        # nodes that clients ask for by number or name: with `sni` they may think of any
        self._unknown = LogThrottle()
        self._asking = trio.Lock()
        self._asking_for_clients = trio.Lock()
        self._queries = 0
        self._answered = False
        self._answered_at = -math.inf
        self._doubt = trio.Event()
        self._reason = ""

    async def connect(self, number: int, node_id: int | None, route: Route | None = None) -> Stream | Cause:
        """The broker's side of connection `number`, or why there is none.

        Args:
            node_id: None is bootstrap.
            route: of the client's connection; None: it is the proxy's own.
        """
        try:
            if node_id is None or node_id == self._settings.node_map.own:
                return await self._dial_bootstrap(route)
            address = await self._of_node(node_id)
            if address is None:
                return self._unknown_node(number, node_id)
            return await self._dial_node(address, route)
        except PeerLost as error:
            log(DEBUG, "connection without upstream", connection=number, reason=error)
        self.doubt()
        return Cause.UPSTREAM_DOWN

    def opened(self, peer: str) -> bool:
        """A client's connection to this address is open. Whether it should be asked now if it leads back."""
        self._open[peer] += 1
        if self._settings.dialect is Dialect.KAFKA_07:
            # its brokers understand no query
            return False
        is_crowd = self._open[peer] >= max(FIRST_CROWD, 2 * self._asked_at.get(peer, 0))
        if is_crowd:
            self._asked_at[peer] = self._open[peer]
        return is_crowd

    def closed(self, peer: str) -> None:
        """It has ended."""
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]
            self._asked_at.pop(peer, None)

    async def ask_whether_it_leads_back(self, peer: str) -> None:
        """Asks the broker at this address the proxy's own query, to see whether it comes back."""
        try:
            await self._ask_at(Address.parse(peer))
        except PeerLost as error:
            log(DEBUG, "many connections, and no answer of its own", upstream=peer, reason=error)
        except Exception:
            # see `_ask`
            log(ERROR, "fault while a broker was asked whether it leads back", trace=True, upstream=peer)

    def _unknown_node(self, number: int, node_id: int) -> Cause:
        level = self._unknown.level(str(node_id))
        log(level, "node is not known", cluster=self._settings.name, connection=number, node=node_id)
        return Cause.UNKNOWN_NODE

    def take(self, settings: ClusterSettings, credentials: Followed | None) -> None:
        """How brokers are dialled from now on."""
        self._settings, self._credentials = settings, credentials

    def doubt(self) -> None:
        """A broker could not be reached: it may be elsewhere now."""
        self._doubt.set()

    async def keep_asking(self) -> None:
        """Asks for the nodes at the start, and again whenever a broker could not be reached. Runs until cancelled."""
        while True:
            self._doubt = trio.Event()
            pause = FIRST_PAUSE
            while not await self.ask() and not self._is_needless():
                await trio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            # clients that come back at once must not make it ask all the time
            await trio.sleep(FIRST_PAUSE)
            await self._doubt.wait()

    async def ask(self) -> bool:
        """Learns the cluster's nodes from its brokers, if they tell. Those who want it meanwhile share the answer."""
        before = self._queries
        async with self._asking:
            if self._queries == before:
                self._answered = await self._ask()
                self._queries += 1
            return self._answered

    async def ask_about_unknown(self) -> bool:
        """As `ask`, for a client: so it does so not too often. Who waits already shares the answer."""
        if not self._asking.locked() and trio.current_time() - self._answered_at < ANSWER_HOLDS:
            return self._answered
        async with self._asking_for_clients:
            if trio.current_time() - self._answered_at >= ANSWER_HOLDS:
                self._answered = await self.ask()
                self._answered_at = trio.current_time()
        return self._answered

    def _is_needless(self) -> bool:
        """Brokers that want a login never tell; clients' answers name the nodes then."""
        return self.reached and self._nodes.are_known

    async def _ask(self) -> bool:
        if self._settings.dialect is Dialect.KAFKA_07:
            return await self._is_there()
        try:
            told = await self.bootstrap.first(self._ask_at, lambda told: None)
            await self._nodes.ensure(told.nodes, told.cluster_id)
        except AllLost as lost:
            self.reached = any(isinstance(reason, NotAnswered) for reason in lost.reasons)
            self._say(str(lost))
        except OSError as error:
            self._say(f"no listener can be had: {error.strerror}")
        except Exception:
            # an answer that nobody thought of must not end the proxy
            log(ERROR, "fault while the cluster was asked for its nodes", trace=True, cluster=self._settings.name)
        else:
            self._reason = ""
            return True
        return False

    async def _ask_at(self, address: Address) -> Told:
        """What the broker at this address tells of its cluster. Raises PeerLost."""
        try:
            told = await ask_for_nodes(partial(self._dial, address), self._query)
        except LedBack as error:
            if address not in self._circles:
                log(WARNING, "upstream leads back", cluster=self._settings.name, upstream=address, reason=error)
            self._circles.add(address)
            raise
        self._circles.discard(address)
        return told

    async def _is_there(self) -> bool:
        """Whether the broker can be connected to: all that one can be asked that knows no metadata."""
        try:
            broker = await self._dial_bootstrap()
        except PeerLost:
            return False
        broker.close()
        return True

    def _say(self, reason: str) -> None:
        """Says why the nodes are not known: aloud when that is news."""
        level = DEBUG if reason == self._reason else WARNING
        log(level, "the cluster's nodes are not known yet", cluster=self._settings.name, reason=reason)
        self._reason = reason

    async def _of_node(self, node_id: int) -> Address | None:
        """Where a node's broker is; where that is not known the cluster is asked, once."""
        if self._nodes.upstream(node_id) is None:
            await self.ask_about_unknown()
        return self._nodes.upstream(node_id)

    async def _dial_bootstrap(self, route: Route | None = None) -> Stream:
        """A connection to the first bootstrap server that takes one. Raises PeerLost."""
        try:
            return await self.bootstrap.first(partial(self._dial_for_client, route=route), Stream.close)
        except PeerLost:
            self.reached = False
            raise

    async def _dial_node(self, address: Address, route: Route | None) -> Stream:
        """A connection to a node's broker. Raises PeerLost."""
        if not self._leads_back(address):
            with suppress(LeadsBack):
                return await self._dial_for_client(address, route)
        # the broker of a sidecar, which calls itself by a name of the proxy
        return await self._dial_bootstrap(route)

    async def _dial_for_client(self, address: Address, route: Route | None) -> Stream:
        if address in self._circles:
            raise PeerLost(f"{address} leads back to this proxy by way of others")
        return await self._dial(address, route)

    async def _dial(self, address: Address, route: Route | None = None) -> Stream:
        """A connection to the broker at this address, for a client or the proxy itself. Raises PeerLost."""
        try:
            broker = await self._connection(address, route)
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
        """Whether an address is one of the proxy's own names, or was found to lead to it lately."""
        return address in self._nodes.own or address in self._own

    async def _connection(self, address: Address, route: Route | None) -> Stream:
        if self._leads_back(address):
            raise LeadsBack(address)
        settings = self._settings
        try:
            plain = await dial(
                address,
                settings.dial_seconds,
                greeting=header(settings.send_proxy, route),
                keepalive=settings.keepalive_seconds,
                is_own=self._nodes.own.are_reached_by,
            )
        except LeadsBack:
            self._own.add(address)
            raise
        name = settings.upstream_tls and settings.upstream_tls.server_name
        return await towards_broker(plain, self._credentials, name or address.host, settings.tls_seconds)
