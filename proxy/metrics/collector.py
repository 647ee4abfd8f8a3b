"""Hands the counts to prometheus-client at each scrape, in the scraping thread.

This module maps the metrics of `table.py` to the counts; it counts nothing itself. A family whose labels are known
beforehand (none, or an enum) always has samples, from 0 on, so that `rate()` sees its first event. The recorder's
families exist only while something is recorded.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from proxy.conversation.exchange import Direction
from proxy.metrics import table
from proxy.metrics.durations import Durations
from proxy.metrics.families import Sample, family, histogram
from proxy.metrics.nodes import NodeRow
from proxy.metrics.table import Metric, MetricType
from proxy.metrics.traffic import ApiRow, KeptExemplar, Traffic
from proxy.version import program_version

NS_PER_SECOND = 1e9
MS_PER_SECOND = 1e3
# the label of an exemplar: an id as `kafka-wiretap inspect show` takes it
EXEMPLAR_LABEL = "exchange"
# the labels `le` of each bucket
SIZES = [*map(str, table.SIZE_BOUNDS), "+Inf"]
LATENCIES, PROXY_TIMES = (
    [*(str(bound / NS_PER_SECOND) for bound in bounds), "+Inf"]
    for bounds in (table.LATENCY_BOUNDS_NS, table.PROXY_BOUNDS_NS)
)


@dataclass(frozen=True, slots=True)
class NodeListener:
    """A node's broker and listener. `usual_port`: the listener has the port that the mapping tries first."""

    node_id: int
    upstream: str
    listener: str
    usual_port: bool


class ListenerRoom(NamedTuple):
    """How many listeners nodes have, and may have."""

    taken: int
    limit: float


NO_ROOM = ListenerRoom(0, 0)


class ClusterState(NamedTuple):
    """What a process has of a cluster at a moment.

    queued_bytes: bytes read from one side that the other has not taken yet.
    certificate_ends: the setting of a certificate's file -> when the chain in it ends, in seconds since 1970.
    """

    queued_bytes: int = 0
    certificate_ends: Mapping[str, float] = MappingProxyType({})


class HeldState(NamedTuple):
    """Bytes of large responses that are held to be rewritten, and the number of responses that wait for room."""

    held_bytes: int = 0
    waiting: int = 0


RecorderCounters = Callable[[], Mapping[str, float]]
ListNodes = Callable[[], Iterable[NodeListener]]

# metric, and its count in one row
ROW_COUNTERS: tuple[tuple[Metric, Callable[[ApiRow], float]], ...] = (
    (table.EXCHANGES, lambda row: row.exchanges),
    (table.QUEUED, lambda row: row.queued_ns / NS_PER_SECOND),
    (table.TRANSFER, lambda row: row.transfer_ns / NS_PER_SECOND),
    (table.RESPONSE_PROXY, lambda row: row.proxy_ns / NS_PER_SECOND),
    (table.ONE_WAY, lambda row: row.one_way),
    (table.UNANSWERED, lambda row: row.unanswered),
    (table.BY_PROXY, lambda row: row.by_proxy),
)

# metric, and its count in a node's row
NODE_COUNTERS: tuple[tuple[Metric, Callable[[NodeRow], float]], ...] = (
    (table.NODE_EXCHANGES, lambda row: row.exchanges),
    (table.NODE_OPENED, lambda row: row.opened),
)

# metric with one more label than the node, and its counts by that label in a node's row
NODE_LABELLED: tuple[tuple[Metric, Callable[[NodeRow], Mapping[str, int]], float], ...] = (
    (table.NODE_ERRORS, lambda row: row.errors, 1),
    (table.NODE_CLOSED, lambda row: row.closes, 1),
    (table.NODE_DIAL_FAILURES, lambda row: row.dial_failures, 1),
    (table.NODE_THROTTLE, lambda row: row.throttle_ms, MS_PER_SECOND),
    (table.NODE_THROTTLED, lambda row: row.throttled, 1),
)

# metric, bounds, and its buckets and its sum in one row
ROW_HISTOGRAMS: tuple[tuple[Metric, Sequence[str], Callable[[ApiRow], list[int]], Callable[[ApiRow], float]], ...] = (
    (table.REQUEST_SIZE, SIZES, lambda row: row.request_buckets, lambda row: row.request_bytes),
    (table.RESPONSE_SIZE, SIZES, lambda row: row.response_buckets, lambda row: row.response_bytes),
    (table.LATENCY, LATENCIES, lambda row: row.latency_buckets, lambda row: row.latency_ns / NS_PER_SECOND),
)


class ClusterNumbers(NamedTuple):
    """The counts of a cluster. The functions return what is true now; they are called in the scraping thread.

    nodes: the present nodes. room: the room for their listeners. is_up: True if a broker could be reached.
    connection_limit: the most connections; None: they are not limited.
    """

    name: str
    traffic: Traffic
    nodes: ListNodes
    room: Callable[[], ListenerRoom] = lambda: NO_ROOM
    is_up: Callable[[], bool] = lambda: True
    connection_limit: int | None = None
    state: Callable[[], ClusterState] = ClusterState


