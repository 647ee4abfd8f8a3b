"""Throughput and latency of the last hour, second by second; a chart asks for wider steps.

A latency is counted in a bucket that is 1/8 of an octave wide, so percentiles are right to 9 %. Long polls that may
have waited on purpose have no part in them: their latency says nothing of the broker's speed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import ceil, log2
from typing import Any, NamedTuple

from proxy.wire.normal_errors import is_normal
from recorder.capture import frames as c
from recorder.reading.exchanges import Pair

_SECOND = 10**9
# seconds that are kept
KEPT_SECONDS = 3600
_BUCKETS_PER_OCTAVE = 8


class Second:
    """The sums of the exchanges that ended within a second. `latencies`: exchanges by the bucket of their latency."""

    __slots__ = ("errors", "exchanges", "latencies", "received", "sent")

    def __init__(self) -> None:
        self.exchanges = self.errors = self.sent = self.received = 0
        self.latencies: Counter[int] = Counter()


class Step(NamedTuple):
    """A step of a chart: rates a second, latencies in ms; None: nothing was answered.

    Attributes:
        at_ms: when it begins, in ms since 1970.
    """

    at_ms: int
    exchanges: float
    errors: float
    sent: float
    received: float
    p50_ms: float | None
    p99_ms: float | None


class Series:
    """The sums of the last KEPT_SECONDS seconds before the newest exchange.

    Attributes:
        last_ns: when the newest exchange ended, in ns since 1970; 0: there was none.
    """

    def __init__(self) -> None:
        self.last_ns = 0
        # by its number since 1970; the oldest first, but for what came late
        self._seconds: dict[int, Second] = {}

    def add(self, pair: Pair, head: Mapping[str, Any]) -> None:
        """Counts an exchange at the moment of its end. `head`: as of `Judge.head`."""
        ended_ns = (pair.response or pair.head)[c.AT_NS]
        at = ended_ns // _SECOND
        self.last_ns = max(self.last_ns, ended_ns)
        oldest = self.last_ns // _SECOND - KEPT_SECONDS
        if at <= oldest:
            return
        second = self._seconds.get(at)
        if second is None:
            second = self._seconds[at] = Second()
            while (first := next(iter(self._seconds))) <= oldest:
                del self._seconds[first]
        second.exchanges += 1
        second.errors += has_fault(pair, head)
        second.sent += head["sent"] or 0
        second.received += head["received"] or 0
        latency = head.get("latency")
        wait = pair.reading.wait if pair.reading else None
        if latency is not None and (wait is None or wait.is_work):
            second.latencies[_bucket(latency)] += 1

    def steps(self, seconds: int, most: int, until_ns: int) -> Iterator[Step]:
        """The last `seconds` before a moment, as `most` steps at most of equal length, the oldest first."""
        width = max(ceil(seconds / most), 1)
        end = until_ns // _SECOND // width * width + width
        for begin in range(end - width * ceil(seconds / width), end, width):
            yield _step(begin, width, [self._seconds.get(at) for at in range(begin, begin + width)])


def has_fault(pair: Pair, head: Mapping[str, Any]) -> bool:
    """True if the response holds an error that is no normal step of the protocol."""
    return pair.reading is not None and any(not is_normal(head["api_key"], code) for code in pair.reading.codes)


def _bucket(latency_ns: int) -> int:
    return int(log2(max(latency_ns, 1)) * _BUCKETS_PER_OCTAVE)


def _step(begin: int, width: int, seconds: list[Second | None]) -> Step:
    found = [one for one in seconds if one is not None]
    latencies: Counter[int] = Counter()
    for one in found:
        # a copy, made in one step: the feed may count on meanwhile
        latencies.update(dict(one.latencies))
    return Step(
        begin * 1000,
        sum(one.exchanges for one in found) / width,
        sum(one.errors for one in found) / width,
        sum(one.sent for one in found) / width,
        sum(one.received for one in found) / width,
        _percentile(latencies, 50),
        _percentile(latencies, 99),
    )


def _percentile(latencies: Counter[int], share: int) -> float | None:
    """In ms, by nearest rank: the middle of the rank's bucket."""
    rank = -(-latencies.total() * share // 100)
    for bucket in sorted(latencies):
        rank -= latencies[bucket]
        if rank <= 0:
            return float(2 ** ((bucket + 0.5) / _BUCKETS_PER_OCTAVE) / 1e6)
    return None
