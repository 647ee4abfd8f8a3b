"""The node table of one cluster: each node's broker, and the proxy's listener for it.

A node's listener is opened before a client learns of the node (`ensure`). The node keeps it as long as any answer of
the last hour names the node (`Naming`), or anybody is connected to it. Then the listener is given back. Its port stands
for no other node, and is the node's again when an answer names it again.

The broker's address may change; each new connection looks it up (`upstream`). The relays, `Upstreams` and the admin
page read the table.
"""

from __future__ import annotations

import errno
import math
import resource
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from logging import INFO, WARNING

import trio

from proxy.config import ClusterSettings
from proxy.log import log
from proxy.mapping.nodes import Node, NodeMap
from proxy.metrics.collector import ListenerRoom, NodeListener
from proxy.net.blocking import in_thread_or_inline
from proxy.net.brokers.identity import Identity
from proxy.net.brokers.naming import Naming
from proxy.net.brokers.node_ports import MAX_REMEMBERED, NodePorts, ip_of_host
from proxy.net.brokers.own_listeners import OwnListeners
from proxy.net.change import Change, do_nothing
from proxy.net.log_throttle import LogThrottle
from proxy.net.state.file import KnownNode, Owner, SavedState
from proxy.net.state.writer import StateWriter
from proxy.observer import Observer
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting

# the part of the limit on listeners from which on the log warns. At the start, known nodes take no more: most of them
# may be gone, and those that an answer names need room
NEAR_LIMIT = 0.8
# the most nodes without a listener of their own that are known: no cluster has so many. The node named longest ago is
# forgotten first
MAX_LISTENERLESS = MAX_REMEMBERED
# begins accepting on a new listener, for the node that it stands for; returns a function that closes the listener
ServeNode = Callable[[trio.SocketListener, int], Callable[[], None]]
# the nodes are controllers -> why a response is refused that names nodes of the other kind
_OTHER_KIND = {
    is_controller: f"the response names {theirs}, and these listeners stand for {ours}; "
    f"right would be another cluster in the settings, whose upstream is a {theirs.removesuffix('s')}"
    for is_controller, ours, theirs in ((False, "brokers", "controllers"), (True, "controllers", "brokers"))
}


