"""The ports and state files that clusters claim, and the clashes between clusters. Also the default state file."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from proxy.config.cluster import ClusterSettings
from proxy.config.mapping import MappingKind
from proxy.mapping.nodes import WILDCARDS
from proxy.mapping.ports import usual_ports
from proxy.schema.addresses import Address
from proxy.schema.faults import Fault
from proxy.schema.flags import MAIN
from proxy.user_folders import state_folder
from proxy.wire.dialects import Dialect

# the most clashes reported for one cluster: many clusters that claim the same ports would make a fault for each pair
MAX_CLASHES = 5


class HostPorts(NamedTuple):
    """Ports of one host to listen on."""

    host: str
    ports: range


class Demand(NamedTuple):
    """What one cluster claims: ports, its state file, and the broker of its own node.

    `is_one_port`: one TLS port stands for all its nodes. `own_node`: the node that it stands for (None: several);
    `upstream`: this node's broker.
    """

    name: str
    places: tuple[HostPorts, ...]
    state: Path | None
    is_one_port: bool
    own_node: int | None = None
    upstream: tuple[Address, ...] = ()

    @property
    def last_port(self) -> int:
        """The last port of the last of `places`."""
        return self.places[-1].ports[-1]


# the fields of a cluster that decide its demand, with their defaults
_DEMANDING: Mapping[str, Any] = {
    "listen": None,
    "nodes": {},
    "node_ports": None,
    "node_count": 1000,
    "mapping": MappingKind.PORTS,
    "dialect": Dialect.KAFKA,
    "state": None,
    "own_node": None,
    "upstream": (),
}


def demand_of(cluster: ClusterSettings) -> Demand:
    """Returns the demand of a cluster."""
    return demand(cluster.name, {field: getattr(cluster, field) for field in _DEMANDING})


def demand(name: str, fields: Mapping[str, Any], unknown: Container[str] = ()) -> Demand:
    """Returns the demand of a cluster with these fields; defaults for others. `unknown`: fields with wrong values."""
    known = {**_DEMANDING, **fields}
    listen: Address | None = known["listen"]
    single = [*([listen] if listen is not None else []), *known["nodes"].values()]
    places = [HostPorts(address.host, range(address.port, address.port + 1)) for address in single if address.port]
    has_range = known["mapping"] is MappingKind.PORTS and known["dialect"] is Dialect.KAFKA
    is_known = not any(field in unknown for field in ("node_ports", "node_count", "mapping", "dialect"))
    if listen is not None and has_range and is_known:
        usual = usual_ports(listen, known["node_ports"], known["node_count"])
        places += [HostPorts(listen.host, usual)] if usual else []
    is_one_port = known["mapping"] is MappingKind.SNI
    return Demand(name, tuple(places), known["state"], is_one_port, known["own_node"], known["upstream"])


def wrong_demands(demands: Iterable[Demand]) -> Iterator[Fault]:
    """Yields a fault for each two clusters that claim the same port, state file or broker.

    MAX_CLASHES for each cluster's ports.
    """
    taken, states, nodes = TakenPorts(), dict[Path, str](), dict[Address, Demand]()
    for one in demands:
        for other in taken.take(one)[:MAX_CLASHES]:
            yield _overlap(other, one)
        if one.state is not None and (other_name := states.setdefault(one.state, one.name)) != one.name:
            yield Fault(
                f"clusters.{one.name}.state {one.state} is the file of clusters.{other_name} too",
                f"clusters.{one.name}.state nodes-{one.name}.json",
            )
        for broker in one.upstream if one.own_node is not None else ():
            other = nodes.setdefault(Address(broker.host.lower(), broker.port), one)
            if other.own_node != one.own_node:
                yield Fault(
                    f"clusters.{other.name} stands for node {other.own_node}, and clusters.{one.name} for node "
                    f"{one.own_node}, but both have the upstream {broker}",
                    f'each node\'s own broker: clusters.{one.name}.upstream = "broker-{one.own_node}:9092"',
                )


class TakenPorts:
    """The ports that clusters have claimed, with their owners."""

    def __init__(self) -> None:
        self._of_hosts: dict[str, _Ports] = {}
        # the ports of all hosts together, with which a wildcard listener clashes; and those of wildcard listeners
        self._of_all, self._of_wildcards = _Ports(), _Ports()

    def take(self, demand: Demand) -> list[Demand]:
        """Takes the free ports of a demand. Returns the demands that own the other ports, in the order of taking."""
        others: dict[str, Demand] = {}
        for host, ports in demand.places:
            for owner in self._owners(host, ports):
                if owner.name != demand.name:
                    others[owner.name] = owner
        for host, ports in demand.places:
            own = self._of_wildcards if host in WILDCARDS else self._of_hosts.setdefault(host, _Ports())
            own.take(ports, demand)
            self._of_all.take(ports, demand)
        return [*others.values()]

    def _owners(self, host: str, ports: range) -> Iterator[Demand]:
        if host in WILDCARDS:
            yield from self._of_all.owners(ports)
            return
        yield from self._of_wildcards.owners(ports)
        if host in self._of_hosts:
            yield from self._of_hosts[host].owners(ports)


class _Ports:
    """Ranges of ports, each with its owner. They are sorted and don't overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._taken: list[tuple[range, Demand]] = []

    def owners(self, ports: range) -> Iterator[Demand]:
        """The owners of any of these ports."""
        first = max(bisect_right(self._starts, ports.start) - 1, 0)
        for taken, owner in self._taken[first : bisect_left(self._starts, ports.stop)]:
            if taken.stop > ports.start:
                yield owner

    def take(self, ports: range, owner: Demand) -> None:
        """Gives the owner those of the ports that are free."""
        first = max(bisect_right(self._starts, ports.start) - 1, 0)
        last = bisect_left(self._starts, ports.stop)
        start = ports.start
        for taken, _ in self._taken[first:last]:
            self._add(range(start, min(taken.start, ports.stop)), owner)
            start = max(start, taken.stop)
        self._add(range(start, ports.stop), owner)

    def _add(self, ports: range, owner: Demand) -> None:
        if ports:
            at = bisect_left(self._starts, ports.start)
            self._starts.insert(at, ports.start)
            self._taken.insert(at, (ports, owner))


