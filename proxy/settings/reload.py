"""Settings that change while the proxy runs: those that cut no connection. The others wait for the next start."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from proxy.rewrite.nodes import Address
from proxy.settings.keys import Place
from proxy.settings.load import Loaded
from proxy.settings.reader import Effective
from proxy.settings.sources import CLUSTERS, From

AT_ONCE = frozenset({("log", "level"), ("log", "format"), ("drain",)})
# tables by node id, which may grow
NODES, ADVERTISED = "nodes", "advertised"


class Reloaded(NamedTuple):
    """What is in effect now, and the keys whose change has to wait."""

    loaded: Loaded
    waiting: tuple[Place, ...]


def reloaded(now: Loaded, new: Loaded) -> Reloaded:
    """What of `new` can be had at once: how is logged and drained, and what is said of nodes of which nothing was.

    Raises:
        BadSetting: that does not fit to what stays.
    """
    before = {one.place: one for one in now.effective}
    after = {one.place: one for one in new.effective}
    changed = [place for place in {**before, **after} if _has_changed(before.get(place), after.get(place))]
    taken = {place for place in changed if _is_had_at_once(place, before)}
    proxy = replace(
        now.proxy,
        log=new.proxy.log,
        drain_seconds=new.proxy.drain_seconds,
        clusters=tuple(
            replace(
                cluster,
                nodes={**cluster.nodes, **_added(NODES, cluster.name, taken, after)},
                advertised={**cluster.advertised, **_added(ADVERTISED, cluster.name, taken, after)},
            )
            for cluster in now.proxy.clusters
        ),
    )
    effective = [*(after[one.place] if one.place in taken else one for one in now.effective)]
    effective += [after[place] for place in taken if place not in before]
    return Reloaded(
        Loaded(proxy, now.capture, tuple(effective), now.file), tuple(place for place in changed if place not in taken)
    )


def _has_changed(before: Effective | None, after: Effective | None) -> bool:
    """Whether somebody has changed it: defaults follow from other keys, which are changed themselves then."""
    both = [one for one in (before, after) if one is not None]
    values = [None if one is None else one.value for one in (before, after)]
    return values[0] != values[1] and any(one.by is not From.DEFAULT for one in both)


def _is_had_at_once(place: Place, before: dict[Place, Effective]) -> bool:
    return place in AT_ONCE or (_is_node(place) and place not in before and _is_running(place[1], before))


def _is_node(place: Place) -> bool:
    return len(place) == 4 and place[0] == CLUSTERS and place[2] in (NODES, ADVERTISED)


def _is_running(cluster: str, before: dict[Place, Effective]) -> bool:
    return (CLUSTERS, cluster, "listen") in before


def _added(table: str, cluster: str, taken: set[Place], after: dict[Place, Effective]) -> dict[int, Address]:
    return {int(place[3]): after[place].value for place in taken if place[:3] == (CLUSTERS, cluster, table)}
