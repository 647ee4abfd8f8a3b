"""The counts of all workers together: of those that run, as they told them last, and of those that have ended.

Pages are made in threads, while workers begin and end in the event loop. So the numbers that make up the totals are one
value, which is replaced and never changed: a sum has each worker once, among the living or among the ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from proxy.metrics import sums
from proxy.metrics.traffic import Traffic
from proxy.net.workers.link import Link

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class _Parts(NamedTuple):
    """The numbers that are added. `traffic`, `recorder`: of the workers that have ended."""

    living: tuple[Link, ...] = ()
    traffic: Mapping[str, Traffic] = _NOTHING
    recorder: Mapping[str, float] = _NOTHING


class Totals:
    """Workers and their numbers. `add` and `bury` are for the event loop, all else for any thread."""

    def __init__(self) -> None:
        self._parts = _Parts()

    @property
    def living(self) -> tuple[Link, ...]:
        """The workers that have been started and have not ended."""
        return self._parts.living

    def add(self, link: Link) -> None:
        """A worker has been started."""
        self._parts = self._parts._replace(living=(*self._parts.living, link))

    def bury(self, link: Link) -> None:
        """A worker has ended. Its counts stay, but its connections are no longer open."""
        before = self._parts
        ended = {name: _sum(before.traffic.get(name), sums.cut_off(told)) for name, told in link.clusters.items()}
        self._parts = _Parts(
            tuple(one for one in before.living if one is not link),
            {**before.traffic, **ended},
            sums.recorded((), [before.recorder, link.recorder]),
        )

    def traffic(self, cluster: str) -> Traffic:
        """A cluster's traffic."""
        parts = self._parts
        told = [link.clusters[cluster] for link in parts.living if cluster in link.clusters]
        return _sum(parts.traffic.get(cluster), *told)

    def recorded(self) -> dict[str, float]:
        """The recorders' numbers; {} if none records."""
        parts = self._parts
        return sums.recorded([link.recorder for link in parts.living], [parts.recorder])


def _sum(traffic: Traffic | None, *told: sums.Told) -> Traffic:
    total = Traffic()
    for numbers in (sums.told(traffic or Traffic()), *told):
        sums.add(total, numbers)
    return total
