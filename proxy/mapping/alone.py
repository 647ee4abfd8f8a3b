"""A listener for one broker, and nothing to tell of it: Kafka 0.7, whose brokers' addresses stand in ZooKeeper.

Each broker needs a proxy's listener of its own there, and registers it in its own name: no response says where others
are.
"""

from dataclasses import dataclass

from proxy.mapping.nodes import OneListener
from proxy.schema.addresses import Address


@dataclass(frozen=True, slots=True)
class AloneMap(OneListener):
    """The bootstrap listener is all there is; no client is ever told of a node."""

    def advertised(self, node_id: int, port: int | None) -> Address:
        """Raises ValueError: there is nothing to tell."""
        raise ValueError(f"node {node_id} has no listener: this cluster speaks the dialect of Kafka 0.7")

    def called(self, bootstrap: Address) -> Address:
        """As far as the proxy knows, by its own address."""
        return bootstrap

    def is_bootstraps(self, node_id: int) -> bool:
        """No node is."""
        return False

    def meant(self, node_id: int | None, server_name: str | None) -> int | None:
        """The one broker, whatever name a client of TLS asks for."""
        return None
