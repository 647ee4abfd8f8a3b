"""The sums of all workers' counts, of the living and of the ended, for the parent's admin page.

The page is made in threads, while the event loop adds and removes workers. So one `_Snapshot` lists the living workers
and the counts of ended workers; it is replaced, never changed. Each sum thus counts a worker once: as living or ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from proxy.metrics import sums
from proxy.metrics.collector import ClusterState, HeldState
from proxy.metrics.durations import Durations
from proxy.metrics.traffic import Traffic
from proxy.net.workers.worker_handle import WorkerHandle

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class _Snapshot(NamedTuple):
    """Living workers, and the counts of ended workers: `traffic` (by cluster), `recorder`, `loop_delay`."""

    living: tuple[WorkerHandle, ...] = ()
    traffic: Mapping[str, Traffic] = _NOTHING
    recorder: Mapping[str, float] = _NOTHING
    loop_delay: Durations = Durations()


class Totals:
    """Workers and their counts. Only the event loop calls `add` and `remove`; any thread may call the rest."""

    def __init__(self) -> None:
        self._snapshot = _Snapshot()

    @property
    def living(self) -> tuple[WorkerHandle, ...]:
        """The workers that have been started and have not ended."""
        return self._snapshot.living

    def add(self, worker: WorkerHandle) -> None:
        """Adds a worker that has been started."""
        self._snapshot = self._snapshot._replace(living=(*self._snapshot.living, worker))

    def remove(self, worker: WorkerHandle) -> None:
        """Removes a worker that has ended. Its counts stay; its open connections count as closed by a fault."""
        before = self._snapshot
        ended = {name: _sum(before.traffic.get(name), sums.cut_off(counts)) for name, counts in worker.clusters.items()}
        self._snapshot = _Snapshot(
            tuple(other for other in before.living if other is not worker),
            {**before.traffic, **ended},
            sums.recorded((), [before.recorder, worker.recorder]),
            _durations(before.loop_delay, [worker.loop_delay]),
        )

    def traffic(self, cluster: str, is_served: Callable[[int], bool]) -> Traffic:
        """The traffic of a cluster, in all workers. `is_served`: False for the nodes that are forgotten."""
        snapshot = self._snapshot
        counts = [worker.clusters[cluster] for worker in snapshot.living if cluster in worker.clusters]
        traffic = _sum(snapshot.traffic.get(cluster), *counts)
        # an ended worker's counts may have nodes that were forgotten later
        traffic.forget_nodes(is_served)
        return traffic

    def state(self, cluster: str) -> ClusterState:
        """What all workers have of a cluster."""
        return sums.joined_state(worker.states[cluster] for worker in self.living if cluster in worker.states)

    def held(self) -> HeldState:
        """What all workers hold of large responses."""
        return sums.joined_held(worker.held for worker in self.living)

    def loop_delay(self) -> Durations:
        """How late the workers' event loops were."""
        snapshot = self._snapshot
        return _durations(snapshot.loop_delay, [worker.loop_delay for worker in snapshot.living])

    def connections(self) -> dict[tuple[str, int], int]:
        """The open connections of each living worker: (cluster, the worker's number) -> how many."""
        return {
            (name, worker.number): sums.open_connections(counts)
            for worker in self.living
            for name, counts in worker.clusters.items()
        }

    def recorded(self) -> dict[str, float]:
        """The sums of the recorders' counters; {} if nothing is recorded."""
        snapshot = self._snapshot
        return sums.recorded([worker.recorder for worker in snapshot.living], [snapshot.recorder])


def _sum(traffic: Traffic | None, *counts: sums.Numbers) -> Traffic:
    total = Traffic()
    for numbers in (sums.as_json(traffic or Traffic()), *counts):
        sums.add(total, numbers)
    return total


def _durations(ended: Durations, living: Iterable[list[Any]]) -> Durations:
    total = Durations()
    for numbers in (sums.durations_as_json(ended), *living):
        sums.add_durations(total, numbers)
    return total
