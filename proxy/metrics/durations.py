"""Durations by bucket, from tens of microseconds to a second: what the proxy adds, how late its event loop is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from proxy.metrics.table import PROXY_BOUNDS_NS


def empty_buckets(bounds: Sequence[int]) -> list[int]:
    """Returns zeros: one for each bound, and one for values above all bounds."""
    return [0] * (len(bounds) + 1)


@dataclass(slots=True)
class Durations:
    """Counted durations: the sum in nanoseconds, and their number by bucket."""

    total_ns: int = 0
    buckets: list[int] = field(default_factory=partial(empty_buckets, PROXY_BOUNDS_NS))

    def add(self, ns: int) -> None:
        """Counts a duration in nanoseconds."""
        self.total_ns += ns
        self.buckets[bisect_left(PROXY_BOUNDS_NS, ns)] += 1
