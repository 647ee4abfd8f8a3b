"""The brokers, as the proxy reaches them: dialled for clients, asked for the cluster's nodes.

An address that leads back to the proxy is not dialled on and on: a connection to it shows that it does, and then it is
known for a while. Who can't be reached is said once, and once when it is back; then the cluster is asked again, for the
broker may be elsewhere now.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING

import trio

from proxy.config import ClusterSettings
from proxy.conversation import Cause
from proxy.log import log
from proxy.net.bootstrap import Bootstrap
from proxy.net.news import News
from proxy.net.nodes import Nodes
from proxy.net.proxy_protocol import Route, header
from proxy.net.question import NoAnswer, ask_for_nodes
from proxy.net.streams import LeadsBack, PeerLost, Stream, dial
from proxy.net.tls import towards_broker
from proxy.rewrite.nodes import Address
from proxy.tls.contexts import Credentials
from proxy.tls.settings import UpstreamTls
from proxy.wire.dialects import Dialect

# pauses between two questions that nobody answered, in seconds
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# clients may ask for any node: the cluster is not asked about it again within so many seconds of its last answer
ANSWER_HOLDS = 1.0
# so long an address that was found to lead back to the proxy is not dialled again; a name may lead elsewhere later
LEADS_BACK_HOLDS = 60.0


class Upstreams:
    """Who to connect a client to, and whether there is anybody. `reached`: a bootstrap server was, when last tried."""

    def __init__(self, settings: ClusterSettings, nodes: Nodes, credentials: Credentials | None = None) -> None:
        self.reached = False
        self.bootstrap = Bootstrap(settings.name, settings.upstream)
        self._settings = settings
        self._credentials = credentials
        self._nodes = nodes
        self._down: set[Address] = set()
        # addresses that lead back to the proxy, and when that was found
        self._own: dict[Address, float] = {}
        # nodes that clients ask for by number or name: with `sni` they may think of any
        self._unknown = News()
        self._asking = trio.Lock()
        self._asking_for_clients = trio.Lock()
        self._questions = 0
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

    def _unknown_node(self, number: int, node_id: int) -> Cause:
        level = self._unknown.level(str(node_id))
        log(level, "node is not known", cluster=self._settings.name, connection=number, node=node_id)
        return Cause.UNKNOWN_NODE

    def take_over(self, tls: UpstreamTls | None) -> None:
        """How brokers are asked for from now on."""
        self._settings = replace(self._settings, upstream_tls=tls)

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
        before = self._questions
        async with self._asking:
            if self._questions == before:
                self._answered = await self._ask()
                self._questions += 1
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
            told = await ask_for_nodes(self.bootstrap, self._dial)
            await self._nodes.ensure(told.nodes, told.cluster_id)
        except NoAnswer as error:
            self.reached = error.reached
            self._say(str(error))
        except OSError as error:
            self._say(f"no listener can be had: {error.strerror}")
        except Exception:
            # an answer that nobody thought of must not end the proxy
            log(ERROR, "fault while the cluster was asked for its nodes", trace=True, cluster=self._settings.name)
        else:
            self._reason = ""
            return True
        return False

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
            return await self.bootstrap.first(partial(self._dial, route=route), Stream.close)
        except PeerLost:
            self.reached = False
            raise

    async def _dial_node(self, address: Address, route: Route | None) -> Stream:
        """A connection to a node's broker. Raises PeerLost."""
        if not self._leads_back(address):
            with suppress(LeadsBack):
                return await self._dial(address, route)
        # the broker of a sidecar, which calls itself by a name of the proxy
        return await self._dial_bootstrap(route)

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
        return address in self._nodes.own or trio.current_time() - self._own.get(address, -math.inf) < LEADS_BACK_HOLDS

    def _note_own(self, address: Address) -> None:
        now = trio.current_time()
        self._own = {one: found for one, found in self._own.items() if now - found < LEADS_BACK_HOLDS} | {address: now}

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
            self._note_own(address)
            raise
        name = settings.upstream_tls and settings.upstream_tls.server_name
        return await towards_broker(plain, self._credentials, name or address.host, settings.tls_seconds)
