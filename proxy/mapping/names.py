"""A host name for each node, made of its id: `broker-{node_id}.example.org`.

TemplateMap is for several proxies, for example one beside each broker (a sidecar). All proxies advertise the same
names, and each listens for its own node, or for a few. It advertises other nodes without listening for them.

SniMap is for one TLS port that stands for all nodes: clients name the node in the handshake (SNI).

The operator makes the names lead to the proxies, by DNS, a service or a load balancer. A name stands for one node only:
`HostPattern.node_of` is the exact inverse of `host`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from types import MappingProxyType

from proxy.mapping.nodes import PORTS, Misplaced, OneListener, Portless, WantedListener, by_setting, clash, clashes
from proxy.schema.addresses import Address, is_ip, undotted
from proxy.schema.faults import Fault, Setting

PLACEHOLDER = "{node_id}"
# Kafka's node ids are int32
LARGEST_ID = 2**31 - 1
# The limit of DNS (RFC 1035), without the trailing dot.
NAME_LIMIT = 253
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_ID = re.compile(r"0|[1-9][0-9]{0,9}")
EXAMPLE = Setting("advertise", f"broker-{PLACEHOLDER}.example.org:9092")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host with `{node_id}` in it. In an IPv4 address (127.0.0.{node_id}), ids go up to 255."""

    text: str

    def __post_init__(self) -> None:
        if self.text.count(PLACEHOLDER) != 1:
            raise ValueError(f"must hold {PLACEHOLDER} once")
        if self.is_numeric:
            if not all(is_ip(self._filled(part), IPv4Address) for part in (0, 255)):
                raise ValueError("is no IPv4 address for every node id up to 255")
        elif not (_is_name(self._filled(0)) and _is_name(self._filled(LARGEST_ID))):
            raise ValueError("is no host name for every node id")

    def host(self, node_id: int) -> str:
        """The node's host. Raises ValueError if this id has none."""
        if not 0 <= node_id <= (255 if self.is_numeric else LARGEST_ID):
            raise ValueError(f"node {node_id} has no place in {self.text}")
        return self._filled(node_id)

    def node_of(self, host: str) -> int | None:
        """The node with this host, by the rules of DNS: letters and the last dot don't matter. None: no node's."""
        before, _, after = undotted(self.text).lower().partition(PLACEHOLDER)
        host = undotted(host).lower()
        number = host[len(before) : len(host) - len(after)]
        if not _ID.fullmatch(number) or host != before + number + after or int(number) > LARGEST_ID:
            return None
        return int(number)

    @property
    def is_numeric(self) -> bool:
        """True if the hosts are IP addresses: a host whose last part is a number is read as one."""
        return undotted(self._filled(0)).rpartition(".")[2].isdigit()

    def _filled(self, node_id: int) -> str:
        return self.text.replace(PLACEHOLDER, str(node_id))


@dataclass(frozen=True, slots=True)
class _NameMap(Portless, ABC):
    """The base of TemplateMap and SniMap: advertises a host made of the node id, and one port (`pattern`, `port`)."""

    bootstrap: Address
    advertise: str | None
    pattern: HostPattern = field(init=False, repr=False, compare=False)
    port: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pattern, port = _read_advertise(self.advertise, self.bootstrap)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "port", port)
        wrong = [*self._wrong()]
        if wrong:
            raise Misplaced(*wrong)

    def advertised(self, node_id: int, port: int | None) -> Address:
        """The node's advertised address, with or without a listener here. Raises ValueError: its id has no name."""
        return Address(self.pattern.host(node_id), self.port)

    @abstractmethod
    def _wrong(self) -> Iterator[Fault]:
        """A fault for each wrong setting."""


