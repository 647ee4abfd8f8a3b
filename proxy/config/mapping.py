"""A cluster's brokers, listeners and advertised addresses. `Flow` and `ClusterSettings` add to these keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from proxy.schema.addresses import ADDRESS, BROKERS, HOST, Address
from proxy.schema.keys import Key
from proxy.schema.kinds import FILE, INTEGER, choice


class MappingKind(StrEnum):
    """How clients tell nodes apart."""

    PORTS = "ports"
    TEMPLATE = "template"
    SNI = "sni"


# mapping -> keys that have no use in it
NEEDLESS = {
    MappingKind.PORTS: ("own_node", "bootstrap_name"),
    MappingKind.TEMPLATE: ("node_ports", "advertise_ports", "advertised", "bootstrap_name"),
    MappingKind.SNI: ("node_ports", "advertise_ports", "advertised", "nodes", "own_node"),
}


@dataclass(frozen=True, slots=True)
class Mapped:
    """The keys of brokers, listeners and advertised addresses."""

    upstream: Annotated[
        tuple[Address, ...],
        Key(
            BROKERS,
            "upstream",
            "Bootstrap brokers, tried in order. Later the one that answered last is tried first.",
            ["broker-1:9092", "broker-2:9092"],
        ),
    ]
    listen: Annotated[
        Address, Key(ADDRESS, "listen", "The bootstrap listener. Port 0 is any free port.", "127.0.0.1:19092")
    ]
    advertise: Annotated[
        str | None,
        Key(
            HOST,
            "advertise",
            "What clients are told to dial. With `ports` it is a host; with `template` and `sni` a name for each node, "
            "`broker-{node_id}.example.org:9092`, and the port of `listen` where none is said.",
            "proxy.example.org",
            unset="the host of `listen`",
        ),
    ] = None
    node_ports: Annotated[
        int | None,
        Key(INTEGER, "node_ports", "Node N listens on this port + N.", 19100, unset="the port of `listen` + 1"),
    ] = None
    node_count: Annotated[
        int, Key(INTEGER, "node_count", "Nodes with ids below this number have such a port.", 1000)
    ] = 1000
    nodes: Annotated[
        Mapping[int, Address],
        Key(
            ADDRESS, "nodes", "The listener of one node, by its id.", "127.0.0.1:9094", unset="none", name_kind=INTEGER
        ),
    ] = field(default_factory=dict)
    mapping: Annotated[
        MappingKind,
        Key(
            choice(MappingKind),
            "mapping",
            "How clients tell nodes apart. `ports`: a port for each node. `template`: a name for each node, where each "
            "proxy stands for one node or some. `sni`: a name for each node, and one TLS port for all of them.",
            "template",
        ),
    ] = MappingKind.PORTS
    own_node: Annotated[
        int | None,
        Key(
            INTEGER,
            "own_node",
            "With `template`: the node whose listener is `listen` and whose broker is `upstream`.",
            3,
            unset="none",
        ),
    ] = None
    bootstrap_name: Annotated[
        str | None,
        Key(
            HOST,
            "bootstrap_name",
            "With `sni`: the name by which clients find the cluster. This name and all nodes' names must lead to "
            "`listen`.",
            "kafka.example.org",
            unset="none",
        ),
    ] = None
    advertise_ports: Annotated[
        int | None,
        Key(
            INTEGER,
            "advertise_ports",
            "With `ports`: clients are told this port + N, while node N listens on `node_ports` + N.",
            31100,
            unset="the ports that are listened on",
        ),
    ] = None
    advertised: Annotated[
        Mapping[int, Address],
        Key(
            ADDRESS,
            "advertised",
            "With `ports`: what clients are told of one node, by its id.",
            "kafka-1.example.org:443",
            unset="none",
            name_kind=INTEGER,
        ),
    ] = field(default_factory=dict)
    state: Annotated[
        Path | None,
        Key(
            FILE,
            "state",
            "Keeps nodes and their ports over restarts, for one listener and one cluster. A file of another listener "
            "or cluster is an error. The default name is never another proxy's. Nothing is kept for a listener on port "
            "0 without a capture, or for Kafka 0.7.",
            "nodes.json",
            unset="beside the capture, or in your state folder",
        ),
    ] = None
