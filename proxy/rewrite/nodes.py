"""Node <-> listener <-> advertised address, as values that are right once they exist.

Knows the rules for who may stand on which port; never opens one. What is free, only a socket can tell: `PortMap`
gives the ports to try in order, the caller listens and says which one it became.

Rules, checked in the constructor :
- A node's port is, in this order: the one named for it, the one remembered for it, base + node id, any free one.
- A port that belongs to one node is never tried for another, so the order in which nodes are found changes nothing.
- A flag that contradicts what is remembered wins, and `warnings` says so.

What is worth remembering is only a port that was picked freely (the 0 in `Wanted.ports`): the others follow from the
flags, and a changed flag should move them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from itertools import combinations
from types import MappingProxyType
from typing import NamedTuple

PORTS = range(1, 1 << 16)

# Listening there means every interface: nothing that a client could dial.
WILDCARDS = frozenset({"", "0.0.0.0", "::", "*"})

# Longest host name of DNS (RFC 1035).
HOST_LIMIT = 255


@dataclass(frozen=True, slots=True)
class Address:
    """A host (a name or an IP address, without brackets) and a port. As a listener, port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read "host:9092" or "[::1]:9092". ValueError says what is wrong and shows a right one."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()) or int(port) not in range(1 << 16):
            raise ValueError(f"{text!r} has no port between 0 and 65535; right would be broker-1:9092 or [::1]:9092")
        bracketed = host.startswith("[") and host.endswith("]") and _is_ipv6(host[1:-1])
        if not bracketed and not _is_host(host):
            raise ValueError(f"{text!r} has no host before its port; right would be broker-1:9092 or [::1]:9092")
        return cls(host[1:-1] if bracketed else host, int(port))


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
    """Rules for places that can't be: each argument is a line that names the flag and a right example."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


@dataclass(frozen=True, slots=True)
class PortMap:
    """The places of one cluster's nodes. A wrong combination is `Misplaced`.

    Args:
        bootstrap: the bootstrap listener (`--listen`).
        advertise: the host that clients are told (`--advertise`); None: that of the listener.
        named: listeners given for single nodes (`--node N=HOST:PORT`).
        base: node N's usual port is base + N (`--node-ports`); None: the bootstrap port + 1, as far as ports reach.
            Without a base and with bootstrap port 0 no node has a usual port.
        count: only nodes below it have a usual port (`--node-count`).
        remembered: node id -> port, from the state file.

    `warnings` holds one line for every remembered port that had to give way to a flag.
    """

    bootstrap: Address
    advertise: str | None = None
    named: Mapping[int, Address] = field(default_factory=dict)
    base: int | None = None
    count: int = 1000
    remembered: Mapping[int, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = field(init=False, default=())
    _owners: Mapping[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        wrong = [*self._wrong_hosts(), *self._wrong_range(), *self._wrong_named(), *self._wrong_remembered()]
        if wrong:
            raise Misplaced(*wrong)
        kept, warnings = self._reconciled()
        owners = {port: node_id for node_id, port in kept.items()}
        owners |= {address.port: node_id for node_id, address in self.named.items() if address.port}
        object.__setattr__(self, "named", MappingProxyType(dict(self.named)))
        object.__setattr__(self, "remembered", MappingProxyType(kept))
        object.__setattr__(self, "warnings", warnings)
        object.__setattr__(self, "_owners", MappingProxyType(owners))

    @property
    def usual(self) -> range:
        """The ports that base and count set aside: usual[N] is node N's, unless another node was given it."""
        if self.base is not None:
            return range(self.base, self.base + self.count)
        first = self.bootstrap.port + 1
        return range(first, min(first + self.count, PORTS.stop)) if self.bootstrap.port else range(0)

    def wanted(self, node_id: int) -> Wanted:
        """Where to listen for a node. The first port that is free is it; any but the first is worth a warning."""
        named = self.named.get(node_id)
        by_rule = named.port if named else self._usual_port(node_id)
        ports = (by_rule, self.remembered.get(node_id, 0)) if named else (self.remembered.get(node_id, 0), by_rule)
        return Wanted((*dict.fromkeys(port for port in ports if port), 0), (named or self.bootstrap).host)

    def advertised(self, node_id: int, port: int) -> Address:
        """What clients are told of a node that is listened on at `port`."""
        named = self.named.get(node_id)
        return Address(self.advertise or (named or self.bootstrap).host, port)

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """Whether a freely picked port is another node's: better to pick again, or that node may lose its place."""
        return self._owners.get(port, self._usual_owner(port, node_id)) != node_id

    def _wrong_hosts(self) -> Iterator[str]:
        if self.advertise is not None and not _is_dialled(self.advertise):
            yield (
                f"--advertise {self.advertise} is no host that a client can dial; "
                "right would be --advertise proxy.example.org, without a port"
            )
        listeners = {f"--listen {self.bootstrap}": self.bootstrap} | self._flags()
        for flag, address in listeners.items():
            if address.host in WILDCARDS and self.advertise is None:
                yield (
                    f"{flag} listens on every interface, so clients must be told a host; "
                    "right would be adding --advertise proxy.example.org"
                )

    def _wrong_range(self) -> Iterator[str]:
        if self.count < 0:
            yield f"--node-count {self.count} is below 0; right would be --node-count 1000"
        if self.base is None:
            return
        if self.base not in PORTS or self.base + self.count > PORTS.stop:
            yield (
                f"--node-ports {self.base} with --node-count {self.count} needs ports outside 1 to 65535; "
                "right would be --node-ports 19000 --node-count 1000"
            )
        if self.bootstrap.port in self.usual:
            yield (
                f"--node-ports {self.base} sets aside {_shown(self.usual)}, among them --listen {self.bootstrap}; "
                f"right would be {_clear_of(self.bootstrap.port, self.count)}"
            )

    def _wrong_named(self) -> Iterator[str]:
        for (flag, address), node_id in zip(self._flags().items(), self.named, strict=True):
            if node_id < 0:
                yield f"{flag}: node ids start at 0; right would be --node 0={address}"
            if _clash(address, self.bootstrap):
                yield f"{flag} is the bootstrap listener, --listen {self.bootstrap}; give the node a port of its own"
            if self.base is not None and self._usual_owner(address.port, node_id) != node_id:
                yield (
                    f"{flag} takes the port that --node-ports {self.base} keeps for node {address.port - self.base}; "
                    f"right would be a port outside {_shown(self.usual)}"
                )
        for (flag, address), (other, taken) in combinations(self._flags().items(), 2):
            if _clash(address, taken):
                yield f"{flag} and {other} are the same listener; give each node a port of its own"

    def _wrong_remembered(self) -> Iterator[str]:
        owners: dict[int, int] = {}
        for node_id, port in self.remembered.items():
            if node_id < 0 or port not in PORTS:
                yield f"the state file gives node {node_id} port {port}; right would be a port from 1 to 65535"
            if owners.setdefault(port, node_id) != node_id:
                yield (
                    f"the state file gives port {port} to node {owners[port]} and to node {node_id}; "
                    "remove one of the two from it, for example"
                )

    def _reconciled(self) -> tuple[dict[int, int], tuple[str, ...]]:
        """What stays of the remembered ports beside the flags, and a line for each that doesn't."""
        kept, warnings = {}, []
        for node_id, port in self.remembered.items():
            flag = self._contradicts(node_id, port)
            if flag is None:
                kept[node_id] = port
            else:
                warnings.append(f"node {node_id} does not keep port {port} of the state file: {flag} wins")
        return kept, tuple(warnings)

    def _contradicts(self, node_id: int, port: int) -> str | None:
        if port == self.bootstrap.port:
            return f"--listen {self.bootstrap}"
        for (flag, address), named in zip(self._flags().items(), self.named, strict=True):
            if address.port not in (0, port) if named == node_id else address.port == port:
                return flag
        return None

    def _usual_port(self, node_id: int) -> int:
        """The node's port of the range, 0 if it has none or another node was given it."""
        port = self.usual[node_id] if 0 <= node_id < len(self.usual) else 0
        return port if self._owners.get(port, node_id) == node_id else 0

    def _usual_owner(self, port: int, otherwise: int) -> int:
        return self.usual.index(port) if port in self.usual else otherwise

    def _flags(self) -> dict[str, Address]:
        return {f"--node {node_id}={address}": address for node_id, address in self.named.items()}


def _clash(one: Address, other: Address) -> bool:
    return one.port == other.port != 0 and (one.host == other.host or bool({one.host, other.host} & WILDCARDS))


def _clear_of(port: int, count: int) -> str:
    """A range that `port` is not in, as flags."""
    first = port - count if PORTS.stop - port <= count < port else port + 1
    return f"--node-ports {first} --node-count {min(count, PORTS.stop - first)}"


def _shown(ports: range) -> str:
    return f"ports {ports.start} to {ports.stop - 1}"


def _is_dialled(host: str) -> bool:
    """A host that clients can be told: a name, an IPv4 address, or an IPv6 address without brackets."""
    return host not in WILDCARDS and (_is_host(host) or _is_ipv6(host))


def _is_host(text: str) -> bool:
    """A name or an IPv4 address, as it may stand before a port."""
    return 0 < len(text.encode()) <= HOST_LIMIT and not any(c.isspace() or c in ":/[]@=," for c in text)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
