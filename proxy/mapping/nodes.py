"""The vocabulary of a mapping (node, place, listeners that clash), and the protocol of every mapping: `NodeMap`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, Protocol, TypeVar

from proxy.schema.addresses import Address, is_host, is_ip
from proxy.schema.faults import Fault, Setting

Listener = TypeVar("Listener")

PORTS = range(1, 1 << 16)

# Hosts that mean every interface, which no client can dial.
WILDCARDS = frozenset({"", "0.0.0.0", "::", "*"})


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as the cluster names it."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> Address:
        """The address that the cluster gives; a broker may give any text."""
        return Address(self.host, self.port)


class Wanted(NamedTuple):
    """The listener that a node should get: ports to try in order (0: any free one, always the last), and the host."""

    ports: tuple[int, ...]
    host: str


class Misplaced(ValueError):
    """Rules for places that contradict each other: each argument is a fault of the settings behind them."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class NodeMap(Protocol):
    """The places of one cluster's nodes.

    `named`: nodes with a listener from the start. `own_node`: the node whose listener is the bootstrap one, and whose
    broker is the upstream; None: the bootstrap listener is no node's. `usual_ports`: set aside for nodes to come.
    `warnings`: lines to log at the start.
    """

    @property
    def named(self) -> Mapping[int, Address]: ...
    @property
    def own_node(self) -> int | None: ...
    @property
    def usual_ports(self) -> range: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...

    def wanted(self, node_id: int) -> Wanted | None:
        """The listener that a node should get; None: none, or the bootstrap listener."""

    def advertised(self, node_id: int, port: int | None) -> Address:
        """The advertised address of a node whose listener has `port` (None: not here). ValueError if it has none."""

    def advertised_bootstrap(self, bootstrap: Address) -> Address:
        """The advertised address of the bootstrap listener, which listens at `bootstrap`."""

    def is_served_by_bootstrap(self, node_id: int) -> bool:
        """True if the bootstrap listener stands for this node."""

    def requested_node(self, node_id: int | None, server_name: str | None) -> int | None:
        """The node that a client wants on a node's listener (None: the bootstrap one), by the TLS server name.

        ValueError: no node has the name; the message says so, without the name.
        """

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """True if a port that the kernel picked belongs to another node, which would otherwise lose its place."""

    def is_kept(self, port: int, node_id: int) -> bool:
        """True if the node's port must be remembered, because no rule gives it."""


class Portless:
    """The answers of a mapping without ports for single nodes: none is set aside, and none is remembered."""

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
    """The answers of a mapping whose only listener is the bootstrap listener."""

    __slots__ = ()

    @property
    def named(self) -> Mapping[int, Address]:
        """No node has a listener of its own."""
        return {}

    @property
    def own_node(self) -> int | None:
        """None: the upstream's node is not known."""
        return None

    def wanted(self, node_id: int) -> Wanted | None:
        """None: the node gets no listener of its own."""
        return None


def clash(one: Address, other: Address) -> bool:
    """True if two listeners can't be open beside each other."""
    return one.port == other.port != 0 and (one.host == other.host or bool({one.host, other.host} & WILDCARDS))


def ip_of(host: str) -> IPv4Address | IPv6Address:
    """A socket's IP address, without its zone. An IPv4-mapped IPv6 address becomes IPv4."""
    address = ip_address(host.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def by_setting(named: Mapping[int, Address]) -> dict[Setting, Address]:
    """The listeners of nodes by the settings that name them."""
    return {Setting(f"nodes.{node_id}", address): address for node_id, address in named.items()}


def clashes(listeners: Mapping[Listener, Address]) -> Iterator[tuple[Listener, Listener]]:
    """Listeners that can't be open beside an earlier one, each behind the first of these."""
    # (port, host) -> first listener; with host None the first of the port, with "" the first on every interface
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


def is_dialled(host: str) -> bool:
    """True for a host that can be advertised: a name, an IPv4 address, or an IPv6 address without brackets."""
    return host not in WILDCARDS and (is_host(host) or is_ip(host, IPv6Address))
