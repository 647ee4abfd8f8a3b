"""A mapping with a port for each node, by which clients tell nodes apart.

Only a socket shows whether a port is free. So `wanted_listener` gives the ports to try in order, and `net/brokers`
opens the listener. The advertised port may differ from the listener's if something between clients and the proxy
forwards other ports.

Rules:
- The ports to try for a node are: the port named for it, the port remembered for it, base + node id unless a port is
  named, any free port.
- A port that belongs to one node is never tried for another, so the order in which nodes are found changes nothing.
- A setting that contradicts a remembered port wins, and `warnings` says so.

Only a port that the kernel picked (for the 0 in `WantedListener.ports`) is remembered: the others follow from the
settings, and should change with them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from proxy.mapping.nodes import PORTS, WILDCARDS, Misplaced, WantedListener, by_setting, clash, clashes, is_dialable
from proxy.schema.addresses import Address
from proxy.schema.faults import Fault, Setting


@dataclass(frozen=True, slots=True)
class PortMap:
    """A port for each node of one cluster. Raises Misplaced for contradictory settings.

    Args:
        bootstrap: the bootstrap listener (`--listen`).
        advertise: the advertised host (`--advertise`); None: that of the listener.
        named: listeners given for single nodes (`--node N=HOST:PORT`).
        base: node N's usual port is base + N (`--node-ports`); None: the bootstrap port + 1, as far as ports reach.
            Without a base and with bootstrap port 0 no node has a usual port.
        count: only nodes below it have a usual port (`--node-count`).
        remembered: node id -> port, from the state file.
        addresses: advertised addresses of single nodes, instead of those by rule (`advertised.N`).
        advertised_base: the advertised port for base, if something between clients and the proxy shifts the nodes'
            ports (`advertise_ports`); None: the listeners' ports are advertised.

    warnings: one line for each remembered port that contradicts a setting.
    """

    bootstrap: Address
    advertise: str | None = None
    named: Mapping[int, Address] = field(default_factory=dict)
    base: int | None = None
    count: int = 1000
    remembered: Mapping[int, int] = field(default_factory=dict)
    addresses: Mapping[int, Address] = field(default_factory=dict)
    advertised_base: int | None = None
    warnings: tuple[str, ...] = field(init=False, default=())
    _owners: Mapping[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        wrong = [*self._wrong_hosts(), *self._wrong_range(), *self._wrong_named(), *self._wrong_remembered()]
        wrong += [*self._wrong_addresses(), *self._wrong_advertised_base()]
        if wrong:
            raise Misplaced(*wrong)
        kept, warnings = self._reconciled()
        owners = {port: node_id for node_id, port in kept.items()}
        owners |= {address.port: node_id for node_id, address in self.named.items() if address.port}
        object.__setattr__(self, "addresses", MappingProxyType(dict(self.addresses)))
        object.__setattr__(self, "named", MappingProxyType(dict(self.named)))
        object.__setattr__(self, "remembered", MappingProxyType(kept))
        object.__setattr__(self, "warnings", warnings)
        object.__setattr__(self, "_owners", MappingProxyType(owners))

    @property
    def own_node(self) -> int | None:
        """None: the bootstrap listener stands for no node."""
        return None

    @property
    def usual_ports(self) -> range:
        """The ports that base and count set aside: the Nth is node N's, unless another node was given it."""
        return usual_ports(self.bootstrap, self.base, self.count)

    @property
    def _advertised_ports(self) -> range:
        """The advertised ports of listeners on `usual_ports`."""
        first = self.advertised_base
        return self.usual_ports if first is None else range(first, first + len(self.usual_ports))

    def wanted_listener(self, node_id: int) -> WantedListener:
        """The listener that a node should get. If its first port is taken, that is worth a warning."""
        named = self.named.get(node_id)
        by_rule = named.port if named else self._usual_port(node_id)
        ports = (by_rule, self.remembered.get(node_id, 0)) if named else (self.remembered.get(node_id, 0), by_rule)
        return WantedListener((*dict.fromkeys(port for port in ports if port), 0), (named or self.bootstrap).host)

    def advertised(self, node_id: int, port: int | None) -> Address:
        """See `NodeMap`. Every node has a listener."""
        if node_id in self.addresses:
            return self.addresses[node_id]
        if port is None:
            raise ValueError(f"node {node_id} is not listened for")
        host = self.advertise or (self.named.get(node_id) or self.bootstrap).host
        return Address(host, self._advertised_ports[self.usual_ports.index(port)] if port in self.usual_ports else port)

    def advertised_bootstrap(self, bootstrap: Address) -> Address:
        """The advertised host, or the listener's own, with the listener's port."""
        return Address(self.advertise or bootstrap.host, bootstrap.port)

    def is_served_by_bootstrap(self, node_id: int) -> bool:
        """False: the bootstrap listener stands for no node."""
        return False

    def requested_node(self, node_id: int | None, server_name: str | None) -> int | None:
        """The node that the listener stands for."""
        return node_id

    def is_set_aside(self, port: int, node_id: int) -> bool:
        """True if a port that the kernel picked belongs to another node, which would otherwise lose its place."""
        if port in self._advertised_ports and port not in self.usual_ports:
            # clients would dial this port for the node whose advertised port it is
            return True
        return self._owners.get(port, self._usual_owner(port, node_id)) != node_id

    def is_kept(self, port: int, node_id: int) -> bool:
        """True if the node's port must be remembered: the kernel picked it, now or before."""
        return port == self.remembered.get(node_id) or port not in self.wanted_listener(node_id).ports

    @property
    def _listen(self) -> Setting:
        return Setting("listen", self.bootstrap)

    @property
    def _base(self) -> Setting:
        return Setting("node_ports", self.base)

    @property
    def _count(self) -> Setting:
        return Setting("node_count", self.count)

    def _wrong_hosts(self) -> Iterator[Fault]:
        right = Setting("advertise", "proxy.example.org")
        if self.advertise is not None and not is_dialable(self.advertise):
            wrong = Setting("advertise", self.advertise), " is no host that a client can dial"
            yield Fault(wrong, (right, ", without a port"))
        listeners = {self._listen: self.bootstrap} | by_setting(self.named)
        for setting, address in listeners.items():
            if address.host in WILDCARDS and self.advertise is None:
                wrong = setting, " listens on every interface, so clients must be told a host"
                yield Fault(wrong, ("adding ", right))

    def _wrong_range(self) -> Iterator[Fault]:
        if self.count < 0:
            yield Fault((self._count, " is below 0"), Setting("node_count", 1000))
        if self.base is None:
            return
        if self.base not in PORTS or self.base + self.count > PORTS.stop:
            yield Fault(
                (self._base, " with ", self._count, " needs ports outside 1 to 65535"),
                (Setting("node_ports", 19000), " ", Setting("node_count", 1000)),
            )
        if self.bootstrap.port in self.usual_ports:
            wrong = self._base, f" sets aside {_shown(self.usual_ports)}, among them ", self._listen
            yield Fault(wrong, _clear_of(self.bootstrap.port, self.count))

    def _wrong_named(self) -> Iterator[Fault]:
        listeners = by_setting(self.named)
        for (setting, address), node_id in zip(listeners.items(), self.named, strict=True):
            if node_id < 0:
                yield Fault((setting, ": node ids start at 0"), Setting("nodes.0", address))
            if clash(address, self.bootstrap):
                own = "; give the node a port of its own"
                yield Fault((setting, " is the bootstrap listener, ", self._listen, own))
            if self.base is not None and self._usual_owner(address.port, node_id) != node_id:
                keeps = f" keeps for node {address.port - self.base}"
                wrong = setting, " takes the port that ", self._base, " with ", self._count, keeps
                yield Fault(wrong, f"a port outside {_shown(self.usual_ports)}")
        for setting, other in clashes(listeners):
            yield Fault((setting, " and ", other, " are the same listener; give each node a port of its own"))

    def _wrong_addresses(self) -> Iterator[Fault]:
        for node_id, address in self.addresses.items():
            key = f"advertised.{node_id}"
            setting = Setting(key, address)
            if node_id < 0:
                yield Fault((setting, ": node ids start at 0"), Setting("advertised.0", address))
            if not is_dialable(address.host) or not address.port:
                yield Fault((setting, " is nothing to dial"), Setting(key, "proxy.example:9094"))
            owner = self._advertised_owner(address)
            if owner not in (None, node_id):
                yield Fault((setting, f" is told of node {owner}"), "an address of its own for each")
        if len({*self.addresses.values()}) < len(self.addresses):
            yield Fault((Setting("advertised"), " names an address twice"), "one of its own for each node")

    def _wrong_advertised_base(self) -> Iterator[Fault]:
        if self.advertised_base is None:
            return
        setting = Setting("advertise_ports", self.advertised_base)
        if not self.usual_ports:
            wrong = setting, " stands for no listeners' ports"
            yield Fault(wrong, ("adding ", Setting("node_ports", 19100)))
        elif self.advertised_base not in PORTS or self._advertised_ports[-1] not in PORTS:
            yield Fault(
                (setting, f" for {len(self.usual_ports)} nodes, ", self._count, ", goes beyond port 65535"),
                Setting("advertise_ports", 31100),
            )

    def _advertised_owner(self, address: Address) -> int | None:
        """The node that has this advertised address by rule; None: no node."""
        if address.host != (self.advertise or self.bootstrap.host) or address.port not in self._advertised_ports:
            return None
        node_id = self._advertised_ports.index(address.port)
        return None if node_id in self.addresses or node_id in self.named else node_id

    def _wrong_remembered(self) -> Iterator[Fault]:
        owners: dict[int, int] = {}
        for node_id, port in self.remembered.items():
            if node_id < 0 or port not in PORTS:
                yield Fault(f"the state file gives node {node_id} port {port}", "a port from 1 to 65535")
            if owners.setdefault(port, node_id) != node_id:
                yield Fault(
                    f"the state file gives port {port} to node {owners[port]} and to node {node_id}; "
                    "remove one of the two from it, for example"
                )

    def _reconciled(self) -> tuple[dict[int, int], tuple[str, ...]]:
        """Returns the remembered ports that contradict no setting, and a warning for each of the others."""
        kept, warnings = {}, []
        for node_id, port in self.remembered.items():
            setting = self._contradicts(node_id, port)
            if setting is None:
                kept[node_id] = port
            else:
                warnings.append(f"node {node_id} does not keep port {port} of the state file: {setting} wins")
        return kept, tuple(warnings)

    def _contradicts(self, node_id: int, port: int) -> Setting | None:
        """The setting that contradicts a remembered port; None: no setting does."""
        if port == self.bootstrap.port:
            return self._listen
        for (setting, address), named in zip(by_setting(self.named).items(), self.named, strict=True):
            if address.port not in (0, port) if named == node_id else address.port == port:
                return setting
        return None

    def _usual_port(self, node_id: int) -> int:
        """The node's port of `usual_ports`; 0: it has none there, or that port is another node's."""
        port = self.usual_ports[node_id] if 0 <= node_id < len(self.usual_ports) else 0
        return port if self._owners.get(port, node_id) == node_id else 0

    def _usual_owner(self, port: int, otherwise: int) -> int:
        """The node whose place in `usual_ports` this port is; `otherwise`: the port is not in them."""
        return self.usual_ports.index(port) if port in self.usual_ports else otherwise


def usual_ports(bootstrap: Address, base: int | None, count: int) -> range:
    """Returns the ports that are set aside for nodes; without `base`, those behind the bootstrap listener's port."""
    if base is not None:
        return range(base, base + count)
    first = bootstrap.port + 1
    return range(first, min(first + count, PORTS.stop)) if bootstrap.port else range(0)


def _clear_of(port: int, count: int) -> tuple[Setting, str, Setting]:
    """Returns an example of settings whose range lacks `port`."""
    first = port - count if PORTS.stop - port <= count < port else port + 1
    return Setting("node_ports", first), " ", Setting("node_count", min(count, PORTS.stop - first))


def _shown(ports: range) -> str:
    return f"ports {ports.start} to {ports.stop - 1}"
