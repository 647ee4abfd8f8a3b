"""`NodeMap`, the protocol of every mapping of nodes to listeners, and what mappings share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import NamedTuple, Protocol, TypeVar

from proxy.schema.addresses import Address, is_host, is_ip
from proxy.schema.faults import Fault, Setting

Listener = TypeVar("Listener")

PORTS = range(1, 1 << 16)

# Hosts that mean every interface, which no client can dial.
WILDCARDS = frozenset({"", "0.0.0.0", "::", "*"})


@dataclass(frozen=True, slots=True)
class Node:
    """A broker or controller as the cluster names it.

    is_controller: None if the response names nodes of its sender's own kind, whichever that is. One id may be a broker
        and a controller, with an address for each.
    """

    node_id: int
    host: str
    port: int
    is_controller: bool | None = field(default=False, compare=False)

    @property
    def address(self) -> Address:
        """The node's address in the cluster's response. A broker may give any text as its host."""
        return Address(self.host, self.port)


class WantedListener(NamedTuple):
    """The listener that a node should get: the host, and the ports to try in order (0: any free one; always last)."""

    ports: tuple[int, ...]
    host: str


class Misplaced(ValueError):
    """The settings of a mapping contradict each other. `faults`: one for each contradiction."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class NodeMap(Protocol):
    """The listener and the advertised address of each node of one cluster.

    named: node id -> listener, of the nodes that have a listener from the start.
    own_node: the node that the bootstrap listener stands for, and whose broker is the upstream; None: there is none.
    usual_ports: ports that are set aside for nodes.
    warnings: lines to log at the start.
    """

    @property
    def named(self) -> Mapping[int, Address]: ...
    @property
    def own_node(self) -> int | None: ...
    @property
    def usual_ports(self) -> range: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...

    def wanted_listener(self, node_id: int) -> WantedListener | None:
        """The listener that a node should get; None: no listener of its own."""

    def advertised(self, node_id: int, port: int | None) -> Address:
        """A node's advertised address. `port`: its listener's; None: it has none. Raises ValueError: no address."""

    def advertised_bootstrap(self, bootstrap: Address) -> Address:
        """The advertised address of the bootstrap listener, which listens at `bootstrap`."""

    def is_served_by_bootstrap(self, node_id: int) -> bool:
        """True if the bootstrap listener stands for this node."""

    def requested_node(self, node_id: int | None, server_name: str | None) -> int | None:
        """The node that a client wants; None: bootstrap.

        Args:
            node_id: the node that the client's listener stands for; None: the bootstrap listener.
            server_name: the server name in the client's TLS handshake, if there is one.

        Raises:
            ValueError: no node has that name. The message does not contain the name.
        """

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """True if a port that the kernel picked belongs to another node, which would otherwise lose its place."""

    def is_kept(self, port: int, node_id: int) -> bool:
        """True if the node's port must be remembered, because no rule gives it."""


class Portless:
    """Base of mappings that pick no ports: none is set aside, and none is remembered."""

    __slots__ = ()

    @property
    def usual_ports(self) -> range:
        """No ports are set aside."""
        return range(0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """No port is remembered, so none contradicts a flag."""
        return ()

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """False: no port is set aside."""
        return False

    def is_kept(self, port: int, node_id: int) -> bool:
        """False: rules give all ports."""
        return False


class OneListener(Portless):
    """Base of mappings whose only listener is the bootstrap listener."""

    __slots__ = ()

    @property
    def named(self) -> Mapping[int, Address]:
        """No node has a listener of its own."""
        return {}

    @property
    def own_node(self) -> int | None:
        """None: the bootstrap listener stands for no single node."""
        return None

    def wanted_listener(self, node_id: int) -> WantedListener | None:
        """None: the node gets no listener of its own."""
        return None


def clash(one: Address, other: Address) -> bool:
    """True if two listeners can't be open beside each other."""
    return one.port == other.port != 0 and (one.host == other.host or bool({one.host, other.host} & WILDCARDS))


def by_setting(named: Mapping[int, Address]) -> dict[Setting, Address]:
    """Returns the listeners of nodes by the settings that name them."""
    return {Setting(f"nodes.{node_id}", address): address for node_id, address in named.items()}


def clashes(listeners: Mapping[Listener, Address]) -> Iterator[tuple[Listener, Listener]]:
    """Yields (earlier, later) for each listener that clashes with an earlier one, with the first of these."""
    # (port, host) -> first listener; host None: the first on any host; host "*": the first on every interface
    first: dict[tuple[int, str | None], Listener] = {}
    for listener, address in listeners.items():
        port, is_wild = address.port, address.host in WILDCARDS
        if port == 0:
            continue
        earlier = first.get((port, None if is_wild else address.host)) or first.get((port, "*"))
        if earlier is not None:
            yield earlier, listener
        for place in ((port, "*" if is_wild else address.host), (port, None)):
            first.setdefault(place, listener)


def is_dialable(host: str) -> bool:
    """True for a host that can be advertised: a name, an IPv4 address, or an IPv6 address without brackets."""
    return host not in WILDCARDS and (is_host(host) or is_ip(host, IPv6Address))
