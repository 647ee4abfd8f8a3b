"""The node table of one cluster: each node's broker, and the proxy's listener for it.

A node's listener is opened before a client learns of the node (`ensure`), and the node keeps it for ever. The broker's
address may change; each new connection looks it up (`upstream`). The relays, `Upstreams` and the admin page read the
table.
"""

from __future__ import annotations

import errno
import resource
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from logging import INFO, WARNING

import trio

from proxy.config import ClusterSettings
from proxy.log import log
from proxy.mapping.nodes import WILDCARDS, Node, NodeMap
from proxy.metrics.collector import NodeListener
from proxy.net.blocking import in_thread_or_inline
from proxy.net.brokers.own_listeners import OwnListeners
from proxy.net.change import Change
from proxy.net.log_throttle import LogThrottle
from proxy.net.observer import Observer
from proxy.net.state.file import KnownNode, Owner, SavedState
from proxy.net.state.writer import StateWriter
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting

# connections that may wait to be accepted
BACKLOG = 1024
# /etc/hosts gives a name of this machine at once; a look-up that takes longer hangs in a name service
LOOK_UP_SECONDS = 5.0
# the most free ports that are passed over because they are reserved; after them, any free port is taken
MAX_PASSED_OVER = 64
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
        serve: Callable[[trio.SocketListener, int], None],
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
        # what these nodes are; None until a response says
        self._are_controllers: bool | None = None
        self._log_throttle = LogThrottle()
        self._reserved = reserved
        self._bootstrap = settings.listen
        self._listening: dict[int, Address] = {}
        # the nodes whose listener did not get the port that it usually has
        self._without_usual_port: set[int] = set()
        # node id -> port that the kernel picked, for the state file
        self._picked_ports: dict[int, int] = {}
        self._owner = Owner.of(settings)
        self._state_writer = StateWriter(settings.state, self._state) if settings.state is not None else None
        self.own_listeners = OwnListeners()

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
            if node_id in self._listening:
                continue
            try:
                self._check_file_limit({node_id})
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
            return self._bind(node_id, node_map, await _ip_of(node_map.named[node_id].host))
        except (OSError, UnicodeError) as error:
            wrong = self._listen_fault(node_map, node_id, getattr(error, "strerror", None) or error)
            raise BadSetting(wrong, cluster=self._settings.name) from error

    def _apply_map(self, node_map: NodeMap, opened: dict[int, socket.socket]) -> None:
        self._map = node_map
        # a node that only a broker's response names may have no advertised address
        self.own_listeners.add_names(
            *(name for number in self._listening if (name := self._advertised_or_none(number)) is not None)
        )
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
    def has_known_broker(self) -> bool:
        """True if the address of at least one node's broker is known."""
        return any(node.upstream is not None for node in self._known.values())

    def needs_ensure(self, nodes: Sequence[Node], cluster_id: str | None = None) -> bool:
        """True if `ensure` has anything to do for a response that names these nodes."""
        if cluster_id not in (None, self._cluster_id) or not self.are_current(nodes):
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
        self._check_file_limit({node.node_id for node in nodes})
        is_new_id = cluster_id not in (None, self._cluster_id)
        if is_new_id:
            self._switch_cluster(cluster_id)
        self._check_kind(nodes)
        changed = [node for node in nodes if not self._is_current(node)]
        for node in changed:
            self._learn(node)
            await trio.lowlevel.checkpoint()
        if self._state_writer is not None and (changed or is_new_id):
            self._state_writer.changed()

    def advertised(self, node_id: int) -> Address:
        """The advertised address of a node, after `ensure`. Raises OSError: the mapping gives it none."""
        listening = self._listening.get(node_id)
        try:
            return self._map.advertised(node_id, listening.port if listening else None)
        except ValueError as error:
            raise OSError(errno.EADDRNOTAVAIL, str(error)) from error

    def _advertised_or_none(self, node_id: int) -> Address | None:
        """The advertised address of a node; None: the mapping gives it none."""
        try:
            return self.advertised(node_id)
        except OSError:
            return None

    def upstream(self, node_id: int) -> Address | None:
        """The address of a node's broker; None while it is not known."""
        known = self._known.get(node_id)
        return known.upstream if known else None

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

    def _check_file_limit(self, node_ids: set[int]) -> None:
        """Raises OSError if listeners, which stay for ever, would take more than half of the file descriptors."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        max_nodes = files // 2 // self.descriptors_per_listener
        if files != resource.RLIM_INFINITY and len(node_ids | self._listening.keys()) > max_nodes:
            raise OSError(errno.EMFILE, f"more nodes than {max_nodes}, for half of the files that may be open")

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
            self.own_listeners.add_names(self.advertised(node_id))
            self._listening[node_id] = self._bootstrap
        if node_id in self._listening or wanted is None:
            return self._listening.get(node_id)
        return self._add_listener(node_id, self._bind(node_id, self._map, wanted.host))

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
        self._listening[node_id] = Address(wanted.host, port)
        self.own_listeners.add(sock, self._listening[node_id], self.advertised(node_id))
        self._serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), node_id)
        return self._listening[node_id]

    def _listen_fault(self, node_map: NodeMap, node_id: int, reason: object) -> Fault:
        named = node_map.named.get(node_id)
        setting = Setting(f"nodes.{node_id}", named) if named else Setting("listen", self._settings.listen)
        whose = "" if named else f" for node {node_id}"
        return Fault((setting, f"{whose} can't be listened on ({reason})"), "an address of this machine")

    def _bind(self, node_id: int, node_map: NodeMap, host: str) -> socket.socket:
        """Returns a socket that listens at `host`, on the first of the node's ports that is free. Raises OSError."""
        wanted = node_map.wanted_listener(node_id)
        assert wanted is not None
        for port in wanted.ports[:-1]:
            try:
                return bind(Address(host, port))
            except OSError as error:
                cluster = self._settings.name
                log(WARNING, "port can't be had", cluster=cluster, node=node_id, port=port, reason=error.strerror)
        return bind(Address(host, wanted.ports[-1])) if wanted.ports[-1] else self._bind_any(node_id, host)

    def _bind_any(self, node_id: int, host: str) -> socket.socket:
        """Returns a socket that listens on a free port. Passes over at most MAX_PASSED_OVER reserved ports."""
        passed_over: list[socket.socket] = []
        try:
            while True:
                sock = bind(Address(host, 0))
                if len(passed_over) >= MAX_PASSED_OVER or not self._is_reserved(sock.getsockname()[1], node_id):
                    return sock
                passed_over.append(sock)
        finally:
            for sock in passed_over:
                sock.close()

    def _is_reserved(self, port: int, node_id: int) -> bool:
        return self._map.is_set_aside(port, node_id) or any(port in ports for ports in self._reserved)

    def _state(self) -> SavedState:
        """Returns the state to save. Called in any thread."""
        # a broker may claim any id; an id below 0 would make the file unreadable
        nodes = {number: node for number, node in self._known.copy().items() if number >= 0}
        return SavedState(nodes, self._cluster_id, self._owner)

    async def close_state(self) -> None:
        """Returns when the state is written, or its write has failed. Later changes are not saved."""
        if self._state_writer is not None:
            await in_thread_or_inline(self._state_writer.close)


def _close_all(sockets: dict[int, socket.socket]) -> None:
    while sockets:
        sockets.popitem()[1].close()


async def _ip_of(host: str) -> str:
    """Returns the IP address, or the wildcard, of a listener's host. Raises OSError."""
    if host in WILDCARDS:
        return host
    with trio.move_on_after(LOOK_UP_SECONDS):
        (*_, sockaddr), *_ = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return str(sockaddr[0])
    raise OSError(errno.ETIMEDOUT, "its name can't be looked up in time")


def _can_be_dialled(address: Address) -> bool:
    """True if the address is well-formed: a broker may advertise any text."""
    try:
        return Address.parse(str(address)) == address and address.port != 0
    except ValueError:
        return False


def bind(address: Address) -> socket.socket:
    """Returns a socket that listens at the address; host "*" is every IPv4 interface. Raises OSError."""
    sock = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("" if address.host == "*" else address.host, address.port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
