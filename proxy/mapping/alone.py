"""The mapping for Kafka 0.7: one listener for one broker. Its responses name no brokers; clients ask ZooKeeper.

Each broker needs a listener of its own, and registers that listener's address in ZooKeeper as its own.
"""

from dataclasses import dataclass

from proxy.mapping.nodes import OneListener
from proxy.schema.addresses import Address


@dataclass(frozen=True, slots=True)
class AloneMap(OneListener):
    """The bootstrap listener alone; no client is ever told of a node."""

    def advertised(self, node_id: int, port: int | None) -> Address:
        """Raises ValueError: no node is advertised."""
        raise ValueError(f"node {node_id} has no listener: this cluster speaks the dialect of Kafka 0.7")

    def advertised_bootstrap(self, bootstrap: Address) -> Address:
        """The listener's own address."""
        return bootstrap

    def is_served_by_bootstrap(self, node_id: int) -> bool:
        """False: the listener stands for no node."""
        return False

    def requested_node(self, node_id: int | None, server_name: str | None) -> int | None:
        """None, the one broker, whatever server name a client sends."""
        return None
