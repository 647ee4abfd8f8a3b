"""Many durations in little memory: counts in bins whose width grows with the duration, as HdrHistogram does it.

A power of two is parted into `PARTS` bins of one width, so a quantile is at most 1/PARTS above the true one. Two
`Durations` with equal bins and maximum are equal: a report keeps no more than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

# 3 % is less than what two runs of one replay differ by.
PARTS = 32
_BITS = PARTS.bit_length()


@dataclass(slots=True)
class Durations:
    """`bins`: the least nanoseconds of a bin -> how many durations are in it; `most_ns`: the longest of all."""

    bins: Counter[int] = field(default_factory=Counter)
    most_ns: int = 0

    def add(self, duration_ns: int) -> None:
        """Counts one; a negative duration (the clocks of two threads) counts as none."""
        duration_ns = max(duration_ns, 0)
        self.bins[_least(duration_ns)] += 1
        self.most_ns = max(self.most_ns, duration_ns)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.bins.total()

    def quantile(self, share: float) -> int | None:
        """Nanoseconds that so large a share of all does not exceed; None if there are none."""
        seen, wanted = 0, share * self.count
        for least, number in self.in_order():
            seen += number
            if seen >= wanted:
                return min(least + _width(least) - 1, self.most_ns)
        return None

    def in_order(self) -> Iterator[tuple[int, int]]:
        """The bins, the shortest first: least nanoseconds and count."""
        yield from sorted(self.bins.items())


def durations(each_ns: Iterable[int]) -> Durations:
    """Durations of all of these."""
    made = Durations()
    for one in each_ns:
        made.add(one)
    return made


def of_bins(bins: Mapping[int, int], most_ns: int) -> Durations:
    """Durations as a report keeps them. Errors: ValueError for what no `Durations` holds."""
    if (
        any(_least(least) != least or count < 1 for least, count in bins.items() if least >= 0)
        or min(bins, default=0) < 0
    ):
        raise ValueError("these are no bins of durations")
    return Durations(Counter(bins), most_ns)


def _least(duration_ns: int) -> int:
    return duration_ns - duration_ns % _width(duration_ns)


def _width(duration_ns: int) -> int:
    return 1 << max(duration_ns.bit_length() - _BITS, 0)