@dataclass(frozen=True, slots=True)
class TemplateMap(_NameMap):
    """A host name for each node; listeners for some. Raises Misplaced for contradictory settings.

    Args:
        bootstrap: the bootstrap listener (`--listen`).
        advertise: the address advertised for a node (`--advertise`): a `HostPattern`, and a port; by default the
            bootstrap listener's.
        own_node: the node that the bootstrap listener stands for; None: it stands for no node.
        named: listeners of other nodes that this proxy stands for (`--node N=HOST:PORT`).
    """

    own_node: int | None = None
    named: Mapping[int, Address] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", MappingProxyType(dict(self.named)))
        # not super(): a dataclass with slots is a new class, not the one in which this method was defined
        _NameMap.__post_init__(self)

    def wanted_listener(self, node_id: int) -> WantedListener | None:
        """A named node's listener. None: the own node, or another proxy's."""
        named = self.named.get(node_id)
        return WantedListener((named.port,), named.host) if named else None

    def advertised_bootstrap(self, bootstrap: Address) -> Address:
        """The own node's name; without an own node, the listener's own address."""
        return bootstrap if self.own_node is None else self.advertised(self.own_node, None)

    def is_served_by_bootstrap(self, node_id: int) -> bool:
        """True for the own node."""
        return node_id == self.own_node

    def requested_node(self, node_id: int | None, server_name: str | None) -> int | None:
        """The node that the listener stands for."""
        return node_id

    def _wrong(self) -> Iterator[Fault]:
        yield from self._wrong_listened_for()
        yield from self._wrong_places()

    def _wrong_listened_for(self) -> Iterator[Fault]:
        if self.own_node is None and not self.named:
            wrong = Setting("own_node"), " is missing, and no other listener is a node's"
            yield Fault(wrong, ("adding ", Setting("own_node", 3)))
        if self.own_node is not None and self.own_node in self.named:
            own = Setting("own_node", self.own_node, is_short=True)
            named = Setting(f"nodes.{self.own_node}", self.named[self.own_node])
            yield Fault((named, " and ", own, " are two listeners of one node"), (own, " alone"))
        for node_id in (*self.named, *([] if self.own_node is None else [self.own_node])):
            try:
                self.pattern.host(node_id)
            except ValueError as error:
                yield Fault((Setting("advertise", self.advertise), f": {error}"), EXAMPLE)

    def _wrong_places(self) -> Iterator[Fault]:
        listeners = by_setting(self.named)
        for setting, node_id in zip(listeners, self.named, strict=True):
            if clash(self.named[node_id], self.bootstrap):
                wrong = setting, " is the bootstrap listener, ", Setting("listen", self.bootstrap)
                yield Fault(wrong, (Setting("own_node", node_id), " instead"))
        for setting, other in clashes(listeners):
            yield Fault((setting, " and ", other, " are the same listener; give each node a port of its own"))


@dataclass(frozen=True, slots=True)
class SniMap(_NameMap, OneListener):
    """One TLS listener for all nodes of a cluster. Raises Misplaced for contradictory settings.

    Args:
        bootstrap: the listener (`--listen`).
        advertise: the address advertised for a node (`--advertise`): as for `TemplateMap`, but names only.
        bootstrap_name: the server name of bootstrap, which stands for no node (`bootstrap_name`).
    """

    bootstrap_name: str | None

    def advertised_bootstrap(self, bootstrap: Address) -> Address:
        """The bootstrap name, at the advertised port."""
        return Address(self.bootstrap_name or bootstrap.host, self.port)

    def is_served_by_bootstrap(self, node_id: int) -> bool:
        """True for all nodes."""
        return True

    def requested_node(self, node_id: int | None, server_name: str | None) -> int | None:
        """The node with that server name; None: the bootstrap name. Raises ValueError for any other name."""
        if server_name is None:
            raise ValueError("the client asks for no name (SNI), so nobody knows which node it wants")
        if undotted(server_name).lower() == undotted(self.bootstrap_name or "").lower():
            return None
        node = self.pattern.node_of(server_name)
        if node is None:
            raise ValueError("the client asks for a name that is no node's, nor the bootstrap listener's")
        return node

    def _wrong(self) -> Iterator[Fault]:
        name, right = Setting("bootstrap_name", self.bootstrap_name), Setting("bootstrap_name", "kafka.example.org")
        if self.pattern.is_numeric:
            wrong = Setting("advertise", self.advertise), " is no name, and clients ask for names alone"
            yield Fault(wrong, EXAMPLE)
        if self.bootstrap_name is None:
            listen = Setting("listen", self.bootstrap)
            yield Fault((listen, " has no name that clients find the cluster by"), right)
        elif not _is_name(self.bootstrap_name) or undotted(self.bootstrap_name).rpartition(".")[2].isdigit():
            yield Fault((name, " is no host name"), right)
        elif (node := self.pattern.node_of(self.bootstrap_name)) is not None:
            yield Fault((name, f" is the name of node {node}"), right)


def _read_advertise(advertise: str | None, bootstrap: Address) -> tuple[HostPattern, int]:
    if advertise is None:
        missing = Setting("advertise"), " is missing: clients are to dial names"
        raise Misplaced(Fault(missing, ("adding ", EXAMPLE)))
    setting = Setting("advertise", advertise)
    host, colon, port = advertise.rpartition(":") if ":" in advertise else (advertise, "", "")
    if colon and not (port.isascii() and port.isdigit() and int(port) in PORTS):
        raise Misplaced(Fault((setting, " has no port between 1 and 65535"), EXAMPLE))
    if not colon and not bootstrap.port:
        raise Misplaced(Fault((setting, " has no port, nor has ", Setting("listen", bootstrap)), EXAMPLE))
    try:
        return HostPattern(host), int(port) if colon else bootstrap.port
    except ValueError as error:
        raise Misplaced(Fault((setting, f" {error}"), EXAMPLE)) from error


def _is_name(host: str) -> bool:
    name = undotted(host)
    return len(name) <= NAME_LIMIT and all(_LABEL.fullmatch(label) for label in name.split("."))
