"""All settings of a proxy: its clusters and what they share. Checks that no two clusters claim the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from proxy.config.cluster import ClusterSettings
from proxy.config.live import LiveSettings
from proxy.config.log import LogSettings
from proxy.config.places import demand_of, wrong_demands
from proxy.schema.addresses import ADDRESS, Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault
from proxy.schema.keys import Key, wrong_values
from proxy.schema.kinds import COUNT, LIMIT, SECONDS, SWITCH, at_least, cut
from proxy.units import MIB

# a cluster's name is a label of metrics, and a part of names of files and environment variables
_CLUSTER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The settings of `kafka-wiretap proxy`, without those of the recorder."""

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
        Key(LIMIT, "held", "The most bytes of responses held to be rewritten, in all connections together.", "256MiB"),
    ] = 256 * MIB
    log: LogSettings = field(default_factory=LogSettings)
    live: LiveSettings = field(default_factory=LiveSettings)
    stalled_seconds: Annotated[
        float,
        Key(
            # connections that a healthy peer serves must not be ended
            at_least(1),
            "stalled",
            "While others wait for room in `held`: how long a connection may hold a response without a byte moving.",
            "1m",
        ),
    ] = 30
    connection_limit: Annotated[
        int | None,
        Key(
            COUNT,
            "connections",
            "The most connections of all clusters' clients at the same time. Further ones are closed at once.",
            5000,
            unset="as many as files may be open",
        ),
    ] = None
    workers: Annotated[
        int,
        Key(
            COUNT, "workers", "The number of processes that pass traffic on. Use no more than there are processors.", 4
        ),
    ] = 1

    hung_seconds: Annotated[
        float,
        Key(
            # a worker reports every second; a busy machine may let one report be late
            at_least(3),
            "hung",
            "With several workers: a worker that does nothing for this long is killed and replaced. After a third of "
            "this time /livez fails. 3s at least.",
            "20s",
        ),
    ] = 30
    busy_polling: Annotated[
        bool,
        Key(
            SWITCH,
            "busy_polling",
            "Poll for the next bytes, up to 0.2 ms at a time, instead of sleeping, as long as that mostly finds some. "
            "This lowers latency and takes more of a processor while requests follow closely.",
            False,
        ),
    ] = True

    def __post_init__(self) -> None:
        names = [cluster.name for cluster in self.clusters]
        wrong = [*wrong_values(self), *wrong_names(names), *wrong_demands(map(demand_of, self.clusters))]
        wrong += self._useless_token()
        if wrong:
            raise BadSetting(*wrong)

    def _useless_token(self) -> Iterator[Fault]:
        """A fault for a token that nobody can show anywhere."""
        if self.live.token_file is not None and self.live.page is None and self.metrics is None:
            yield Fault("live.token_file lets nobody in without metrics or live.page", 'metrics = "127.0.0.1:9464"')


def wrong_names(names: Sequence[str]) -> Iterator[Fault]:
    """Yields a fault for each name that no cluster can have, and for missing or repeated names."""
    if not names:
        yield Fault("clusters names no cluster", "[clusters.main] with upstream and listen")
    for name in names:
        if not _CLUSTER_NAME.fullmatch(name):
            right = "small letters, digits, - and _, [clusters.east-1]"
            yield Fault(f"clusters.{cut(name)} is no name for a cluster", right)
    if len({*names}) < len(names):
        yield Fault("clusters names a cluster twice", "a name for each, [clusters.east] and [clusters.west]")
