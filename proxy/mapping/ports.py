"""A port for each node: clients tell nodes apart by it.

What is free, only a socket can tell: `PortMap` gives the ports to try in order, the caller listens and says which one
it became. What clients are told may differ from it, where something between them and the proxy forwards other ports.

Rules, checked in the constructor:
- A node's port is, in this order: the one named for it, the one remembered for it, base + node id, any free one.
- A port that belongs to one node is never tried for another, so the order in which nodes are found changes nothing.
- A flag that contradicts what is remembered wins, and `warnings` says so.

What is worth remembering is only a port that was picked freely (the 0 in `Wanted.ports`): the others follow from the
flags, and a changed flag should move them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from proxy.mapping.nodes import PORTS, WILDCARDS, Misplaced, Wanted, clash, clashes, is_dialled
from proxy.schema.addresses import Address


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
        told: what clients are told of single nodes, where no rule gives it (`advertised.N`).
        told_base: what stands between clients and the proxy shifts the ports of nodes, so that base becomes this
            (`advertise_ports`); None: clients are told the ports that are listened on.

    `warnings` holds one line for every remembered port that had to give way to a flag.
    """

    bootstrap: Address
    advertise: str | None = None
    named: Mapping[int, Address] = field(default_factory=dict)
    base: int | None = None
    count: int = 1000
    remembered: Mapping[int, int] = field(default_factory=dict)
    told: Mapping[int, Address] = field(default_factory=dict)
    told_base: int | None = None
    warnings: tuple[str, ...] = field(init=False, default=())
    _owners: Mapping[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        checks = (self._wrong_hosts, self._wrong_range, self._wrong_named, self._wrong_remembered, self._wrong_told)
        wrong = [line for check in (*checks, self._wrong_told_base) for line in check()]
        if wrong:
            raise Misplaced(*wrong)
        kept, warnings = self._reconciled()
        owners = {port: node_id for node_id, port in kept.items()}
        owners |= {address.port: node_id for node_id, address in self.named.items() if address.port}
        object.__setattr__(self, "told", MappingProxyType(dict(self.told)))
        object.__setattr__(self, "named", MappingProxyType(dict(self.named)))
        object.__setattr__(self, "remembered", MappingProxyType(kept))
        object.__setattr__(self, "warnings", warnings)
        object.__setattr__(self, "_owners", MappingProxyType(owners))

    @property
    def own(self) -> int | None:
        """The bootstrap listener is no node's."""
        return None

    @property
    def usual(self) -> range:
        """The ports that base and count set aside: usual[N] is node N's, unless another node was given it."""
        return usual_ports(self.bootstrap, self.base, self.count)

    @property
    def _told_ports(self) -> range:
        """What clients are told where `usual` is listened on."""
        return self.usual if self.told_base is None else range(self.told_base, self.told_base + len(self.usual))

    def wanted(self, node_id: int) -> Wanted:
        """Where to listen for a node. The first port that is free is it; any but the first is worth a warning."""
        named = self.named.get(node_id)
        by_rule = named.port if named else self._usual_port(node_id)
        ports = (by_rule, self.remembered.get(node_id, 0)) if named else (self.remembered.get(node_id, 0), by_rule)
        return Wanted((*dict.fromkeys(port for port in ports if port), 0), (named or self.bootstrap).host)

    def advertised(self, node_id: int, port: int | None) -> Address:
        """What clients are told of a node that is listened on at `port`; every node is."""
        if node_id in self.told:
            return self.told[node_id]
        if port is None:
            raise ValueError(f"node {node_id} is not listened for")
        host = self.advertise or (self.named.get(node_id) or self.bootstrap).host
        return Address(host, self._told_ports[self.usual.index(port)] if port in self.usual else port)

    def called(self, bootstrap: Address) -> Address:
        """By which address clients know the bootstrap listener, as far as the settings say it."""
        return Address(self.advertise or bootstrap.host, bootstrap.port)

    def is_bootstraps(self, node_id: int) -> bool:
        """No node's."""
        return False

    def meant(self, node_id: int | None, server_name: str | None) -> int | None:
        """The listener says it."""
        return node_id

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """Whether a freely picked port is another node's: better to pick again, or that node may lose its place."""
        if port in self._told_ports and port not in self.usual:
            # clients would dial it for the node whose port is told so
            return True
        return self._owners.get(port, self._usual_owner(port, node_id)) != node_id

    def is_kept(self, port: int, node_id: int) -> bool:
        """Whether the port, which the node has got, is to be remembered: it was picked freely, now or before."""
        return port == self.remembered.get(node_id) or port not in self.wanted(node_id).ports

    def _wrong_hosts(self) -> Iterator[str]:
        if self.advertise is not None and not is_dialled(self.advertise):
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
            if clash(address, self.bootstrap):
                yield (f"{flag} is the bootstrap listener, --listen {self.bootstrap}; give the node a port of its own")
            if self.base is not None and self._usual_owner(address.port, node_id) != node_id:
                yield (
                    f"{flag} takes the port that --node-ports {self.base} with --node-count {self.count} keeps for "
                    f"node {address.port - self.base}; right would be a port outside {_shown(self.usual)}"
                )
        for flag, other in clashes(self._flags()):
            yield f"{flag} and {other} are the same listener; give each node a port of its own"

    def _wrong_told(self) -> Iterator[str]:
        """What clients are told; keys that are no flags are named as a file has them."""
        for node_id, address in self.told.items():
            key = f'advertised.{node_id} = "{address}"'
            if node_id < 0:
                yield f'{key}: node ids start at 0; right would be advertised.0 = "{address}"'
            if not is_dialled(address.host) or not address.port:
                yield f'{key} is nothing to dial; right would be advertised.{node_id} = "proxy.example:9094"'
            owner = self._told_owner(address)
            if owner not in (None, node_id):
                yield f"{key} is told of node {owner}; right would be an address of its own for each"
        if len({*self.told.values()}) < len(self.told):
            yield "advertised names an address twice; right would be one of its own for each node"

    def _wrong_told_base(self) -> Iterator[str]:
        if self.told_base is None:
            return
        key = f"advertise_ports = {self.told_base}"
        if not self.usual:
            yield f"{key} stands for no listeners' ports; right would be adding --node-ports 19100"
        elif self.told_base not in PORTS or self._told_ports[-1] not in PORTS:
            yield (
                f"{key} for {len(self.usual)} nodes, --node-count {self.count}, goes beyond port 65535; "
                "right would be advertise_ports = 31100"
            )

    def _told_owner(self, address: Address) -> int | None:
        """Of which node clients are told this by rule."""
        if address.host != (self.advertise or self.bootstrap.host) or address.port not in self._told_ports:
            return None
        node_id = self._told_ports.index(address.port)
        return None if node_id in self.told or node_id in self.named else node_id

    def _wrong_remembered(self) -> Iterator[str]:
        owners: dict[int, int] = {}
        for node_id, port in self.remembered.items():
            if node_id < 0 or port not in PORTS:
                yield (f"the state file gives node {node_id} port {port}; right would be a port from 1 to 65535")
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


def usual_ports(bootstrap: Address, base: int | None, count: int) -> range:
    """The ports that are set aside for nodes: behind the bootstrap listener where nobody says where."""
    if base is not None:
        return range(base, base + count)
    first = bootstrap.port + 1
    return range(first, min(first + count, PORTS.stop)) if bootstrap.port else range(0)


def _clear_of(port: int, count: int) -> str:
    """A range that `port` is not in, as flags."""
    first = port - count if PORTS.stop - port <= count < port else port + 1
    return f"--node-ports {first} --node-count {min(count, PORTS.stop - first)}"


def _shown(ports: range) -> str:
    return f"ports {ports.start} to {ports.stop - 1}"
