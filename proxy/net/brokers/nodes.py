"""The cluster's nodes as the proxy stands for them: a listener for each, opened before anybody is told of it.

A node keeps its listener for ever. What changes is where its broker is; that is asked for at each new connection.
"""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from logging import INFO, WARNING
from typing import Protocol

import trio

from proxy.config import ClusterSettings
from proxy.log import log
from proxy.mapping.nodes import WILDCARDS, Node, NodeMap
from proxy.metrics.collector import NodeListener
from proxy.net.blocking import at_last
from proxy.net.brokers.own_listeners import OwnListeners
from proxy.net.change import Change
from proxy.net.log_throttle import LogThrottle
from proxy.net.state.file import KnownNode, Owner, State
from proxy.net.state.writer import StateWriter
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting

# connections that may wait to be accepted
BACKLOG = 1024
# an own name stands in a file of this machine, or somebody's name service hangs
LOOK_UP_SECONDS = 5.0
# so often a freely picked port may turn out to be set aside for another node
PICKS = 64


class NodeWatcher(Protocol):
    """Who wants to know of the cluster's nodes: the observer's part of it."""

    def node(self, node_id: int, upstream: str, listener: str, cluster: str) -> None:
        """A node was found, or has moved."""


class Nodes:
    """Node id <-> listener <-> broker. `copies`: descriptors that a listener may take in this process.

    Args:
        serve: accepts on a listener for a node from now on; called once for each.
        state: what the state file says.
        watcher: is told of nodes known, found and moved.
        reserved: ports that are other clusters', never to be picked.
    """

    copies = 1

    def __init__(
        self,
        settings: ClusterSettings,
        serve: Callable[[trio.SocketListener, int], None],
        state: State,
        watcher: NodeWatcher | None,
        reserved: tuple[range, ...] = (),
    ) -> None:
        self._settings = settings
        self._map: NodeMap = settings.node_map
        self._serve = serve
        self._watcher = watcher
        self._known = dict(state.nodes)
        self._cluster_id = state.cluster_id
        self._log_throttle = LogThrottle()
        self._reserved = reserved
        self._bootstrap = settings.listen
        self._listening: dict[int, Address] = {}
        self._usual: dict[int, bool] = {}
        # ports that no rule gives and that are to be kept
        self._picked: dict[int, int] = {}
        self._owner = Owner.of(settings)
        self._state_writer = StateWriter(settings.state, self._state) if settings.state is not None else None
        # never to be dialled by the proxy itself
        self.own = OwnListeners()

    def bootstrap_at(self, sock: socket.socket, listening: Address) -> None:
        """The bootstrap listener is there; it may be some nodes' too."""
        self._bootstrap = listening
        self.own.add(sock, listening, self._map.called(listening))
        if self._map.own is not None:
            # it is the broker that the proxy was started for
            self._known[self._map.own] = KnownNode(self._settings.upstream[0])

    def listen_for_named(self) -> None:
        """Opens the listeners of nodes that were named. Raises BadSetting."""
        for node_id in self._map.named:
            try:
                listener = self._listen(node_id)
            except OSError as error:
                raise BadSetting(self._cannot_listen(self._map, node_id, error.strerror)) from error
            self._tell(node_id, self.upstream(node_id), listener)

    async def listen_for_known(self, node_ids: Iterable[int]) -> None:
        """Opens the listeners of nodes that the state file knows, as far as they can be had."""
        for node_id in node_ids:
            # there may be thousands: others have their turn in between
            await trio.lowlevel.checkpoint()
            if node_id in self._listening:
                continue
            try:
                self._check_room({node_id})
                listener = self._listen(node_id)
            except OSError as error:
                log(WARNING, "known nodes can't be listened for", cluster=self._settings.name, reason=error.strerror)
                return
            self._tell(node_id, self.upstream(node_id), listener)

    async def prepared(self, places: NodeMap) -> Change:
        """What takes in new places: listeners for nodes that have none, and what clients are told.

        Raises:
            BadSetting: one of the listeners can't be had.
        """
        opened: dict[int, socket.socket] = {}
        change = Change(
            make=partial(self._grow, places, opened),
            # a node that has a listener by then keeps it
            undo=partial(self._grow, self._map, {}),
            drop=partial(_close, opened),
        )
        try:
            for node_id in places.named.keys() - self._listening.keys():
                opened[node_id] = await self._opened(node_id, places)
        except BaseException:
            change.drop()
            raise
        return change

    async def _opened(self, node_id: int, places: NodeMap) -> socket.socket:
        try:
            return self._bind(node_id, places, await _number(places.named[node_id].host))
        except (OSError, UnicodeError) as error:
            wrong = self._cannot_listen(places, node_id, getattr(error, "strerror", None) or error)
            raise BadSetting(wrong, cluster=self._settings.name) from error

    def _grow(self, places: NodeMap, opened: dict[int, socket.socket]) -> None:
        self._map = places
        # some may have none: nodes that only a broker's answer has named
        self.own.call(*(told for node_id in self._listening if (told := self._told(node_id)) is not None))
        for node_id in [*opened]:
            sock = opened.pop(node_id)
            if node_id in self._listening:
                sock.close()
                log(WARNING, "node keeps the listener that it got meanwhile", cluster=self._settings.name, node=node_id)
            else:
                self._tell(node_id, self.upstream(node_id), self._take(node_id, sock))

    @property
    def known(self) -> list[int]:
        """The nodes of the state file, and those that were seen since."""
        return sorted(self._known)

    @property
    def are_known(self) -> bool:
        """Whether any node's broker is known."""
        return any(node.upstream is not None for node in self._known.values())

    def are_news(self, nodes: Sequence[Node], cluster_id: str | None = None) -> bool:
        """Whether `ensure` would have anything to do for a response that names these."""
        return cluster_id not in (None, self._cluster_id) or not self.are_current(nodes)

    def are_current(self, nodes: Iterable[Node]) -> bool:
        """Whether these are listened for, and their brokers are where they are said to be."""
        return all(map(self._is_current, nodes))

    async def ensure(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        """Returns when every one of the nodes is listened for, if it is this proxy's. Raises OSError: no port.

        Args:
            cluster_id: of the cluster that named them; None: not told.
        """
        nodes = tuple(nodes)
        self._check_room({node.node_id for node in nodes})
        is_news = cluster_id not in (None, self._cluster_id)
        if is_news:
            self._belong_to(cluster_id)
        changed = [node for node in nodes if not self._is_current(node)]
        for node in changed:
            self._learn(node)
            await trio.lowlevel.checkpoint()
        if self._state_writer is not None and (changed or is_news):
            self._state_writer.changed()

    def advertised(self, node_id: int) -> Address:
        """What clients are told of a node that `ensure` has seen. Raises OSError: the mapping has nothing to tell."""
        listening = self._listening.get(node_id)
        try:
            return self._map.advertised(node_id, listening.port if listening else None)
        except ValueError as error:
            raise OSError(errno.EADDRNOTAVAIL, str(error)) from error

    def _told(self, node_id: int) -> Address | None:
        """As `advertised`; None where there is nothing to tell."""
        try:
            return self.advertised(node_id)
        except OSError:
            return None

    def upstream(self, node_id: int) -> Address | None:
        """Where a node's broker is; None while that is not known."""
        known = self._known.get(node_id)
        return known.upstream if known else None

    def listeners(self) -> list[NodeListener]:
        """For the metrics; may be called in another thread."""
        return [
            NodeListener(number, str(self.upstream(number) or "unknown"), str(listener), self._usual[number])
            for number, listener in list(self._listening.items())
        ]

    def _belong_to(self, cluster_id: str | None) -> None:
        """Nodes of another cluster are not those that are known by their numbers: clients must not meet these."""
        before, self._cluster_id = self._cluster_id, cluster_id
        if before is None:
            return
        self._known = {number: KnownNode(None, node.port) for number, node in self._known.items()}
        told = "another cluster answers: its nodes take the known ones' places"
        level = self._log_throttle.level(f"now {cluster_id}")
        log(level, told, cluster=self._settings.name, was=before, now=cluster_id)

    def _check_room(self, wanted: set[int]) -> None:
        """A listener is kept for ever, so one mad answer must not take the files that connections need."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = files // 2 // self.copies
        if files != resource.RLIM_INFINITY and len(wanted | self._listening.keys()) > most:
            raise OSError(errno.EMFILE, f"more nodes than {most}, for half of the files that may be open")

    def _is_current(self, node: Node) -> bool:
        known = self._known.get(node.node_id)
        if known is None or known.upstream != self._upstream_of(node):
            return False
        is_anothers = self._map.wanted(node.node_id) is None and not self._map.is_bootstraps(node.node_id)
        return node.node_id in self._listening or is_anothers

    def _upstream_of(self, node: Node) -> Address | None:
        """Where a broker advertises the proxy itself (a sidecar's), it is the one that the proxy was started for."""
        address = node.address
        if address in self.own or node.node_id == self._map.own:
            return self._settings.upstream[0]
        return address if _can_be_dialled(address) else None

    def _learn(self, node: Node) -> None:
        listener = self._listen(node.node_id)
        upstream = self._upstream_of(node)
        self._known[node.node_id] = KnownNode(upstream, self._picked.get(node.node_id))
        log(INFO, "node found", cluster=self._settings.name, node=node.node_id, upstream=upstream, listener=listener)
        self._tell(node.node_id, upstream, listener)

    def _tell(self, node_id: int, upstream: Address | None, listener: Address | None) -> None:
        if self._watcher is not None and listener is not None:
            self._watcher.node(node_id, str(upstream or "unknown"), str(listener), self._settings.name)

    def _listen(self, node_id: int) -> Address | None:
        """The node's listener, which is opened if it isn't yet; None: another proxy's node. Raises OSError."""
        wanted = self._map.wanted(node_id)
        if wanted is None and self._map.is_bootstraps(node_id):
            # before anything is noted: a broker may give itself a number that has no name
            self.own.call(self.advertised(node_id))
            self._listening[node_id], self._usual[node_id] = self._bootstrap, True
        if node_id in self._listening or wanted is None:
            return self._listening.get(node_id)
        return self._take(node_id, self._bind(node_id, self._map, wanted.host))

    def _take(self, node_id: int, sock: socket.socket) -> Address:
        """This is the node's listener."""
        wanted = self._map.wanted(node_id)
        assert wanted is not None
        port = sock.getsockname()[1]
        self._usual[node_id] = wanted.ports[0] in (0, port)
        if not self._usual[node_id]:
            cluster = self._settings.name
            told = "node did not get its usual port"
            log(WARNING, told, cluster=cluster, node=node_id, usual=wanted.ports[0], port=port)
        if self._map.is_kept(port, node_id):
            self._picked[node_id] = port
        self._listening[node_id] = Address(wanted.host, port)
        self.own.add(sock, self._listening[node_id], self.advertised(node_id))
        self._serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), node_id)
        return self._listening[node_id]

    def _cannot_listen(self, places: NodeMap, node_id: int, reason: object) -> Fault:
        named = places.named.get(node_id)
        setting = Setting(f"nodes.{node_id}", named) if named else Setting("listen", self._settings.listen)
        whose = "" if named else f" for node {node_id}"
        return Fault((setting, f"{whose} can't be listened on ({reason})"), "an address of this machine")

    def _bind(self, node_id: int, places: NodeMap, host: str) -> socket.socket:
        """A socket that listens for a node, at this host. Raises OSError."""
        wanted = places.wanted(node_id)
        assert wanted is not None
        for port in wanted.ports[:-1]:
            try:
                return bind(Address(host, port))
            except OSError as error:
                cluster = self._settings.name
                log(WARNING, "port can't be had", cluster=cluster, node=node_id, port=port, reason=error.strerror)
        return bind(Address(host, wanted.ports[-1])) if wanted.ports[-1] else self._bind_any(node_id, host)

    def _bind_any(self, node_id: int, host: str) -> socket.socket:
        """A free port, but no other node's: that node might come yet."""
        passed_over: list[socket.socket] = []
        try:
            while True:
                sock = bind(Address(host, 0))
                if len(passed_over) >= PICKS or not self._is_anothers(sock.getsockname()[1], node_id):
                    return sock
                passed_over.append(sock)
        finally:
            for sock in passed_over:
                sock.close()

    def _is_anothers(self, port: int, node_id: int) -> bool:
        return self._map.is_set_aside(port, node_id) or any(port in ports for ports in self._reserved)

    def _state(self) -> State:
        """As it is now; called in another thread."""
        # a broker may give itself any number; one below 0 has no place of its own at the next start
        nodes = {number: node for number, node in self._known.copy().items() if number >= 0}
        return State(nodes, self._cluster_id, self._owner)

    async def keep_last(self) -> None:
        """Returns when what is known is on the disk; what comes from now on is not kept."""
        if self._state_writer is not None:
            await at_last(self._state_writer.close)


def _close(sockets: dict[int, socket.socket]) -> None:
    while sockets:
        sockets.popitem()[1].close()


async def _number(host: str) -> str:
    """The IP address of a host of this machine, looked up where nothing waits for it. Raises OSError."""
    if host in WILDCARDS:
        return host
    with trio.move_on_after(LOOK_UP_SECONDS):
        (*_, sockaddr), *_ = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return str(sockaddr[0])
    raise OSError(errno.ETIMEDOUT, "its name can't be looked up in time")


def _can_be_dialled(address: Address) -> bool:
    """Whether it can be an address at all; what brokers say of themselves is theirs."""
    try:
        return Address.parse(str(address)) == address and address.port != 0
    except ValueError:
        return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def bind(address: Address) -> socket.socket:
    """A socket that listens at the address; host "*" is every IPv4 interface. Raises OSError."""
    sock = socket.socket(_family(address.host), socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("" if address.host == "*" else address.host, address.port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
