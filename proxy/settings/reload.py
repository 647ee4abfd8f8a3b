"""Settings that change while the proxy runs: those that cut no connection. The others wait for the next start.

What TLS is made of changes for new connections. Whether there is TLS can't change: the same port would be another one
for the clients that know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.config import ClusterSettings
from proxy.schema.addresses import Address
from proxy.schema.faults import KeyPath
from proxy.schema.flags import CAPTURE, CLUSTERS
from proxy.schema.keys import keys_of
from proxy.settings.load import TLS, UPSTREAM, Loaded
from proxy.settings.reader import Effective
from proxy.settings.sources import From

if TYPE_CHECKING:
    from recorder.capture.session import CaptureSettings

AT_ONCE = frozenset({("log", "level"), ("log", "format"), ("drain",)})
# the selection of recorded traffic: likewise, if anything is recorded; all keys below the first of these
ONLY, BODIES = (CAPTURE, "only"), (CAPTURE, "bodies")
# tables by node id, which may grow
NODES, ADVERTISED = "nodes", "advertised"
# said of keys that wait: of TLS, of clusters, of what is recorded, of all others
TLS_STAYS = "whether TLS is spoken can't change while the proxy runs; every other key of TLS can"
LISTENER_STAYS = "a listener and its connections go on as they began"
SESSION_STAYS = "a session is recorded to its end as it began"
READ_ONCE = "it is read once, at the start"


class Reloaded(NamedTuple):
    """The settings in effect now, and the keys whose change needs a restart."""

    loaded: Loaded
    waiting: tuple[KeyPath, ...]


def reloaded(now: Loaded, new: Loaded) -> Reloaded:
    """What of `new` can be had at once: how is logged and drained, what is said of nodes of which nothing was, and
    what TLS is made of.

    Args:
        now: with the state files that the clusters have, and the ports that stand in these: they stay.

    Raises:
        BadSetting: that does not fit to what stays.
    """
    before = {one.place: one for one in now.effective}
    after = {one.place: one for one in new.effective}
    changed = [place for place in {**before, **after} if _has_changed(before.get(place), after.get(place))]
    sides = _tls_sides(now, new)
    taken = {place for place in changed if _is_had_at_once(place, before, after) or _tls_side(place) in sides}
    others = {cluster.name: cluster for cluster in new.proxy.clusters}
    proxy = replace(
        now.proxy,
        log=new.proxy.log,
        drain_seconds=new.proxy.drain_seconds,
        clusters=tuple(
            replace(
                cluster,
                nodes={**cluster.nodes, **_added(NODES, cluster.name, taken, after)},
                advertised={**cluster.advertised, **_added(ADVERTISED, cluster.name, taken, after)},
                **_changed_tls(cluster, others, sides),
            )
            for cluster in now.proxy.clusters
        ),
    )
    effective = [*(after[one.place] if one.place in taken else one for one in now.effective)]
    effective += [after[place] for place in taken if place not in before]
    return Reloaded(
        Loaded(proxy, _selected(now, new), tuple(effective), now.file),
        tuple(place for place in changed if place not in taken),
    )


def _selected(now: Loaded, new: Loaded) -> CaptureSettings | None:
    """The recorder's settings, with the new selection of traffic."""
    if now.capture is None or new.capture is None:
        return now.capture
    from recorder.capture.session import CaptureSettings

    names = [known.field for place, known in keys_of(CaptureSettings).items() if _is_of_selection((CAPTURE, *place))]
    return replace(now.capture, **{name: getattr(new.capture, name) for name in names})


def _is_of_selection(place: KeyPath) -> bool:
    return place[:2] == ONLY or place == BODIES


def why_it_waits(place: KeyPath) -> str:
    """Why a key waits for the next start."""
    if _tls_side(place):
        return TLS_STAYS
    return {CLUSTERS: LISTENER_STAYS, CAPTURE: SESSION_STAYS}.get(str(place[0]), READ_ONCE)


def _tls_side(place: KeyPath) -> KeyPath:
    """The section of TLS that a key stands in; () if it doesn't."""
    if len(place) < 4 or place[0] != CLUSTERS or place[2] != TLS:
        return ()
    return place[:4] if place[3] == UPSTREAM else place[:3]


def _tls_sides(now: Loaded, new: Loaded) -> set[KeyPath]:
    """The sections that were there before and still are."""
    before, after = ({side for one in loaded.proxy.clusters for side in _spoken(one)} for loaded in (now, new))
    return before & after


def _spoken(cluster: ClusterSettings) -> list[KeyPath]:
    place = (CLUSTERS, cluster.name, TLS)
    sides = ((cluster.tls, place), (cluster.upstream_tls, (*place, UPSTREAM)))
    return [side for settings, side in sides if settings is not None]


def _changed_tls(
    cluster: ClusterSettings, others: Mapping[str, ClusterSettings], sides: set[KeyPath]
) -> dict[str, Any]:
    place = (CLUSTERS, cluster.name, TLS)
    changed: dict[str, Any] = {}
    if place in sides:
        changed["tls"] = others[cluster.name].tls
    if (*place, UPSTREAM) in sides:
        changed["upstream_tls"] = others[cluster.name].upstream_tls
    return changed


def _has_changed(before: Effective | None, after: Effective | None) -> bool:
    """True if a source changed the key: a default changes only with other keys."""
    both = [one for one in (before, after) if one is not None]
    values = [None if one is None else one.value for one in (before, after)]
    return values[0] != values[1] and any(one.by is not From.DEFAULT for one in both)


def _is_had_at_once(place: KeyPath, before: dict[KeyPath, Effective], after: dict[KeyPath, Effective]) -> bool:
    if _is_of_selection(place):
        return (CAPTURE, "folder") in before and (CAPTURE, "folder") in after
    is_node = len(place) == 4 and place[0] == CLUSTERS and place[2] in (NODES, ADVERTISED)
    # a node that is new, of a cluster that isn't
    return place in AT_ONCE or (is_node and place not in before and (*place[:2], "listen") in before)


def _added(table: str, cluster: str, taken: set[KeyPath], after: dict[KeyPath, Effective]) -> dict[int, Address]:
    return {int(place[3]): after[place].value for place in taken if place[:3] == (CLUSTERS, cluster, table)}
