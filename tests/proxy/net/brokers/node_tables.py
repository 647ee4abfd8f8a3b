"""Tables of nodes for tests: their brokers and settings, and how a table starts, is saved and grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxy.config import ClusterSettings, MappingKind
from proxy.config.tls import ListenerTls
from proxy.mapping.nodes import Node
from proxy.net.brokers.node_ports import bind
from proxy.net.brokers.nodes import Nodes
from proxy.net.state.file import SavedState, read_state
from proxy.schema.addresses import Address
from tests.proxy.net.peers import HOST
from tests.proxy.net.relays import settings

ONE, TWO, THREE = (Node(number, f"up-{number}.invalid", 9092) for number in (1, 2, 3))
Make = Callable[..., Nodes]


async def listen(nodes: Nodes) -> None:
    """Listens as at the start."""
    nodes.listen_for_named()
    await nodes.listen_for_known(nodes.known)


async def kept(nodes: Nodes, state: Path) -> SavedState:
    """Returns the state that the next start finds."""
    await nodes.close_state()
    return read_state(state)


def free_base(count: int = 8) -> int:
    """Returns the first of so many consecutive free ports."""
    for base in range(20_000, 60_000, 97):
        try:
            for port in range(base, base + count):
                bind(Address(HOST, port)).close()
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


def one_port(**others: Any) -> ClusterSettings:
    return settings(
        mapping=MappingKind.SNI,
        advertise="kafka-{node_id}.example.org:443",
        bootstrap_name="kafka.example.org",
        tls=ListenerTls(Path("proxy.pem")),
        **others,
    )


async def grown(nodes: Nodes, chosen: ClusterSettings) -> None:
    """Applies settings with more nodes."""
    (await nodes.change_to(chosen.node_map)).apply()
