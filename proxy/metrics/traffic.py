"""The traffic as numbers: what the event loop counts, at about a microsecond an exchange.

prometheus-client's `labels().inc()` costs several microseconds, so the numbers are plain attributes and lists, one row
per (api, version), and `collector.py` hands them over when somebody scrapes. The scrape runs in another thread: it only
reads, and copies each list in one step of the interpreter, so a histogram's count always equals its buckets; a sum may
be one exchange ahead of it.

Error codes stand in bodies, which the proxy does not decode: they are the analysis' work.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from proxy.conversation.exchange import Cause, Direction, Exchange, OpaqueReason, timings
from proxy.metrics.table import DIALECT_07, LATENCY_BOUNDS_NS, OTHER, PROXY_BOUNDS_NS


class Row:
    """The numbers of one (api, version). Times are nanoseconds, sizes bytes without the length prefix."""

    __slots__ = (
        "by_proxy",
        "exchanges",
        "latency_buckets",
        "latency_ns",
        "one_way",
        "proxy_ns",
        "queued_ns",
        "request_bytes",
        "response_bytes",
        "transfer_ns",
        "unanswered",
    )

    def __init__(self) -> None:
        self.exchanges = self.request_bytes = self.response_bytes = 0
        self.latency_ns = self.queued_ns = self.transfer_ns = self.proxy_ns = 0
        self.one_way = self.unanswered = self.by_proxy = 0
        self.latency_buckets = [0] * (len(LATENCY_BOUNDS_NS) + 1)


class ProxyTime:
    """What the proxy added in one direction: chunks by bucket, and the sum in nanoseconds."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.total_ns = 0
        self.buckets = [0] * (len(PROXY_BOUNDS_NS) + 1)


class Traffic:
    """Counts what the proxy forwards. Methods belong to the event loop's thread; any thread may read the attributes."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        self.proxy_time = tuple(ProxyTime() for _ in Direction)
        self.opaque_frames = dict.fromkeys(OpaqueReason, 0)
        self.closes = dict.fromkeys(Cause, 0)
        self.connections_opened = 0
        self._row_of_word: dict[int, Row] = {}

    def finished(self, exchanges: Iterable[Exchange], sent_ns: int) -> None:
        """Count exchanges whose response is complete and has left the proxy.

        Args:
            exchanges: those of one step.
            sent_ns: `time.monotonic_ns()` after the last byte was sent.
        """
        # A burst's exchanges came in one chunk and were answered in one: they differ in nothing but their sizes, and
        # cost a tenth when counted together. Compared by identity, which is fastest, as all that a chunk completes
        # holds the very same time object; where equal times are two objects it costs time, never a wrong number.
        like: Exchange | None = None
        count = request_bytes = response_bytes = 0
        for exchange in exchanges:
            if like is None or not (
                exchange.response_last_ns is like.response_last_ns
                and exchange.previous_last_ns is like.previous_last_ns
                and exchange.request_last_ns is like.request_last_ns
                and exchange.response_first_ns is like.response_first_ns
                and exchange.route is like.route
                and exchange.made is like.made
            ):
                if like is not None:
                    self._add(like, count, request_bytes, response_bytes, sent_ns)
                like = exchange
                count = request_bytes = response_bytes = 0
            count += 1
            request_bytes += exchange.request_size
            response_bytes += exchange.response_size
        if like is not None:
            self._add(like, count, request_bytes, response_bytes, sent_ns)

    def _add(self, like: Exchange, count: int, request_bytes: int, response_bytes: int, sent_ns: int) -> None:
        """Count `count` exchanges that differ in nothing but their sizes."""
        row = self._row(like)
        row.exchanges += count
        row.request_bytes += request_bytes
        row.response_bytes += response_bytes
        latency, queued, transfer = timings(like)
        if transfer is None:
            row.by_proxy += count
            return
        row.transfer_ns += transfer * count
        row.proxy_ns += (sent_ns - like.response_last_ns) * count
        if latency is not None and queued is not None:
            row.latency_ns += latency * count
            row.queued_ns += queued * count
            row.latency_buckets[bisect_left(LATENCY_BOUNDS_NS, latency)] += count

    def one_way(self, exchanges: Iterable[Exchange]) -> None:
        """Count complete requests that no response will follow."""
        for exchange in exchanges:
            row = self._row(exchange)
            row.one_way += 1
            row.request_bytes += exchange.request_size

    def unanswered(self, exchanges: Iterable[Exchange]) -> None:
        """Count requests that were still waiting when their connection ended, or were passed over."""
        for exchange in exchanges:
            self._row(exchange).unanswered += 1

    def opaque(self, reasons: Iterable[OpaqueReason]) -> None:
        """Count frames that were passed on without being understood."""
        for reason in reasons:
            self.opaque_frames[reason] += 1

    def opened(self) -> None:
        """Count a client's connection."""
        self.connections_opened += 1

    def closed(self, cause: Cause, unanswered: Iterable[Exchange] = ()) -> None:
        """Count the end of a connection, and the exchanges that were still in flight on it."""
        self.closes[cause] += 1
        self.unanswered(unanswered)

    def proxied(self, direction: Direction, ns: int) -> None:
        """Count a chunk that took `ns` nanoseconds from its last byte read to its last byte sent."""
        time = self.proxy_time[direction]
        time.total_ns += ns
        time.buckets[bisect_left(PROXY_BOUNDS_NS, ns)] += 1

    def _row(self, exchange: Exchange) -> Row:
        route = exchange.route
        row = self._row_of_word.get(route.word)
        if row is not None:
            return row
        version = DIALECT_07 if route.api_version is None else str(route.api_version)
        labels = (route.api or OTHER, version if route.known else OTHER)
        row = self.rows.setdefault(labels, Row())
        # only what the catalog knows is remembered: a peer can send any of 2**32 words
        if route.known:
            self._row_of_word[route.word] = row
        return row
