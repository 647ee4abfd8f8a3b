"""The cluster's nodes as the proxy stands for them: a listener for each, opened before anybody is told of it.

A node keeps its listener for ever. What changes is where its broker is; that is asked for at each new connection.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable
from logging import INFO, WARNING
from typing import Protocol

import trio

from proxy.config import ProxySettings
from proxy.log import log
from proxy.metrics.collector import NodeListener
from proxy.net.state import KnownNode, write_state
from proxy.rewrite.nodes import Address, Node, PortMap

# connections that may wait to be accepted
BACKLOG = 1024
# so often a freely picked port may turn out to be set aside for another node
PICKS = 64


class NodeWatcher(Protocol):
    def node(self, node_id: int, upstream: str, listener: str) -> None: ...


class Nodes:
    """Node id <-> listener <-> broker.

    Args:
        serve: accepts on a listener for a node; called once for each, must not return before it accepts.
        known: the nodes of the state file.
        watcher: is told of nodes found and moved.
    """

    def __init__(
        self,
        settings: ProxySettings,
        serve: Callable[[trio.SocketListener, int], Awaitable[None]],
        known: dict[int, KnownNode],
        watcher: NodeWatcher | None,
    ) -> None:
        self._settings = settings
        self._ports: PortMap = settings.ports
        self._serve = serve
        self._watcher = watcher
        self._known = dict(known)
        self._listening: dict[int, Address] = {}
        self._usual: dict[int, bool] = {}
        self._lock = trio.Lock()
        # addresses that lead back to this proxy
        self._own: set[Address] = set()

    def add_own(self, *addresses: Address) -> None:
        """These are the proxy itself: never to be dialled."""
        self._own.update(addresses)

    async def listen_for_known(self) -> None:
        """Opens the listeners of the state file's nodes, and of those that were named."""
        async with self._lock:
            for node_id in {**self._known, **self._ports.named}:
                await self._listen(node_id)

    async def ensure(self, nodes: Iterable[Node]) -> None:
        """Returns when every one of the nodes is listened for. Raises OSError: no port can be had."""
        if all(self._is_current(node) for node in nodes):
            return
        async with self._lock:
            changed = [node for node in nodes if not self._is_current(node)]
            for node in changed:
                await self._learn(node)
            if changed:
                await self._save()

    def advertised(self, node_id: int) -> Address:
        """What clients are told of a node that `ensure` has seen."""
        return self._ports.advertised(node_id, self._listening[node_id].port)

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

    def _is_current(self, node: Node) -> bool:
        known = self._known.get(node.node_id)
        return known is not None and node.node_id in self._listening and known.upstream == self._upstream_of(node)

    def _upstream_of(self, node: Node) -> Address:
        """Where a broker advertises the proxy itself (a sidecar's), it is the one that the proxy was started for."""
        return self._settings.upstream[0] if node.address in self._own else node.address

    async def _learn(self, node: Node) -> None:
        listener = await self._listen(node.node_id)
        upstream = self._upstream_of(node)
        self._known[node.node_id] = KnownNode(listener.port, upstream)
        log(INFO, "node found", node=node.node_id, upstream=upstream, listener=listener)
        if self._watcher is not None:
            self._watcher.node(node.node_id, str(upstream), str(listener))

    async def _listen(self, node_id: int) -> Address:
        if node_id in self._listening:
            return self._listening[node_id]
        wanted = self._ports.wanted(node_id)
        sock = self._bind(node_id, wanted.ports, wanted.host)
        port = sock.getsockname()[1]
        self._usual[node_id] = port == wanted.ports[0] or wanted.ports[0] == 0
        if not self._usual[node_id]:
            log(WARNING, "node did not get its usual port", node=node_id, usual=wanted.ports[0], port=port)
        await self._serve(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), node_id)
        self._listening[node_id] = Address(wanted.host, port)
        self.add_own(self._listening[node_id], self.advertised(node_id))
        return self._listening[node_id]

    def _bind(self, node_id: int, ports: tuple[int, ...], host: str) -> socket.socket:
        for port in ports[:-1]:
            try:
                return bind(Address(host, port))
            except OSError as error:
                log(WARNING, "port can't be had", node=node_id, port=port, reason=error.strerror)
        return self._bind_any(node_id, host)

    def _bind_any(self, node_id: int, host: str) -> socket.socket:
        """A free port, but no other node's: that node might come yet."""
        passed_over: list[socket.socket] = []
        try:
            while True:
                sock = bind(Address(host, 0))
                if len(passed_over) >= PICKS or not self._ports.is_set_aside(sock.getsockname()[1], node_id):
                    return sock
                passed_over.append(sock)
        finally:
            for sock in passed_over:
                sock.close()

    async def _save(self) -> None:
        path = self._settings.state
        if path is None:
            return
        try:
            await trio.to_thread.run_sync(write_state, path, dict(self._known))
        except OSError as error:
            log(WARNING, "state file can't be written", path=path, reason=error.strerror)


def bind(address: Address) -> socket.socket:
    """A socket that listens at the address. Raises OSError."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address.host, address.port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
