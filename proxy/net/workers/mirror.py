"""A worker's copy of the parent's node table, and its connections to the brokers.

A response that names nodes passes at once if the parent has confirmed these nodes and the cluster id after sending its
newest table. Any other response waits for the parent's answer. The parent answers once every worker accepts on the
nodes' listeners, and waits only briefly for a worker that hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import trio

from proxy.config import ClusterSettings
from proxy.mapping.nodes import Node, NodeMap
from proxy.net.brokers.discovery import LoopProbe
from proxy.net.brokers.nodes import Nodes
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.change import Change, do_nothing
from proxy.net.sockets.tls import LiveCredentials
from proxy.net.state.file import SavedState
from proxy.net.workers.calls import Calls, Payload
from proxy.observer import Observer
from proxy.schema.addresses import Address


class MirroredNodes(Nodes):
    """A worker's node table. `calls`: to the parent, which opens the listeners and sends their sockets."""

    def __init__(self, settings: ClusterSettings, calls: Calls, observer: Observer | None) -> None:
        super().__init__(settings, _never_serves, SavedState(), observer)
        self._calls = calls
        self._brokers: dict[int, str] = {}
        self._told: dict[int, Address] = {}
        # the nodes that the parent has confirmed since its newest table, and the id of their cluster
        self._confirmed: set[Node] = set()
        self._confirmed_cluster: str | None = None
        # named by answers since the newest report to the parent; True if one of the answers listed all nodes
        self._named: set[int] = set()
        self._has_list = False
        # the number of tables and doubts received. An answer confirms nothing if one came after its request
        self._table_number = 0

    def replace_table(
        self, table: Mapping[str, Any], cluster_id: str | None = None, brokers: Iterable[str] = ()
    ) -> None:
        """Takes over the parent's table (`PublishedNodes.table`).

        `brokers`: those too of nodes that have no listener.
        """
        self.identity.add_id(cluster_id)
        self.identity.add_upstreams(*map(Address.parse, brokers))
        self._table_number += 1
        self._confirmed.clear()
        self._confirmed_cluster = None
        before, self._brokers = self._brokers, {int(number): broker for number, (broker, _, _) in table.items()}
        for number, (_, _, advertised) in table.items():
            if advertised:
                self.own_listeners.add_names(Address.parse(advertised), node_id=int(number))
        if self._observer is None:
            return
        for number, (broker, listener, _) in table.items():
            if before.get(int(number)) != broker:
                self._observer.node(int(number), broker or "unknown", listener, self._settings.name)

    def note(self, node_ids: Iterable[int], *, is_list: bool) -> None:
        self._named.update(node_ids)
        self._has_list |= is_list

    def report(self) -> Payload:
        """Returns which nodes answers have named since the last report, and which clients are connected to."""
        report = {"named": [*self._named], "has_list": self._has_list, "connected": [*self.connected]}
        self._named.clear()
        self._has_list = False
        return report

    def doubt(self, node_ids: Iterable[int]) -> None:
        """From now on, the parent is asked again about each response that names one of these nodes."""
        doubted = {*node_ids}
        self._confirmed = {node for node in self._confirmed if node.node_id not in doubted}
        # an answer of the parent that is on its way confirms nothing
        self._table_number += 1

    def forget(self, node_ids: Sequence[int]) -> None:
        """The parent has closed the listeners of these nodes."""
        for node_id in node_ids:
            self._told.pop(node_id, None)
            self.on_forgotten(node_id)
        self.own_listeners.remove(node_ids)

    async def change_to(self, node_map: NodeMap) -> Change:
        """Returns a change that does nothing: the parent opens new listeners, and sends their sockets."""
        return Change(do_nothing, do_nothing)

    def needs_ensure(self, nodes: Sequence[Node], cluster_id: str | None = None) -> bool:
        return not self._confirmed.issuperset(nodes) or cluster_id not in (None, self._confirmed_cluster)

    async def ensure(self, nodes: Iterable[Node], cluster_id: str | None = None) -> None:
        nodes = tuple(nodes)
        if not self.needs_ensure(nodes, cluster_id):
            return
        self.identity.add_id(cluster_id)
        table_number = self._table_number
        request = {"do": "ensure", "cluster": self._settings.name, "nodes": [astuple(node) for node in nodes]}
        answer = await self._calls.ask(request | {"cluster_id": cluster_id}).wait()
        self._told |= {node.node_id: Address(*at) for node, at in zip(nodes, answer["advertised"], strict=True)}
        # "current" is false if a node has moved while the parent waited for the workers
        if answer["current"] and table_number == self._table_number:
            self._confirmed.update(nodes)
            self._confirmed_cluster = cluster_id or self._confirmed_cluster

    def advertised(self, node_id: int) -> Address:
        return self._told[node_id]

    def upstream(self, node_id: int) -> Address | None:
        broker = self._brokers.get(node_id)
        return Address.parse(broker) if broker else None

    @property
    def has_known_broker(self) -> bool:
        return any(self._brokers.values())

    def is_served(self, node_id: int) -> bool:
        return node_id in self._brokers or node_id == self._settings.node_map.own_node


def _never_serves(listener: trio.SocketListener, node_id: int) -> Callable[[], None]:
    raise AssertionError("a worker opens no listener")


class MirroredUpstreams(Upstreams):
    """A worker's connections to brokers. The worker dials them itself, and leaves discovery to the parent (`calls`)."""

    def __init__(
        self,
        settings: ClusterSettings,
        calls: Calls,
        nodes: Nodes,
        credentials: LiveCredentials | None = None,
        loop_probe: LoopProbe | None = None,
    ) -> None:
        super().__init__(settings, nodes, credentials, loop_probe)
        self._calls = calls

    async def discover(self) -> bool:
        try:
            answer = await self._calls.ask({"do": "discover", "cluster": self._settings.name}).wait()
        except OSError:
            return False
        return bool(answer["answered"])

    def request_discovery(self) -> None:
        self._calls.tell({"do": "request_discovery", "cluster": self._settings.name})