def _overlap(one: Demand, other: Demand) -> Fault:
    wrong = f"clusters.{other.name} and clusters.{one.name} both want {_clash(one, other)}"
    if not (one.is_one_port and other.is_one_port):
        right = f"ports of its own for each: clusters.{other.name} behind port {one.last_port}, or less node_count"
        return Fault(wrong, right)
    listen = Address(other.places[0].host, one.last_port % 65535 + 1)
    return Fault(
        f"{wrong}; one TLS port is one cluster's, and names don't tell two apart",
        f'another port for each: clusters.{other.name}.listen = "{listen}"',
    )


def _clash(one: Demand, other: Demand) -> str:
    """The first ports that both want, as text for a fault."""
    for here in one.places:
        for there in other.places:
            both = range(max(here.ports.start, there.ports.start), min(here.ports.stop, there.ports.stop))
            if both and (here.host == there.host or {here.host, there.host} & WILDCARDS):
                ports = f"port {both.start}" if len(both) == 1 else f"ports {both.start} to {both.stop - 1}"
                return f"{ports} of {there.host}"
    raise AssertionError("these demands do not clash")


def default_state_file(
    listen: Address, record: Path | None, name: str = MAIN, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """Returns the default of `state`: beside the capture, or in the user's state folder.

    None without a capture if the port of `listen` is 0: it changes with every start.
    """
    if record is not None:
        return record / ("_nodes.json" if name == MAIN else f"_nodes-{name}.json")
    if not listen.port:
        return None
    return state_folder(environment) / f"nodes-{listen.host.replace(':', '_') or 'any'}-{listen.port}.json"
