"""What the dialect of Kafka 0.7 leaves out of a cluster's settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

# about nodes and what clients are told of them: no answer of Kafka 0.7 names any
NEEDLESS = (
    *("advertise", "node_ports", "node_count", "nodes", "mapping", "own_node", "bootstrap_name"),
    *("advertise_ports", "advertised", "state", "hide_unknown"),
)


def wrong_with_07(cluster: Any) -> Iterator[str]:
    """A line for each thing in the settings of a cluster of 0.7 that it has no use for."""
    dialect = f'dialect = "{cluster.dialect}"'
    for field in fields(cluster):
        if field.name in NEEDLESS and getattr(cluster, field.name) != _default(field):
            yield (
                f"clusters.{cluster.name}.{field.name} means nothing with {dialect}, whose brokers' addresses stand "
                "in ZooKeeper; right would be leaving one out"
            )
    if len(cluster.upstream) > 1:
        yield (
            f"--upstream {','.join(map(str, cluster.upstream))} names several brokers, and with {dialect} a listener "
            f"stands for one; right would be --upstream {cluster.upstream[0]} and another cluster for each other broker"
        )


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
