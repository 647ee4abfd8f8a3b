"""The words of a mapping (node, place, listeners that clash), and what every mapping must answer: `NodeMap`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple, Protocol, TypeVar

from proxy.schema.addresses import Address, is_host, is_ip
from proxy.schema.faults import Fault, Setting

Listener = TypeVar("Listener")

PORTS = range(1, 1 << 16)

# Listening there means every interface: nothing that a client could dial.
WILDCARDS = frozenset({"", "0.0.0.0", "::", "*"})


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as the cluster names it."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> Address:
        """Where the cluster says that it is reached; a broker may say anything."""
        return Address(self.host, self.port)


class Wanted(NamedTuple):
    """Where a node should be listened on: ports to try in order (0: any free one, always the last), and the host."""

    ports: tuple[int, ...]
    host: str


class Misplaced(ValueError):
    """Rules for places that can't be: each argument is a fault of the settings that say them."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class NodeMap(Protocol):
    """The places of one cluster's nodes.

    `named`: nodes that are listened for from the start. `own`: the node whose listener is the bootstrap one, and whose
    broker is the upstream; None: the bootstrap listener is no node's. `usual`: ports set aside for nodes to come.
    `warnings`: what should be said at the start.
    """

    @property
    def named(self) -> Mapping[int, Address]: ...
    @property
    def own(self) -> int | None: ...
    @property
    def usual(self) -> range: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...

    def wanted(self, node_id: int) -> Wanted | None:
        """Where to listen for a node; None: nowhere, or where the bootstrap listener is."""

    def advertised(self, node_id: int, port: int | None) -> Address:
        """What clients are told of a node that is listened on at `port` (None: not here). ValueError: there is none."""

    def called(self, bootstrap: Address) -> Address:
        """By which address clients know the bootstrap listener, which listens at `bootstrap`."""

    def is_bootstraps(self, node_id: int) -> bool:
        """Whether the bootstrap listener stands for this node."""

    def meant(self, node_id: int | None, server_name: str | None) -> int | None:
        """Whom a client of a node's listener (None: of the bootstrap one) wants that asks for this name over TLS.

        ValueError: nobody has the name; the message says so, without it.
        """

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """Whether a freely picked port is another node's: better to pick again, or that node may lose its place."""

    def is_kept(self, port: int, node_id: int) -> bool:
        """Whether the port, which the node has got, is to be remembered: no rule gives it."""


class Portless:
    """What a mapping answers that gives no port to a node: none is set aside, and none is remembered."""

    __slots__ = ()

    @property
    def usual(self) -> range:
        """No ports are set aside."""
        return range(0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """There is nothing to give way."""
        return ()

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """No port is."""
        return False

    def is_kept(self, port: int, node_id: int) -> bool:
        """None is given by anything but a rule."""
        return False


class OneListener(Portless):
    """What a mapping answers whose bootstrap listener is all there is."""

    __slots__ = ()

    @property
    def named(self) -> Mapping[int, Address]:
        """No node has a listener of its own."""
        return {}

    @property
    def own(self) -> int | None:
        """No node is the upstream's alone, as far as anybody knows."""
        return None

    def wanted(self, node_id: int) -> Wanted | None:
        """Nowhere else."""
        return None


def clash(one: Address, other: Address) -> bool:
    """Whether two listeners can't be open beside each other."""
    return one.port == other.port != 0 and (one.host == other.host or bool({one.host, other.host} & WILDCARDS))


def ip_of(host: str) -> IPv4Address | IPv6Address:
    """An IP address as a socket tells it, without its zone. What comes over IPv4 to a socket of both is IPv4."""
    address = ip_address(host.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def by_setting(named: Mapping[int, Address]) -> dict[Setting, Address]:
    """The listeners of nodes by the settings that name them."""
    return {Setting(f"nodes.{node_id}", address): address for node_id, address in named.items()}


def clashes(listeners: Mapping[Listener, Address]) -> Iterator[tuple[Listener, Listener]]:
    """Listeners that can't be open beside an earlier one, each behind the first of these."""
    # by port and host; of a port the first of all hosts, and the first that is open on every interface
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
    """A host that clients can be told: a name, an IPv4 address, or an IPv6 address without brackets."""
    return host not in WILDCARDS and (is_host(host) or is_ip(host, IPv6Address))
