"""Counts one cluster's traffic in the event loop, at about a microsecond an exchange. Relays report to `Traffic`.

prometheus-client's `labels().inc()` costs several microseconds. So the counts are plain attributes and lists, one row
per (api, version), and `collector.py` reads them at each scrape, in another thread. It copies each list in one step of
the interpreter, so a histogram's count always equals the sum of its buckets. Its sum may be ahead of them by the
exchanges of one chunk.

`errors.py` counts the errors in responses; `nodes.py` has the counts of one node.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from proxy.conversation.exchange import Cause, Direction, Exchange, OpaqueReason, timings
from proxy.conversation.login import Login
from proxy.conversation.routes import Route
from proxy.metrics.durations import Durations, empty_buckets
from proxy.metrics.errors import Errors
from proxy.metrics.logins import CountedLogin, LoginOutcome
from proxy.metrics.nodes import BOOTSTRAP, NodeRow
from proxy.metrics.runs import Run, runs
from proxy.metrics.table import DIALECT_07, LATENCY_BOUNDS_NS, OTHER, SIZE_BOUNDS
from proxy.wire.error_reader import ErrorReader, FoundErrors, error_reader
from proxy.wire.keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE

# seconds until a bucket gets another exemplar: Prometheus scrapes no more often by default, and keeps one a scrape
EXEMPLAR_SECONDS = 15


_LOGINS = frozenset((SASL_HANDSHAKE, SASL_AUTHENTICATE))


class KeptExemplar(NamedTuple):
    """An exchange of a latency bucket. `exchange`: its id for `inspect show`. `at`: seconds since 1970."""

    exchange: str
    latency_ns: int
    at: float


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
    request_buckets: list[int] = field(default_factory=partial(empty_buckets, SIZE_BOUNDS))
    response_buckets: list[int] = field(default_factory=partial(empty_buckets, SIZE_BOUNDS))
    latency_buckets: list[int] = field(default_factory=partial(empty_buckets, LATENCY_BOUNDS_NS))
    # by latency bucket; None: none yet
    exemplars: list[KeptExemplar | None] = field(default_factory=lambda: [None] * (len(LATENCY_BOUNDS_NS) + 1))


@dataclass(slots=True)
class CountedConnection:
    """One client's connection, as far as its exchanges are counted by it.

    number: the connection's number. node: the row of the node that the client wants. login: its login.
    """

    number: int
    node: NodeRow
    login: CountedLogin


class _Meter(NamedTuple):
    """What counts the exchanges of one route: the row, and the probe of its responses' errors (None: not known)."""

    api: str
    row: ApiRow
    probe: ErrorReader | None