@dataclass(frozen=True, slots=True)
class ProcessNumbers:
    """The counts of a process, or of all workers together. The functions are as those of `ClusterNumbers`.

    is_ready: True if /readyz is 200. connection_limit: the most connections of all clusters; None: not limited.
    """

    is_ready: Callable[[], bool] = lambda: True
    connection_limit: int | None = None
    held: Callable[[], HeldState] = HeldState
    loop_delay: Durations = field(default_factory=Durations)


IDLE_PROCESS = ProcessNumbers()


def registry(
    clusters: Sequence[ClusterNumbers],
    recorder_counters: RecorderCounters | None = None,
    process: ProcessNumbers = IDLE_PROCESS,
) -> CollectorRegistry:
    """Returns a registry of the clusters' metrics, and of those of this process (`process_*`).

    Args:
        recorder_counters: `Observer.counters`, called in the scraping thread; None: nothing is recorded.
    """
    return process_registry(lambda: all_families(clusters, recorder_counters, process))


def process_registry(gather: Callable[[], Iterable[Family]]) -> CollectorRegistry:
    """Returns a registry of the families that `gather` makes at each scrape, and of this process (`process_*`)."""
    registry_of_process = CollectorRegistry()
    registry_of_process.register(_Gathered(gather))
    ProcessCollector(registry=registry_of_process)
    return registry_of_process


def all_families(
    clusters: Sequence[ClusterNumbers],
    counters: RecorderCounters | None,
    process: ProcessNumbers = IDLE_PROCESS,
) -> Iterator[Family]:
    """Yields every family with its present samples; for the arguments see `registry`."""
    yield family(table.BUILD, [((program_version(), platform.python_version()), 1)])
    yield from _rows(clusters)
    yield from _errors(clusters)
    yield _proxy_time(clusters)
    yield from _connections(clusters)
    yield from _nodes(clusters)
    yield from _states(clusters)
    yield from _process(process)
    if counters is not None:
        yield from _recorder(counters())


class _Gathered(Collector):
    """The families that `gather` makes. Keeps nothing between scrapes."""

    def __init__(self, gather: Callable[[], Iterable[Family]]) -> None:
        self._gather = gather

    def describe(self) -> Iterator[Family]:
        """All families of the proxy's own, so that a scrape can ask for some names only (`/metrics?name[]=...`)."""
        for metric in [metric for metric in table.METRICS if metric not in table.LIVE_METRICS]:
            yield histogram(metric) if metric.kind is MetricType.HISTOGRAM else family(metric, ())

    def collect(self) -> Iterable[Family]:
        return self._gather()


def worker_families(count: int, ends: int, connections: Mapping[tuple[str, int], int]) -> Iterator[Family]:
    """Yields the families of a parent.

    Args:
        count: the number of joined workers.
        ends: the number of workers that have ended.
        connections: (cluster, a worker's number) -> its open connections.
    """
    yield family(table.WORKERS, [((), count)])
    yield family(table.WORKER_ENDS, [((), ends)])
    rows = connections.items()
    yield family(table.WORKER_CONNECTIONS, (((cluster, str(worker)), value) for (cluster, worker), value in rows))


def _cumulative(bounds: Sequence[str], buckets: Sequence[int]) -> list[tuple[str, float]]:
    # copied in one step of the interpreter: the event loop may count meanwhile
    return list(zip(bounds, accumulate(buckets[:]), strict=True))