class Nodes:
    """Node id <-> listener <-> broker.

    descriptors_per_listener: the file descriptors that a listener may take; in the parent, one more for each worker.
    own_listeners: the addresses that the proxy itself must not dial.
    identity: what the recorder is told of the cluster, by which it can be known again.
    naming: which nodes answers have named, and when.
    failing: why answers that name nodes are refused; "": the newest one was not.
    on_forgotten: called with the id of each node that is forgotten.

    Args:
        serve: called once for each new listener, to accept on it from then on.
        state: the content of the state file.
        observer: each node with a listener is reported to it: at the start, when the node is found, when its broker
            moves. None: nothing is recorded.
        reserved: ports of other clusters, passed over when a free port is picked.
    """

    descriptors_per_listener = 1

    def __init__(
        self,
        settings: ClusterSettings,
        serve: ServeNode,
        state: SavedState,
        observer: Observer | None,
        reserved: tuple[range, ...] = (),
    ) -> None:
        self._settings = settings
        self._map: NodeMap = settings.node_map
        self._serve = serve
        self._observer = observer
        self._known = dict(state.nodes)
        self._cluster_id = state.cluster_id
        # the newest id that a broker has told in this run: what the state file says may have been of another cluster
        self._told_id: str | None = None
        # what these nodes are; None until a response says
        self._are_controllers: bool | None = None
        self._log_throttle = LogThrottle()
        self._ports = NodePorts(settings.name, reserved, state.given_back)
        self._bootstrap = settings.listen
        self._listening: dict[int, Address] = {}
        # node id -> closes its listener; the nodes that have one of their own
        self._closers: dict[int, Callable[[], None]] = {}
        self._connected: Counter[int] = Counter()
        self._is_near_limit = False
        self.naming = Naming(settings.forget_node_seconds, state.nodes)
        self.failing = ""
        self.on_forgotten: Callable[[int], None] = lambda node_id: None
        # the nodes whose listener did not get the port that it usually has
        self._without_usual_port: set[int] = set()
        # node id -> port that the kernel picked, for the state file
        self._picked_ports: dict[int, int] = {}
        self._owner = Owner.of(settings)
        self._state_writer = StateWriter(settings.state, self._state) if settings.state is not None else None
        self.identity = Identity(settings.name, observer)
        self.own_listeners = OwnListeners(self.identity.add_listeners)
        self.identity.add_upstreams(*settings.upstream, *self.brokers)

    def add_bootstrap(self, sock: socket.socket, listening: Address) -> None:
        """Adds the bootstrap listener, whose socket listens at `listening`. It may also be the listener of nodes."""
        self._bootstrap = listening
        # two names: the address listened on, and the advertised address
        self.own_listeners.add(sock, listening, self._map.advertised_bootstrap(listening))
        if self._map.own_node is not None:
            # the broker of `own_node` is the bootstrap server
            self._known[self._map.own_node] = KnownNode(self._settings.upstream[0])

    def listen_for_named(self) -> None:
        """Opens the listeners of the nodes that the settings name. Raises BadSetting."""
        for node_id in self._map.named:
            try:
                listener = self._listen(node_id)
            except OSError as error:
                raise BadSetting(self._listen_fault(self._map, node_id, error.strerror)) from error
            self._notify_observer(node_id, self.upstream(node_id), listener)

    async def listen_for_known(self, node_ids: Iterable[int]) -> None:
        """Opens the listeners of nodes that the state file knows; stops at the first that can't be opened."""
        for node_id in node_ids:
            # there may be thousands of nodes, so other tasks get a turn in between
            await trio.lowlevel.checkpoint()
            if node_id in self._listening or node_id not in self._known:
                continue
            try:
                self._check_file_limit({node_id}, NEAR_LIMIT)
                listener = self._listen(node_id)
            except OSError as error:
                log(WARNING, "known nodes can't be listened for", cluster=self._settings.name, reason=error.strerror)
                return
            self._notify_observer(node_id, self.upstream(node_id), listener)

    async def change_to(self, node_map: NodeMap) -> Change:
        """Returns the change to a new node map: listeners for nodes that have none, and new advertised addresses.

        Raises:
            BadSetting: one of the listeners can't be opened.
        """
        opened: dict[int, socket.socket] = {}
        change = Change(
            apply=partial(self._apply_map, node_map, opened),
            # a node keeps the listener that `apply` gave it
            undo=partial(self._apply_map, self._map, {}),
            drop=partial(_close_all, opened),
        )
        try:
            for node_id in node_map.named.keys() - self._listening.keys():
                opened[node_id] = await self._open_socket(node_id, node_map)
        except BaseException:
            change.drop()
            raise
        return change

    async def _open_socket(self, node_id: int, node_map: NodeMap) -> socket.socket:
        try:
            return self._ports.bind(node_id, node_map, await ip_of_host(node_map.named[node_id].host))
        except (OSError, UnicodeError) as error:
            wrong = self._listen_fault(node_map, node_id, getattr(error, "strerror", None) or error)
            raise BadSetting(wrong, cluster=self._settings.name) from error

    def _apply_map(self, node_map: NodeMap, opened: dict[int, socket.socket]) -> None:
        self._map = node_map
        # a node that only a broker's response names may have no advertised address
        for number in self._listening:
            if (name := self._advertised_or_none(number)) is not None:
                self.own_listeners.add_names(name, node_id=number)
        for node_id in [*opened]:
            sock = opened.pop(node_id)
            if node_id in self._listening:
                sock.close()
                log(WARNING, "node keeps the listener that it got meanwhile", cluster=self._settings.name, node=node_id)
            else:
                self._notify_observer(node_id, self.upstream(node_id), self._add_listener(node_id, sock))

    @property
    def known(self) -> list[int]:
        """The ids of all nodes that the state file had or that were found later, sorted."""
        return sorted(self._known)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None while no broker has named it in this run."""
        return self._told_id

    @property
    def brokers(self) -> list[Address]:
        """The addresses of all nodes' brokers that are known."""
        return [node.upstream for node in self._known.values() if node.upstream is not None]

    @property
    def has_known_broker(self) -> bool:
        """True if the address of at least one node's broker is known."""
        return bool(self.brokers)

    def needs_ensure(self, nodes: Sequence[Node], cluster_id: str | None = None) -> bool:
        """True if `ensure` has anything to do for a response that names these nodes."""
        if cluster_id not in (None, self._told_id) or not self.are_current(nodes):
            return True
        return any(node.is_controller not in (None, self._are_controllers) for node in nodes)

    def are_current(self, nodes: Iterable[Node]) -> bool:
        """True if these nodes have their listeners, and their brokers have not moved."""
        return all(map(self._is_current, nodes))

    async def ensure(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        """Learns nodes that a response names. Returns when each node that this proxy serves has its listener.

        Args:
            cluster_id: the cluster's id in that response; None: the response has none.

        Raises:
            OSError: a listener can't be opened, or the response names brokers among controllers or the reverse.
        """
        nodes = tuple(nodes)
        try:
            await self._ensure(nodes, cluster_id)
        except OSError as error:
            self._log_failing(error.strerror or str(error))
            raise
        self.failing = ""

    async def _ensure(self, nodes: tuple[Node, ...], cluster_id: str | None) -> None:
        # the recorder learns the id even from an answer that is refused
        self.identity.add_id(cluster_id)
        self._check_file_limit({node.node_id for node in nodes})
        self._told_id = cluster_id or self._told_id
        is_new_id = cluster_id not in (None, self._cluster_id)
        if is_new_id:
            self._switch_cluster(cluster_id)
        self._check_kind(nodes)
        changed = [node for node in nodes if not self._is_current(node)]
        for node in changed:
            self._learn(node)
            await trio.lowlevel.checkpoint()
        if changed or is_new_id:
            self._give_back_all(self._surplus({node.node_id for node in nodes}))

    def _log_failing(self, reason: str) -> None:
        """Logs that an answer is refused; /readyz fails until one is not."""
        self.failing = reason
        level = self._log_throttle.level("refused")
        log(level, "an answer that names nodes is refused", cluster=self._settings.name, reason=reason)

    def _save(self) -> None:
        if self._state_writer is not None:
            self._state_writer.changed()

    def note(self, node_ids: Iterable[int], *, is_list: bool) -> None:
        """Notes that an answer names these nodes, before `needs_ensure`. `is_list`: it lists all nodes of the cluster.

        An empty list is no answer.
        """
        node_ids = tuple(node_ids)
        if is_list and node_ids:
            self.naming.count_list()
        known = [node_id for node_id in node_ids if node_id in self._known]
        for node_id in known:
            self.naming.name(node_id)
        if self.failing and is_list and len(known) == len(node_ids):
            self.failing = ""

    def count_opened(self, node_id: int | None) -> None:
        """Counts a client as connected to a node; None: to none."""
        if node_id is not None:
            self._connected[node_id] += 1

    def count_closed(self, node_id: int | None) -> None:
        """Counts a client of a node as gone."""
        if node_id is not None:
            self._connected[node_id] -= 1
            if not self._connected[node_id]:
                del self._connected[node_id]

    @property
    def connected(self) -> set[int]:
        """The nodes that clients are connected to."""
        return {*self._connected}

    async def keep_giving_back(self) -> None:
        """Gives back the listeners of nodes that no answer names any more, until cancelled."""
        while True:
            await trio.sleep(self.naming.question_seconds)
            await self.give_back_unnamed()

    async def give_back_unnamed(self) -> None:
        """Forgets the nodes that no answer has named for long and nobody is connected to; closes their listeners."""
        unused = self._unused(self.naming.unnamed)
        if unused and await self._others_agree(unused):
            still_unused = {*self._unused(self.naming.unnamed)}
            self._give_back_all([node_id for node_id in unused if node_id in still_unused])

    async def _others_agree(self, node_ids: Sequence[int]) -> bool:
        """Learns whether other processes use these nodes. False: it can't be learned."""
        return True

    def _give_back_all(self, node_ids: Sequence[int]) -> None:
        for node_id in node_ids:
            self._give_back(node_id)
        self.own_listeners.remove(node_ids)
        self._save()

    def _unused(self, node_ids: Iterable[int]) -> list[int]:
        """Those of the nodes that may be forgotten: the settings do not name them, and nobody is connected to them."""
        lasting = {*self._map.named, self._map.own_node, *self.connected}
        return [node_id for node_id in node_ids if node_id not in lasting]

    def _surplus(self, named_now: set[int]) -> list[int]:
        """The nodes to forget, because too many are known that have no listener of their own."""
        too_many = len(self._known) - len(self._closers) - MAX_LISTENERLESS
        if too_many <= 0:
            return []
        without = (one for one in self.naming.longest_unnamed if one not in self._closers and one not in named_now)
        return self._unused(without)[:too_many]

    def _give_back(self, node_id: int) -> None:
        known = self._known.pop(node_id)
        listener = self._listening.pop(node_id, None)
        self._without_usual_port.discard(node_id)
        self.naming.forget(node_id)
        self.on_forgotten(node_id)
        self._closers.pop(node_id, do_nothing)()
        self._picked_ports.pop(node_id, None)
        if known.port is not None:
            self._ports.give_back(node_id, known.port)
        log(INFO, "node is named no more", cluster=self._settings.name, node=node_id, given_back=listener)
        self._is_near_limit = self._is_near_limit and self._is_beyond(NEAR_LIMIT)
        # there may be room now for the nodes of the answer that was refused
        self.failing = ""

    def advertised(self, node_id: int) -> Address:
        """The advertised address of a node, after `ensure`. Raises OSError: the mapping gives it none."""
        try:
            return self._advertised(node_id)
        except OSError as error:
            self._log_failing(error.strerror or str(error))
            raise

    def _advertised(self, node_id: int) -> Address:
        listening = self._listening.get(node_id)
        try:
            return self._map.advertised(node_id, listening.port if listening else None)
        except ValueError as error:
            raise OSError(errno.EADDRNOTAVAIL, str(error)) from error

    def _advertised_or_none(self, node_id: int) -> Address | None:
        """The advertised address of a node; None: the mapping gives it none."""
        try:
            return self._advertised(node_id)
        except OSError:
            return None

    def upstream(self, node_id: int) -> Address | None:
        """The address of a node's broker; None while it is not known."""
        known = self._known.get(node_id)
        return known.upstream if known else None

    def is_served(self, node_id: int) -> bool:
        """True if the proxy stands for this node. Called in any thread."""
        return node_id in self._listening or node_id == self._map.own_node

    def room(self) -> ListenerRoom:
        """How many listeners nodes have and may have, for the metrics. Called in any thread."""
        return ListenerRoom(self.listener_count, self.listener_limit)

    def listeners(self) -> list[NodeListener]:
        """The nodes' listeners, for the metrics. Called in any thread."""
        unusual = self._without_usual_port
        return [
            NodeListener(number, str(self.upstream(number) or "unknown"), str(listener), number not in unusual)
            for number, listener in list(self._listening.items())
        ]

    def _switch_cluster(self, cluster_id: str | None) -> None:
        """Notes the cluster's id. If another id was known, forgets all brokers: node ids mean other brokers now."""
        before, self._cluster_id = self._cluster_id, cluster_id
        if before is None:
            return
        self._are_controllers = None
        self._known = {number: KnownNode(None, node.port) for number, node in self._known.items()}
        event = "another cluster answers: its nodes take the known ones' places"
        level = self._log_throttle.level(f"now {cluster_id}")
        log(level, event, cluster=self._settings.name, was=before, now=cluster_id)

    def _check_kind(self, nodes: Iterable[Node]) -> None:
        """Notes from the first response that says so if the nodes are brokers or controllers. Raises OSError later.

        Both have the same ids, and one listener can't stand for two addresses.
        """
        for is_controller in {node.is_controller for node in nodes} - {None, self._are_controllers}:
            if self._are_controllers is not None:
                raise OSError(errno.EADDRNOTAVAIL, _OTHER_KIND[self._are_controllers])
            self._are_controllers = is_controller
            if is_controller:
                log(INFO, "upstream is a controller: its nodes are the quorum's", cluster=self._settings.name)

    @property
    def listener_limit(self) -> float:
        """The most listeners that nodes may have: they take no more than half of the file descriptors."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return math.inf if files == resource.RLIM_INFINITY else files // 2 // self.descriptors_per_listener

    @property
    def listener_count(self) -> int:
        """The number of nodes that have a listener of their own."""
        return len(self._closers)

    def _is_beyond(self, part: float) -> bool:
        """True if nodes have more listeners than this part of the limit."""
        return self.listener_count > part * self.listener_limit

    def _check_file_limit(self, node_ids: set[int], part: float = 1.0) -> None:
        """Raises OSError if listeners would take more than this part of the limit."""
        wanted = {node_id for node_id in node_ids if self._map.wanted_listener(node_id) is not None}
        limit = self.listener_limit
        if len(wanted | self._closers.keys()) > part * limit:
            rest = "" if part == 1 else "; the others wait until an answer names them"
            most = math.floor(part * limit)
            raise OSError(errno.EMFILE, f"more nodes than {most}, for half of the files that may be open{rest}")

    def _log_near_limit(self) -> None:
        """Logs once that nodes have nearly as many listeners as they may have, until they have fewer."""
        if not self._is_near_limit and self._is_beyond(NEAR_LIMIT):
            self._is_near_limit = True
            event = "nodes have nearly as many listeners as half of the files that may be open allows"
            level = self._log_throttle.level(event)
            count, limit = self.listener_count, self.listener_limit
            log(level, event, cluster=self._settings.name, listeners=count, limit=limit)

    def _is_current(self, node: Node) -> bool:
        known = self._known.get(node.node_id)
        if known is None or known.upstream != self._upstream_of(node):
            return False
        node_id = node.node_id
        is_served = self._map.wanted_listener(node_id) is not None or self._map.is_served_by_bootstrap(node_id)
        return node_id in self._listening or not is_served

    def _upstream_of(self, node: Node) -> Address | None:
        """The address to dial for a node; None: its broker advertises an address that can't be dialled.

        The first bootstrap server for `own_node`, and for a broker that advertises the proxy itself (as in a sidecar).
        """
        address = node.address
        if address in self.own_listeners or node.node_id == self._map.own_node:
            return self._settings.upstream[0]
        return address if _can_be_dialled(address) else None

    def _learn(self, node: Node) -> None:
        listener = self._listen(node.node_id)
        upstream = self._upstream_of(node)
        self._known[node.node_id] = KnownNode(upstream, self._picked_ports.get(node.node_id))
        self.identity.add_upstreams(*([] if upstream is None else [upstream]))
        self.naming.name(node.node_id)
        log(INFO, "node found", cluster=self._settings.name, node=node.node_id, upstream=upstream, listener=listener)
        self._notify_observer(node.node_id, upstream, listener)

    def _notify_observer(self, node_id: int, upstream: Address | None, listener: Address | None) -> None:
        if self._observer is not None and listener is not None:
            self._observer.node(node_id, str(upstream or "unknown"), str(listener), self._settings.name)

    def _listen(self, node_id: int) -> Address | None:
        """Returns the node's listener, opened if need be; None: another proxy serves the node. Raises OSError."""
        wanted = self._map.wanted_listener(node_id)
        if wanted is None and self._map.is_served_by_bootstrap(node_id):
            # before the node gets the listener: raises if the id (a broker may claim any) has no advertised address
            self.own_listeners.add_names(self._advertised(node_id), node_id=node_id)
            self._listening[node_id] = self._bootstrap
        if node_id in self._listening or wanted is None:
            return self._listening.get(node_id)
        return self._add_listener(node_id, self._ports.bind(node_id, self._map, wanted.host))

    def _add_listener(self, node_id: int, sock: socket.socket) -> Address:
        """Makes a listening socket the node's listener. Returns the listener's address."""
        wanted = self._map.wanted_listener(node_id)
        assert wanted is not None
        port = sock.getsockname()[1]
        if wanted.ports[0] not in (0, port):
            self._without_usual_port.add(node_id)
            cluster = self._settings.name
            event = "node did not get its usual port"
            log(WARNING, event, cluster=cluster, node=node_id, usual=wanted.ports[0], port=port)
        if self._map.is_kept(port, node_id):
            self._picked_ports[node_id] = port
        self._ports.take_back(node_id, port)
        self._listening[node_id] = Address(wanted.host, port)
        self.own_listeners.add(sock, self._listening[node_id], self._advertised(node_id), node_id=node_id)
        self._closers[node_id] = self._serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), node_id)
        self._log_near_limit()
        return self._listening[node_id]

    def _listen_fault(self, node_map: NodeMap, node_id: int, reason: object) -> Fault:
        named = node_map.named.get(node_id)
        setting = Setting(f"nodes.{node_id}", named) if named else Setting("listen", self._settings.listen)
        whose = "" if named else f" for node {node_id}"
        return Fault((setting, f"{whose} can't be listened on ({reason})"), "an address of this machine")

    def _state(self) -> SavedState:
        """Returns the state to save. Called in any thread."""
        # a broker may claim any id; an id below 0 would make the file unreadable
        nodes = {number: node for number, node in self._known.copy().items() if number >= 0}
        return SavedState(nodes, self._cluster_id, self._owner, self._ports.given_back)

    async def close_state(self) -> None:
        """Returns when the state is written, or its write has failed. Later changes are not saved."""
        if self._state_writer is not None:
            await in_thread_or_inline(self._state_writer.close)


def _close_all(sockets: dict[int, socket.socket]) -> None:
    while sockets:
        sockets.popitem()[1].close()


def _can_be_dialled(address: Address) -> bool:
    """True if the address is well-formed: a broker may advertise any text."""
    try:
        return Address.parse(str(address)) == address and address.port != 0
    except ValueError:
        return False
