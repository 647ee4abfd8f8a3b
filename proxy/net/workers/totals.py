"""The counts of all workers together: the last ones of the workers that run, and those of the workers that have ended.

Pages are made in threads, while workers begin and end in the event loop. So the parts of the totals are one value that
is replaced and never changed: each sum counts a worker once, as living or as ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from proxy.metrics import sums
from proxy.metrics.traffic import Traffic
from proxy.net.workers.worker_handle import WorkerHandle

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class _Parts(NamedTuple):
    """The parts of the totals. `traffic`, `recorder`: the counts of the workers that have ended."""

    living: tuple[WorkerHandle, ...] = ()
    traffic: Mapping[str, Traffic] = _NOTHING
    recorder: Mapping[str, float] = _NOTHING


class Totals:
    """Workers and their counts. `add` and `remove` are for the event loop, all else for any thread."""

    def __init__(self) -> None:
        self._parts = _Parts()

    @property
    def living(self) -> tuple[WorkerHandle, ...]:
        """The workers that have been started and have not ended."""
        return self._parts.living

    def add(self, worker: WorkerHandle) -> None:
        """A worker has been started."""
        self._parts = self._parts._replace(living=(*self._parts.living, worker))

    def remove(self, worker: WorkerHandle) -> None:
        """A worker has ended. Its counts stay, but its connections are no longer open."""
        before = self._parts
        ended = {name: _sum(before.traffic.get(name), sums.cut_off(counts)) for name, counts in worker.clusters.items()}
        self._parts = _Parts(
            tuple(one for one in before.living if one is not worker),
            {**before.traffic, **ended},
            sums.recorded((), [before.recorder, worker.recorder]),
        )

    def traffic(self, cluster: str) -> Traffic:
        """A cluster's traffic."""
        parts = self._parts
        counts = [worker.clusters[cluster] for worker in parts.living if cluster in worker.clusters]
        return _sum(parts.traffic.get(cluster), *counts)

    def recorded(self) -> dict[str, float]:
        """The recorders' numbers; {} if none records."""
        parts = self._parts
        return sums.recorded([worker.recorder for worker in parts.living], [parts.recorder])


def _sum(traffic: Traffic | None, *counts: sums.Numbers) -> Traffic:
    total = Traffic()
    for numbers in (sums.as_json(traffic or Traffic()), *counts):
        sums.add(total, numbers)
    return total
