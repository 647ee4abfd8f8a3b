"""Many durations in little memory: counts in bins that are wider for longer durations, as in HdrHistogram.

Each power of two is divided into `PARTS` equal bins, so a quantile is at most 1/PARTS above the true one. A report
keeps the bins and the longest duration, no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

# 3 %: two runs of one replay differ by more
PARTS = 32
# the percentiles in a report
PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_BITS = PARTS.bit_length()


class Durations:
    """Durations, counted in bins.

    `bins`: the least nanoseconds of a bin -> its number of durations. `most_ns`: the longest duration.

    Errors: ValueError for bins that no durations have.
    """

    __slots__ = ("bins", "most_ns")

    def __init__(self, bins: Mapping[int, int] | None = None, most_ns: int = 0) -> None:
        self.bins = Counter(bins or {})
        self.most_ns = most_ns
        if any(least < 0 or _least(least) != least or number < 1 for least, number in self.bins.items()):
            raise ValueError("these are no bins of durations")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Durations) and (self.bins, self.most_ns) == (other.bins, other.most_ns)

    def __repr__(self) -> str:
        return f"Durations({dict(self.in_order())}, {self.most_ns})"

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, duration_ns: int) -> None:
        """Counts a duration. A negative one, between the clocks of two threads, counts as 0."""
        if duration_ns <= 0:
            duration_ns = least = 0
        else:
            # as `_least`, which a call would double the time of
            shift = duration_ns.bit_length() - _BITS
            least = duration_ns >> shift << shift if shift > 0 else duration_ns
        self.bins[least] = self.bins.get(least, 0) + 1
        if duration_ns > self.most_ns:
            self.most_ns = duration_ns

    @property
    def count(self) -> int:
        """The number of durations."""
        return self.bins.total()

    def quantile(self, share: float) -> int | None:
        """The nanoseconds that this share of all durations does not exceed; None if there are none."""
        seen, wanted = 0, share * self.count
        for least, number in self.in_order():
            seen += number
            if seen >= wanted:
                return min(least + _width(least) - 1, self.most_ns)
        return None

    def in_order(self) -> Iterator[tuple[int, int]]:
        """The bins by length: least nanoseconds and count."""
        yield from sorted(self.bins.items())


def _least(duration_ns: int) -> int:
    shift = duration_ns.bit_length() - _BITS
    return duration_ns >> shift << shift if shift > 0 else duration_ns


def _width(duration_ns: int) -> int:
    return 1 << max(duration_ns.bit_length() - _BITS, 0)
