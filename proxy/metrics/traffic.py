"""Counts one cluster's traffic in the event loop, at about a microsecond an exchange. Relays report to `Traffic`.

prometheus-client's `labels().inc()` costs several microseconds. So the counts are plain attributes and lists, one row
per (api, version), and `collector.py` reads them at each scrape, in another thread. It copies each list in one step of
the interpreter, so a histogram's count always equals the sum of its buckets. Its sum may be ahead of them by the
exchanges of one chunk.

`errors.py` counts the errors in responses.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from proxy.conversation.exchange import Cause, Direction, Exchange, OpaqueReason, timings
from proxy.conversation.login import Login
from proxy.conversation.routes import Route
from proxy.metrics.errors import Errors
from proxy.metrics.runs import Run, runs
from proxy.metrics.table import DIALECT_07, LATENCY_BOUNDS_NS, OTHER, PROXY_BOUNDS_NS, SIZE_BOUNDS
from proxy.wire.error_reader import ErrorReader, FoundErrors, error_reader


def _buckets(bounds: Sequence[int]) -> list[int]:
    """Returns zeros: one for each bound, and one for values above all bounds."""
    return [0] * (len(bounds) + 1)


@dataclass(slots=True)
class ApiRow:
    """The counts of one (api, version). Times are nanoseconds; sizes are bytes, without the length prefix."""

    exchanges: int = 0
    one_way: int = 0
    unanswered: int = 0
    by_proxy: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    latency_ns: int = 0
    queued_ns: int = 0
    transfer_ns: int = 0
    proxy_ns: int = 0
    request_buckets: list[int] = field(default_factory=partial(_buckets, SIZE_BOUNDS))
    response_buckets: list[int] = field(default_factory=partial(_buckets, SIZE_BOUNDS))
    latency_buckets: list[int] = field(default_factory=partial(_buckets, LATENCY_BOUNDS_NS))


@dataclass(slots=True)
class ProxyTime:
    """The time that the proxy added to chunks in one direction: the sum, and the number of chunks by bucket."""

    total_ns: int = 0
    buckets: list[int] = field(default_factory=partial(_buckets, PROXY_BOUNDS_NS))


class _Meter(NamedTuple):
    """What counts the exchanges of one route: the row, and the probe of its responses' errors (None: not known)."""

    api: str
    row: ApiRow
    probe: ErrorReader | None


class Traffic:
    """Counts what the proxy forwards. Only the event loop's thread calls methods; any thread may read attributes."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], ApiRow] = {}
        self.proxy_time = tuple(ProxyTime() for _ in Direction)
        self.opaque_frames = dict.fromkeys(OpaqueReason, 0)
        self.errors = Errors()
        self.closes = dict.fromkeys(Cause, 0)
        self.connections_opened = 0
        self._meter_of_version: dict[int, _Meter] = {}

    def finished(self, exchanges: Sequence[Exchange], sent_ns: int, data: bytes, arrived: FoundErrors) -> None:
        """Counts exchanges whose response is complete and has left the proxy.

        Args:
            exchanges: the finished exchanges of one step.
            sent_ns: `time.monotonic_ns()` after the last byte was sent.
            data: the step's bytes, which hold the responses.
            arrived: the errors of the response that began in an earlier step (`SplitResponses`).
        """
        for run in runs(exchanges):
            api, row, probe = self._meter(run[0][0].route)
            _add(row, run, sent_ns)
            self.errors.read(api, probe, run, data, arrived)

    def one_way(self, exchanges: Iterable[Exchange]) -> None:
        """Counts complete requests that have no response."""
        for exchange in exchanges:
            row = self._meter(exchange.route).row
            row.one_way += 1
            row.request_bytes += _sized(row.request_buckets, exchange.request_size)

    def unanswered(self, exchanges: Iterable[Exchange]) -> None:
        """Counts requests whose connection ended before their response, or whose turn was skipped."""
        for exchange in exchanges:
            self._meter(exchange.route).row.unanswered += 1

    def opaque(self, reasons: Iterable[OpaqueReason]) -> None:
        """Counts frames that were passed on without being understood."""
        for reason in reasons:
            self.opaque_frames[reason] += 1

    def opened(self) -> None:
        """Counts a client's connection as opened."""
        self.connections_opened += 1

    def closed(self, cause: Cause, unanswered: Iterable[Exchange] = (), login: Login | None = None) -> None:
        """Counts the end of a connection, its exchanges without a response, and the failure of its login."""
        self.closes[cause] += 1
        if login is not None:
            self.errors.connection_ended(cause, login)
        self.unanswered(unanswered)

    def proxied(self, direction: Direction, ns: int) -> None:
        """Counts a chunk that took `ns` nanoseconds from its last byte read to its last byte sent."""
        time = self.proxy_time[direction]
        time.total_ns += ns
        time.buckets[bisect_left(PROXY_BOUNDS_NS, ns)] += 1

    def _meter(self, route: Route) -> _Meter:
        """Returns the meter of a route, with a new row if it is the first of its API and version."""
        meter = self._meter_of_version.get(route.api_and_version)
        if meter is not None:
            return meter
        version = DIALECT_07 if route.api_version is None else str(route.api_version)
        labels = (route.api or OTHER, version if route.known else OTHER)
        row = self.rows.setdefault(labels, ApiRow())
        meter = _Meter(labels[0], row, error_reader(route.api_key, route.api_version))
        # only routes of the catalog are remembered: a peer can send any of 2**32 APIs and versions
        if route.known:
            self._meter_of_version[route.api_and_version] = meter
        return meter


def _add(row: ApiRow, run: Run, sent_ns: int) -> None:
    """Counts a run of exchanges in their row."""
    exchanges, one_request_size, one_response_size = run
    first, count = exchanges[0], len(exchanges)
    row.exchanges += count
    if one_request_size:
        row.request_bytes += _sized(row.request_buckets, first.request_size, count)
    else:
        row.request_bytes += _spread(row.request_buckets, [one.request_size for one in exchanges])
    if one_response_size:
        row.response_bytes += _sized(row.response_buckets, first.response_size, count)
    else:
        row.response_bytes += _spread(row.response_buckets, [one.response_size for one in exchanges])
    latency, queued, transfer = timings(first)
    if transfer is None:
        row.by_proxy += count
        return
    row.transfer_ns += transfer * count
    row.proxy_ns += (sent_ns - first.response_last_ns) * count
    if latency is not None and queued is not None:
        row.latency_ns += latency * count
        row.queued_ns += queued * count
        row.latency_buckets[bisect_left(LATENCY_BOUNDS_NS, latency)] += count


def _sized(buckets: list[int], size: int, count: int = 1) -> int:
    """Counts frames of one size. Returns the sum of their bytes."""
    buckets[bisect_left(SIZE_BOUNDS, size)] += count
    return size * count


def _spread(buckets: list[int], sizes: list[int]) -> int:
    """Counts frames of several sizes. Returns the sum of their bytes. Sorting takes a third of the time of `_sized`."""
    sizes.sort()
    before = 0
    for place, bound in enumerate(SIZE_BOUNDS):
        upto = bisect_right(sizes, bound)
        buckets[place] += upto - before
        before = upto
    buckets[-1] += len(sizes) - before
    return sum(sizes)
