"""A listener for one broker of Kafka 0.7, whose brokers' addresses are in ZooKeeper and in no response.

Each broker needs a listener of its own, and registers it in ZooKeeper in its own name.
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
        """The listener's own address: the proxy knows no other."""
        return bootstrap

    def is_served_by_bootstrap(self, node_id: int) -> bool:
        """False: the listener stands for no node."""
        return False

    def requested_node(self, node_id: int | None, server_name: str | None) -> int | None:
        """The one broker, whatever name a client of TLS asks for."""
        return None
