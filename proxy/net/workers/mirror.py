"""A worker's node table, a copy of the parent's, and its way to the brokers.

A response passes at once if it names the nodes as the parent's table does. Any other response waits until the parent
and every worker are ready for the clients that will dial the nodes that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import trio

from proxy.config import ClusterSettings
from proxy.mapping.nodes import Node, NodeMap
from proxy.net.brokers.discovery import DiscoveryQuery
from proxy.net.brokers.nodes import Nodes
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.change import Change, do_nothing
from proxy.net.observer import Observer
from proxy.net.sockets.tls import LiveCredentials
from proxy.net.state.file import SavedState
from proxy.net.workers.calls import Calls
from proxy.schema.addresses import Address


class MirroredNodes(Nodes):
    """A worker's node table. It opens no listeners: they come from the parent."""

    def __init__(self, settings: ClusterSettings, calls: Calls, observer: Observer | None) -> None:
        super().__init__(settings, _opens_none, SavedState(), observer)
        self._calls = calls
        self._brokers: dict[int, str] = {}
        self._advertised: dict[int, Address] = {}
        # nodes for which the parent is ready, and the id of their cluster
        self._ensured: set[Node] = set()
        self._ensured_for: str | None = None
        # how often the table was replaced: the answer to an earlier request may be outdated
        self._tables = 0

    def replace_table(self, table: Mapping[str, Any]) -> None:
        """Takes over the parent's table: node id -> broker ("" while not known), listener, advertised address."""
        self._tables += 1
        self._ensured.clear()
        self._ensured_for = None
        before, self._brokers = self._brokers, {int(number): row[0] for number, row in table.items()}
        self.own.add_names(*(Address.parse(row[2]) for row in table.values() if row[2]))
        if self._watcher is None:
            return
        for number, (broker, listener, _) in table.items():
            if before.get(int(number)) != broker:
                self._watcher.node(int(number), broker or "unknown", listener, self._settings.name)

    async def prepared(self, node_map: NodeMap) -> Change:
        """No change: the parent opens new listeners, and hands them out."""
        return Change(do_nothing, do_nothing)

    def needs_ensure(self, nodes: Sequence[Node], cluster_id: str | None = None) -> bool:
        return not self._ensured.issuperset(nodes) or cluster_id not in (None, self._ensured_for)

    async def ensure(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        nodes = tuple(nodes)
        if not self.needs_ensure(nodes, cluster_id):
            return
        tables = self._tables
        asked = {"do": "ensure", "cluster": self._settings.name, "nodes": [astuple(node) for node in nodes]}
        answer = await self._calls.ask(asked | {"cluster_id": cluster_id}).wait()
        self._advertised |= {node.node_id: Address(*at) for node, at in zip(nodes, answer["advertised"], strict=True)}
        if answer["current"] and tables == self._tables:
            self._ensured.update(nodes)
            self._ensured_for = cluster_id or self._ensured_for

    def advertised(self, node_id: int) -> Address:
        return self._advertised[node_id]

    def upstream(self, node_id: int) -> Address | None:
        broker = self._brokers.get(node_id)
        return Address.parse(broker) if broker else None

    @property
    def are_known(self) -> bool:
        return any(self._brokers.values())


def _opens_none(listener: trio.SocketListener, node_id: int) -> None:
    raise AssertionError("a worker opens no listener")


class MirroredUpstreams(Upstreams):
    """A worker's way to the brokers: the worker dials them, and the parent queries them for the nodes."""

    def __init__(
        self,
        settings: ClusterSettings,
        calls: Calls,
        nodes: Nodes,
        credentials: LiveCredentials | None = None,
        query: DiscoveryQuery | None = None,
    ) -> None:
        super().__init__(settings, nodes, credentials, query)
        self._calls = calls

    async def discover(self) -> bool:
        try:
            answer = await self._calls.ask({"do": "ask", "cluster": self._settings.name}).wait()
        except OSError:
            return False
        return bool(answer["answered"])

    def suspect(self) -> None:
        self._calls.tell({"do": "doubt", "cluster": self._settings.name})
