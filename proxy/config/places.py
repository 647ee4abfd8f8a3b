"""The ports and the files that a cluster's settings claim."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from proxy.config.cluster import MAIN, ClusterSettings
from proxy.rewrite.nodes import WILDCARDS, Address


class _Place(NamedTuple):
    """Ports of a host that a cluster's settings claim."""

    host: str
    ports: range


def _places(cluster: ClusterSettings) -> list[_Place]:
    single = (cluster.listen, *cluster.nodes.values())
    places = [_Place(address.host, range(address.port, address.port + 1)) for address in single if address.port]
    return [*places, _Place(cluster.listen.host, cluster.node_map.usual)] if cluster.node_map.usual else places


def last_port(cluster: ClusterSettings) -> int:
    """The last port of what it claims last."""
    return _places(cluster)[-1].ports[-1]


def clashes(one: ClusterSettings, other: ClusterSettings) -> Iterator[str]:
    """The ports that both want, as they are said."""
    for here in _places(one):
        for there in _places(other):
            both = range(max(here.ports.start, there.ports.start), min(here.ports.stop, there.ports.stop))
            if both and (here.host == there.host or {here.host, there.host} & WILDCARDS):
                ports = f"port {both.start}" if len(both) == 1 else f"ports {both.start} to {both.stop - 1}"
                yield f"{ports} of {there.host}"


def default_state_file(
    listen: Address, record: Path | None, name: str = MAIN, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """Beside the capture, or in the user's state folder; none for a port that changes with every start."""
    if record is not None:
        return record / ("_nodes.json" if name == MAIN else f"_nodes-{name}.json")
    if not listen.port:
        return None
    home = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", "/")) / ".local" / "state"
    return Path(home) / "kafka-wiretap" / f"nodes-{listen.host.replace(':', '_') or 'any'}-{listen.port}.json"
