"""The settings that a cluster of Kafka 0.7 must not have. `ClusterSettings` checks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proxy.schema.faults import Fault, Setting
from proxy.schema.keys import keys_of

# keys about nodes and advertised addresses: no response of Kafka 0.7 names a node
NEEDLESS = (
    *("advertise", "node_ports", "node_count", "nodes", "mapping", "own_node", "bootstrap_name"),
    *("advertise_ports", "advertised", "state", "hide_unknown", "timeouts.forget_node"),
)


def wrong_with_07(cluster: Any) -> Iterator[Fault]:
    """Yields a fault for each setting that a cluster of 0.7 has no use for. `cluster`: a `ClusterSettings`."""
    dialect = Setting("dialect", cluster.dialect, is_short=True)
    for field in keys_of(cluster.__class__).values():
        if field.key.name in NEEDLESS and getattr(cluster, field.name) != field.default:
            why = ", whose brokers' addresses stand in ZooKeeper"
            yield Fault((Setting(field.key.name), " means nothing with ", dialect, why), "leaving one out")
    if len(cluster.upstream) > 1:
        several = Setting("upstream", cluster.upstream), " names several brokers, and with "
        one = Setting("upstream", cluster.upstream[:1]), " and another cluster for each other broker"
        yield Fault((*several, dialect, " a listener stands for one"), one)