class Traffic:
    """Counts what the proxy forwards. Only the event loop's thread calls methods; any thread may read attributes.

    Args:
        session: the recorder's name for this process' run, part of exemplars' ids; "": nothing is recorded.
    """

    def __init__(self, session: str = "") -> None:
        self.rows: dict[tuple[str, str], ApiRow] = {}
        # by the label `node`
        self.nodes: dict[str, NodeRow] = {}
        self.proxy_time = tuple(Durations() for _ in Direction)
        self.opaque_frames = dict.fromkeys(OpaqueReason, 0)
        self.errors = Errors()
        self.closes = dict.fromkeys(Cause, 0)
        # by mechanism and outcome
        self.logins: Counter[tuple[str, str]] = Counter()
        self.connections_opened = 0
        self._session = session
        self._meter_of_version: dict[int, _Meter] = {}

    def connection(self, number: int, node: str, login: Login) -> CountedConnection:
        """Returns what counts a connection's exchanges. `node`: the label of the node that its client wants."""
        return CountedConnection(number, self.nodes.setdefault(node, NodeRow()), CountedLogin(login))

    def forget_node(self, node_id: int) -> None:
        """Drops the row of a node that is no longer known."""
        self.nodes.pop(str(node_id), None)

    def forget_nodes(self, is_served: Callable[[int], bool]) -> None:
        """Drops the rows of all nodes that are no longer known. `is_served`: True for those that are."""
        for label in [*self.nodes]:
            if label not in (BOOTSTRAP, OTHER) and not is_served(int(label)):
                del self.nodes[label]

    def finished(
        self,
        exchanges: Sequence[Exchange],
        sent_ns: int,
        data: bytes,
        arrived: FoundErrors,
        connection: CountedConnection,
    ) -> None:
        """Counts exchanges whose response is complete and has left the proxy.

        Args:
            exchanges: the finished exchanges of one step.
            sent_ns: `time.monotonic_ns()` after the last byte was sent.
            data: the step's bytes, which hold the responses.
            arrived: the errors of the response that began in an earlier step (`SplitResponses`).
            connection: the connection that they passed.
        """
        node = connection.node
        for run in runs(exchanges):
            first = run[0][0]
            api, row, probe = self._meter(first.route)
            bucket = _add(row, node, run, sent_ns)
            if self._session and bucket is not None:
                self._keep_exemplar(row, bucket, first, connection)
            errors = self.errors.read(api, probe, run, data, arrived, node)
            if connection.login.is_pending or first.route.api_key in _LOGINS:
                self._follow_login(connection.login, first.route, errors)

    def _keep_exemplar(self, row: ApiRow, bucket: int, exchange: Exchange, connection: CountedConnection) -> None:
        before, now = row.exemplars[bucket], time.time()
        if before is None or now - before.at >= EXEMPLAR_SECONDS:
            # as `inspect show` takes it
            name = f"{self._session}/{connection.number}/e{exchange.number}"
            row.exemplars[bucket] = KeptExemplar(name, timings(exchange).latency_ns or 0, now)

    def _follow_login(self, login: CountedLogin, route: Route, errors: int) -> None:
        if route.api_key in _LOGINS:
            outcome = login.answered(is_refused=errors > 0)
        elif route.api_key != API_VERSIONS:
            outcome = login.succeeded()
        else:
            return
        self._count_login(login, outcome)

    def _count_login(self, login: CountedLogin, outcome: LoginOutcome | None) -> None:
        if outcome is not None:
            self.logins[login.mechanism, outcome.value] += 1

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

    def connected(self, connection: CountedConnection) -> None:
        """Counts a connection at its node: the client has said which one it wants."""
        connection.node.opened += 1

    def disconnected(self, connection: CountedConnection, cause: Cause) -> None:
        """Counts the end of a connection at its node, and its login if that is not complete."""
        closes = connection.node.closes
        closes[cause.value] = closes.get(cause.value, 0) + 1
        self._count_login(connection.login, connection.login.ended(cause))

    def closed(self, cause: Cause, unanswered: Iterable[Exchange] = (), login: Login | None = None) -> None:
        """Counts the end of a connection, its exchanges without a response, and the failure of its login."""
        self.closes[cause] += 1
        if login is not None:
            self.errors.connection_ended(cause, login)
        self.unanswered(unanswered)

    def proxied(self, direction: Direction, ns: int) -> None:
        """Counts a chunk that took `ns` nanoseconds from its last byte read to its last byte sent."""
        self.proxy_time[direction].add(ns)

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


def _add(row: ApiRow, node: NodeRow, run: Run, sent_ns: int) -> int | None:
    """Counts a run of exchanges in the rows of their API and node. Returns the bucket of their latency, if known."""
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
        return None
    node.exchanges += count
    row.transfer_ns += transfer * count
    row.proxy_ns += (sent_ns - first.response_last_ns) * count
    if latency is None or queued is None:
        return None
    bucket = bisect_left(LATENCY_BOUNDS_NS, latency)
    row.latency_ns += latency * count
    row.queued_ns += queued * count
    row.latency_buckets[bucket] += count
    node.latency_ns += latency * count
    node.latency_buckets[bucket] += count
    return bucket


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
