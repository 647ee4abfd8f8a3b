"""All settings of a proxy: its clusters, what they share, and what they must not both want."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated

from proxy.config.cluster import ClusterSettings
from proxy.config.errors import BadSetting
from proxy.config.log import LogSettings
from proxy.config.mapping import MappingKind
from proxy.config.places import clashes, last_port
from proxy.rewrite.nodes import Address
from proxy.settings.addresses import ADDRESS
from proxy.settings.keys import Key, wrong_values
from proxy.settings.kinds import COUNT, LIMIT, MIB, SECONDS, SWITCH, TIMEOUT

# it is a metric's label, a part of a file's name and of an environment variable's
_CLUSTER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """What `kafka-wiretap proxy` was told, but for what is recorded."""

    clusters: tuple[ClusterSettings, ...]
    metrics: Annotated[
        Address | None,
        Key(ADDRESS, "metrics", "Serve /metrics, /livez and /readyz here.", "127.0.0.1:9464", unset="not served"),
    ] = None
    drain_seconds: Annotated[
        float,
        Key(SECONDS, "drain", "How long exchanges in flight may take to finish after SIGTERM.", "10s"),
    ] = 10
    held_in_all: Annotated[
        int,
        Key(LIMIT, "held", "Bytes of responses held to be rewritten, in all connections together.", "256MiB"),
    ] = 256 * MIB
    log: LogSettings = field(default_factory=LogSettings)
    stalled_seconds: Annotated[
        float,
        Key(
            TIMEOUT,
            "stalled",
            "While others wait for their share of `held`: how long one may be kept without a byte moving.",
            "1m",
        ),
    ] = 30
    connection_limit: Annotated[
        int | None,
        Key(
            COUNT,
            "connections",
            "Connections of all clusters' clients at the same time; those above are closed at once.",
            5000,
            unset="as many as files may be open",
        ),
    ] = None
    workers: Annotated[
        int,
        Key(COUNT, "workers", "Processes that pass the traffic on; no more than there are processors for them.", 4),
    ] = 1

    hung_seconds: Annotated[
        float,
        Key(
            TIMEOUT,
            "hung",
            "With several workers: one that has done nothing for so long is killed, and another takes its place. After "
            "a third of it /livez fails.",
            "20s",
        ),
    ] = 30
    busy_polling: Annotated[
        bool,
        Key(
            SWITCH,
            "busy_polling",
            "Look again and again for what comes next, up to 0.2 ms at a time and while that mostly pays, instead of "
            "sleeping until it comes: less latency, for more of a processor while requests follow closely.",
            False,
        ),
    ] = True

    def __post_init__(self) -> None:
        wrong = [*wrong_values(self), *self._wrong_names(), *self._wrong_places()]
        if wrong:
            raise BadSetting(*wrong)

    def _wrong_names(self) -> Iterator[str]:
        if not self.clusters:
            yield "clusters names no cluster; right would be [clusters.main] with upstream and listen"
        names = [cluster.name for cluster in self.clusters]
        for name in names:
            if not _CLUSTER_NAME.fullmatch(name):
                yield (
                    f"clusters.{name} is no name for a cluster; right would be small letters, digits, - and _, "
                    "[clusters.east-1]"
                )
        if len({*names}) < len(names):
            yield "clusters names a cluster twice; right would be a name for each, [clusters.east] and [clusters.west]"

    def _wrong_places(self) -> Iterator[str]:
        """No two clusters may want the same port, whatever nodes they turn out to have; nor the same state file."""
        for one, other in combinations(self.clusters, 2):
            clash = next(clashes(one, other), None)
            if clash is not None:
                yield f"clusters.{other.name} and clusters.{one.name} both want {clash}{_ports_of_its_own(one, other)}"
            if one.state is not None and one.state == other.state:
                yield (
                    f"clusters.{other.name}.state {one.state} is the file of clusters.{one.name} too; "
                    f"right would be clusters.{other.name}.state nodes-{other.name}.json"
                )


def _ports_of_its_own(one: ClusterSettings, other: ClusterSettings) -> str:
    if one.mapping is other.mapping is MappingKind.SNI:
        return (
            "; one TLS port is one cluster's, and names don't tell two apart; right would be another port for each: "
            f'clusters.{other.name}.listen = "{Address(other.listen.host, last_port(one) % 65535 + 1)}"'
        )
    return (
        f"; right would be ports of its own for each: clusters.{other.name} behind port {last_port(one)}, "
        "or less node_count"
    )