def _rows(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    # copied in one step of the interpreter: the event loop may add a row meanwhile
    rows = [((one.name, *labels), row) for one in clusters for labels, row in list(one.traffic.rows.items())]
    for metric, number in ROW_COUNTERS:
        yield family(metric, ((labels, number(row)) for labels, row in rows))
    for metric, bounds, buckets, total in ROW_HISTOGRAMS:
        sizes = histogram(metric)
        for labels, row in rows:
            counts = _cumulative(bounds, buckets(row))
            shown = _with_exemplars(counts, row.exemplars[:]) if metric is table.LATENCY else counts
            sizes.add_metric(labels, shown, total(row))
        yield sizes


def _with_exemplars(
    counts: list[tuple[str, float]], kept: Sequence[KeptExemplar | None]
) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """Adds the exemplars of the buckets that have one. Prometheus' own format leaves them out, OpenMetrics has them."""
    return [
        count
        if one is None
        else (*count, Exemplar({EXEMPLAR_LABEL: one.exchange}, one.latency_ns / NS_PER_SECOND, one.at))
        for count, one in zip(counts, kept, strict=True)
    ]


def _errors(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    named = [(one.name, dict(one.traffic.errors.named)) for one in clusters]
    unread = [(one.name, dict(one.traffic.errors.unread)) for one in clusters]
    for metric, counts in ((table.ERRORS, named), (table.ERRORS_UNREAD, unread)):
        yield family(metric, (((name, *labels), count) for name, errors in counts for labels, count in errors.items()))


def _proxy_time(clusters: Sequence[ClusterNumbers]) -> Family:
    times = histogram(table.PROXY)
    for one in clusters:
        for direction in Direction:
            time = one.traffic.proxy_time[direction]
            buckets = _cumulative(PROXY_TIMES, time.buckets)
            times.add_metric([one.name, direction.name.lower()], buckets, time.total_ns / NS_PER_SECOND)
    return times


def _connections(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    # the closes are read first: else a connection that opens and ends in between would make the gauge negative
    closes = {one.name: dict(one.traffic.closes) for one in clusters}
    opened = {one.name: one.traffic.connections_opened for one in clusters}
    yield family(table.CONNECTIONS, (((name,), opened[name] - sum(closes[name].values())) for name in opened))
    yield family(table.OPENED, (((name,), count) for name, count in opened.items()))
    yield family(
        table.CLOSED, (((name, cause.value), count) for name in opened for cause, count in closes[name].items())
    )
    reasons = ((one.name, dict(one.traffic.opaque_frames)) for one in clusters)
    yield family(
        table.OPAQUE, (((name, reason.value), count) for name, counts in reasons for reason, count in counts.items())
    )
    logins = ((one.name, dict(one.traffic.logins)) for one in clusters)
    yield family(
        table.LOGINS, (((name, *labels), count) for name, counts in logins for labels, count in counts.items())
    )


def _nodes(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    # copied in one step of the interpreter, as are the tables of each row: the event loop may add to them meanwhile
    rows = [((one.name, label), row) for one in clusters for label, row in list(one.traffic.nodes.items())]
    # the closes are read first: see `_connections`
    closed = {labels: sum(dict(row.closes).values()) for labels, row in rows}
    yield family(table.NODE_CONNECTIONS, ((labels, row.opened - closed[labels]) for labels, row in rows))
    for metric, number in NODE_COUNTERS:
        yield family(metric, ((labels, number(row)) for labels, row in rows))
    for metric, counts, unit in NODE_LABELLED:
        samples = (
            ((*labels, label), count / unit) for labels, row in rows for label, count in dict(counts(row)).items()
        )
        yield family(metric, samples)
    latency = histogram(table.NODE_LATENCY)
    for labels, row in rows:
        latency.add_metric(labels, _cumulative(LATENCIES, row.latency_buckets), row.latency_ns / NS_PER_SECOND)
    yield latency
    reached = [(labels, row.reach) for labels, row in rows if row.reach.is_known]
    yield family(table.NODE_UP, ((labels, reach.is_up) for labels, reach in reached))
    yield family(table.NODE_SINCE, ((labels, reach.since) for labels, reach in reached))


def _states(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    yield family(table.NODE, (_node_info(one.name, node) for one in clusters for node in one.nodes()))
    rooms = [(one.name, one.room()) for one in clusters]
    yield family(table.NODE_LISTENERS, (((name,), room.taken) for name, room in rooms))
    yield family(table.NODE_LISTENERS_LIMIT, (((name,), room.limit) for name, room in rooms))
    yield family(table.UPSTREAM_UP, (((one.name,), one.is_up()) for one in clusters))
    limits = ((one.name, one.connection_limit) for one in clusters)
    yield family(table.CONNECTION_LIMIT, (((name,), limit) for name, limit in limits if limit is not None))
    states = [(one.name, one.state()) for one in clusters]
    yield family(table.QUEUED_BYTES, (((name,), state.queued_bytes) for name, state in states))
    ends = (((name, setting), end) for name, state in states for setting, end in state.certificate_ends.items())
    yield family(table.CERTIFICATE_END, ends)


def _process(process: ProcessNumbers) -> Iterator[Family]:
    yield family(table.READY, [((), process.is_ready())])
    if process.connection_limit is not None:
        yield family(table.ALL_CONNECTIONS_LIMIT, [((), process.connection_limit)])
    held = process.held()
    yield family(table.HELD_BYTES, [((), held.held_bytes)])
    yield family(table.HELD_WAITING, [((), held.waiting)])
    delay = histogram(table.LOOP_DELAY)
    total_ns = process.loop_delay.total_ns
    delay.add_metric([], _cumulative(PROXY_TIMES, process.loop_delay.buckets), total_ns / NS_PER_SECOND)
    yield delay


def _node_info(cluster: str, node: NodeListener) -> Sample:
    return (cluster, str(node.node_id), node.upstream, node.listener, "yes" if node.usual_port else "no"), 1


def _recorder(counters: Mapping[str, float]) -> Iterator[Family]:
    for name, metric in table.RECORDER_COUNTERS.items():
        if name in counters:
            yield family(metric, [((), counters[name])])
    for prefix, metric in table.RECORDER_COUNTERS_BY_CAUSE.items():
        of_causes = [((name.removeprefix(prefix),), counters[name]) for name in counters if name.startswith(prefix)]
        if of_causes:
            yield family(metric, of_causes)
