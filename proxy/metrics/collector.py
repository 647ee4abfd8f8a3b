"""Hands the counts to prometheus-client at each scrape, in the scraping thread.

This module maps the metrics of `table.py` to the counts; it counts nothing itself. A family whose labels are known
beforehand (none, or an enum) always has samples, from 0 on, so that `rate()` sees its first event. The recorder's
families exist only while something is recorded.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from proxy.conversation.exchange import Direction
from proxy.metrics import table
from proxy.metrics.table import Metric, MetricType
from proxy.metrics.traffic import ApiRow, Traffic
from proxy.version import program_version

NS_PER_SECOND = 1e9
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
RecorderCounters = Callable[[], Mapping[str, float]]
ListNodes = Callable[[], Iterable[NodeListener]]
Sample = tuple[Sequence[str], float]

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

# metric, bounds, and its buckets and its sum in one row
ROW_HISTOGRAMS: tuple[tuple[Metric, Sequence[str], Callable[[ApiRow], list[int]], Callable[[ApiRow], float]], ...] = (
    (table.REQUEST_SIZE, SIZES, lambda row: row.request_buckets, lambda row: row.request_bytes),
    (table.RESPONSE_SIZE, SIZES, lambda row: row.response_buckets, lambda row: row.response_bytes),
    (table.LATENCY, LATENCIES, lambda row: row.latency_buckets, lambda row: row.latency_ns / NS_PER_SECOND),
)


class ClusterNumbers(NamedTuple):
    """The counts of a cluster. `nodes` and `room` return its present nodes, and the room for them.

    They are called in the scraping thread.
    """

    name: str
    traffic: Traffic
    nodes: ListNodes
    room: Callable[[], ListenerRoom] = lambda: NO_ROOM


def registry(
    clusters: Sequence[ClusterNumbers], recorder_counters: RecorderCounters | None = None
) -> CollectorRegistry:
    """Returns a registry of the clusters' metrics, and of those of this process (`process_*`).

    Args:
        recorder_counters: `Observer.counters`, called in the scraping thread; None: nothing is recorded.
    """
    return process_registry(lambda: cluster_families(clusters, recorder_counters))


def process_registry(gather: Callable[[], Iterable[Family]]) -> CollectorRegistry:
    """Returns a registry of the families that `gather` makes at each scrape, and of this process (`process_*`)."""
    process = CollectorRegistry()
    process.register(_Gathered(gather))
    ProcessCollector(registry=process)
    return process


def cluster_families(clusters: Sequence[ClusterNumbers], counters: RecorderCounters | None) -> Iterator[Family]:
    """Yields every family with its present samples."""
    yield _family(table.BUILD, [((program_version(), platform.python_version()), 1)])
    yield from _rows(clusters)
    yield from _errors(clusters)
    yield _proxy_time(clusters)
    yield from _connections(clusters)
    yield _family(table.NODE, (_node(one.name, node) for one in clusters for node in one.nodes()))
    rooms = [(one.name, one.room()) for one in clusters]
    yield _family(table.NODE_LISTENERS, (((name,), room.taken) for name, room in rooms))
    yield _family(table.NODE_LISTENERS_LIMIT, (((name,), room.limit) for name, room in rooms))
    if counters is not None:
        yield from _recorder(counters())


class _Gathered(Collector):
    """The families that `gather` makes. Keeps nothing between scrapes."""

    def __init__(self, gather: Callable[[], Iterable[Family]]) -> None:
        self._gather = gather

    def describe(self) -> Iterator[Family]:
        """All possible families, so that a scrape can ask for some names only (`/metrics?name[]=...`)."""
        for metric in table.METRICS:
            yield _histogram(metric) if metric.kind is MetricType.HISTOGRAM else _family(metric, ())

    def collect(self) -> Iterable[Family]:
        return self._gather()


def worker_families(count: int, ends: int, connections: Mapping[tuple[str, int], int]) -> Iterator[Family]:
    """Yields the families of a parent.

    Args:
        count: the number of joined workers.
        ends: the number of workers that have ended.
        connections: (cluster, a worker's number) -> its open connections.
    """
    yield _family(table.WORKERS, [((), count)])
    yield _family(table.WORKER_ENDS, [((), ends)])
    rows = connections.items()
    yield _family(table.WORKER_CONNECTIONS, (((cluster, str(worker)), value) for (cluster, worker), value in rows))


def _family(metric: Metric, samples: Iterable[Sample]) -> Family:
    make = CounterMetricFamily if metric.kind is MetricType.COUNTER else GaugeMetricFamily
    family = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric) -> HistogramMetricFamily:
    return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)


def _cumulative(bounds: Sequence[str], buckets: Sequence[int]) -> list[tuple[str, float]]:
    # copied in one step of the interpreter: the event loop may count meanwhile
    return list(zip(bounds, accumulate(buckets[:]), strict=True))


def _rows(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    # copied in one step of the interpreter: the event loop may add a row meanwhile
    rows = [((one.name, *labels), row) for one in clusters for labels, row in list(one.traffic.rows.items())]
    for metric, number in ROW_COUNTERS:
        yield _family(metric, ((labels, number(row)) for labels, row in rows))
    for metric, bounds, buckets, total in ROW_HISTOGRAMS:
        family = _histogram(metric)
        for labels, row in rows:
            family.add_metric(labels, _cumulative(bounds, buckets(row)), total(row))
        yield family


def _errors(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    named = [(one.name, dict(one.traffic.errors.named)) for one in clusters]
    unread = [(one.name, dict(one.traffic.errors.unread)) for one in clusters]
    for metric, counts in ((table.ERRORS, named), (table.ERRORS_UNREAD, unread)):
        yield _family(metric, (((name, *labels), count) for name, errors in counts for labels, count in errors.items()))


def _proxy_time(clusters: Sequence[ClusterNumbers]) -> Family:
    family = _histogram(table.PROXY)
    for one in clusters:
        for direction in Direction:
            time = one.traffic.proxy_time[direction]
            buckets = _cumulative(PROXY_TIMES, time.buckets)
            family.add_metric([one.name, direction.name.lower()], buckets, time.total_ns / NS_PER_SECOND)
    return family


def _connections(clusters: Sequence[ClusterNumbers]) -> Iterator[Family]:
    # the closes are read first: else a connection that opens and ends in between would make the gauge negative
    closes = {one.name: dict(one.traffic.closes) for one in clusters}
    opened = {one.name: one.traffic.connections_opened for one in clusters}
    yield _family(table.CONNECTIONS, (((name,), opened[name] - sum(closes[name].values())) for name in opened))
    yield _family(table.OPENED, (((name,), count) for name, count in opened.items()))
    yield _family(
        table.CLOSED, (((name, cause.value), count) for name in opened for cause, count in closes[name].items())
    )
    reasons = ((one.name, dict(one.traffic.opaque_frames)) for one in clusters)
    yield _family(
        table.OPAQUE, (((name, reason.value), count) for name, counts in reasons for reason, count in counts.items())
    )


def _node(cluster: str, node: NodeListener) -> Sample:
    return (cluster, str(node.node_id), node.upstream, node.listener, "yes" if node.usual_port else "no"), 1


def _recorder(counters: Mapping[str, float]) -> Iterator[Family]:
    for name, metric in table.RECORDER_COUNTERS.items():
        if name in counters:
            yield _family(metric, [((), counters[name])])
    causes = (name for name in counters if name.startswith(table.SHIP_FAILURES_OF))
    failures = [((name.removeprefix(table.SHIP_FAILURES_OF),), counters[name]) for name in causes]
    if failures:
        yield _family(table.SHIP_FAILURES, failures)
