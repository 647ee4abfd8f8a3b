"""Decides which changed settings take effect while the proxy runs: those that break no connection.

Used by the command line at SIGHUP. All other changes wait for the next start. Changed keys of TLS apply to new
connections. TLS can't be switched on or off, because clients that know a port speak either TLS or plaintext to it.
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
from proxy.settings.load import TLS, UPSTREAM, LoadedSettings, loaded_settings
from proxy.settings.reader import EffectiveValue
from proxy.settings.sources import SourceKind

if TYPE_CHECKING:
    from recorder.capture.session import CaptureSettings

# keys that change at once
AT_ONCE = frozenset({("log", "level"), ("log", "format"), ("drain",)})
# keys of a cluster that change at once, below its name
CLUSTER_AT_ONCE = frozenset({("timeouts", "age")})
# what is recorded and how long it is kept changes at once: these keys of the capture, and all keys below them
CAPTURE_AT_ONCE = frozenset(
    {(CAPTURE, name) for name in ("only", "bodies", "records", "topics", "share", "shares", "seed", "keep")}
)
# those of them that wait where a rule hashes, or did: then the log would have to be encrypted from there on
RULES = frozenset({(CAPTURE, "records"), (CAPTURE, "topics")})
# a cluster's tables by node id: a new node in them takes effect at once
NODES, ADVERTISED = "nodes", "advertised"
# why a changed key waits for the next start, for keys of TLS, of clusters, of the capture, and all others
TLS_STAYS = "whether TLS is spoken can't change while the proxy runs; every other key of TLS can"
LISTENER_STAYS = "a listener and its connections go on as they began"
SESSION_STAYS = "a session is recorded to its end as it began"
READ_ONCE = "it is read once, at the start"


class ReloadOutcome(NamedTuple):
    """The settings in effect now, and the keys whose changes wait for the next start."""

    loaded: LoadedSettings
    waiting: tuple[KeyPath, ...]


def reloaded(current: LoadedSettings, new: LoadedSettings) -> ReloadOutcome:
    """The settings `current`, with those changes of `new` that take effect at once.

    Args:
        current: the settings in effect. They include the claimed state files, and the nodes' ports in these files.
        new: the settings that were read again. They include neither the files nor the ports.

    Raises:
        BadSetting: the changes don't fit settings that stay.
    """
    before = {entry.place: entry for entry in current.effective}
    after = {entry.place: entry for entry in new.effective}
    changed = [place for place in {**before, **after} if _has_changed(before.get(place), after.get(place))]
    sections, choices = _lasting_tls_sections(current, new), _choices(current, new)
    applied = {
        place for place in changed if _changes_at_once(place, before, after, choices) or _tls_section(place) in sections
    }
    new_clusters = {cluster.name: cluster for cluster in new.proxy.clusters}
    proxy = replace(
        current.proxy,
        log=new.proxy.log,
        drain_seconds=new.proxy.drain_seconds,
        clusters=tuple(
            replace(
                cluster,
                nodes={**cluster.nodes, **_added(NODES, cluster.name, applied, after)},
                advertised={**cluster.advertised, **_added(ADVERTISED, cluster.name, applied, after)},
                **_changed_tls(cluster, new_clusters, sections),
                **_changed_fields(cluster.name, applied, after),
            )
            for cluster in current.proxy.clusters
        ),
    )
    # an entry of a table may be gone
    kept = (entry for entry in current.effective if entry.place not in applied or entry.place in after)
    effective = [after[entry.place] if entry.place in applied else entry for entry in kept]
    effective += [after[place] for place in after if place in applied and place not in before]
    return ReloadOutcome(
        loaded_settings(proxy, _with_new_choices(current, new), tuple(effective), current.file),
        tuple(place for place in changed if place not in applied),
    )


def _with_new_choices(current: LoadedSettings, new: LoadedSettings) -> CaptureSettings | None:
    """The recorder's settings in effect, with the new choice of what is recorded and how long it is kept."""
    if current.capture is None or new.capture is None:
        return current.capture
    from recorder.capture.session import CaptureSettings

    choices = _choices(current, new)
    names = [field.name for place, field in keys_of(CaptureSettings).items() if (CAPTURE, *place)[:2] in choices]
    return replace(current.capture, **{name: getattr(new.capture, name) for name in names})


def _choices(current: LoadedSettings, new: LoadedSettings) -> frozenset[KeyPath]:
    """The keys and tables of the capture that change at once."""
    hashes = any(loaded.capture is not None and loaded.capture.hashed for loaded in (current, new))
    return CAPTURE_AT_ONCE - RULES if hashes else CAPTURE_AT_ONCE


def why_it_waits(place: KeyPath) -> str:
    """Why a key's change waits for the next start."""
    if _tls_section(place):
        return TLS_STAYS
    return {CLUSTERS: LISTENER_STAYS, CAPTURE: SESSION_STAYS}.get(str(place[0]), READ_ONCE)


def _tls_section(place: KeyPath) -> KeyPath:
    """The path of the TLS section that a key belongs to; () if it belongs to none."""
    if len(place) < 4 or place[0] != CLUSTERS or place[2] != TLS:
        return ()
    return place[:4] if place[3] == UPSTREAM else place[:3]


def _lasting_tls_sections(current: LoadedSettings, new: LoadedSettings) -> set[KeyPath]:
    """The paths of the TLS sections that both `current` and `new` have."""
    before, after = (
        {section for cluster in loaded.proxy.clusters for section in _configured_tls(cluster)}
        for loaded in (current, new)
    )
    return before & after


def _configured_tls(cluster: ClusterSettings) -> list[KeyPath]:
    place = (CLUSTERS, cluster.name, TLS)
    sections = ((cluster.tls, place), (cluster.upstream_tls, (*place, UPSTREAM)))
    return [section for settings, section in sections if settings is not None]


def _changed_tls(
    cluster: ClusterSettings, new_clusters: Mapping[str, ClusterSettings], sections: set[KeyPath]
) -> dict[str, Any]:
    """Field -> new value, for a cluster's fields that hold these TLS sections."""
    place = (CLUSTERS, cluster.name, TLS)
    changed: dict[str, Any] = {}
    if place in sections:
        changed["tls"] = new_clusters[cluster.name].tls
    if (*place, UPSTREAM) in sections:
        changed["upstream_tls"] = new_clusters[cluster.name].upstream_tls
    return changed


def _changed_fields(name: str, applied: set[KeyPath], after: Mapping[KeyPath, EffectiveValue]) -> dict[str, Any]:
    """Field -> new value, for a cluster's keys of CLUSTER_AT_ONCE that take effect at once."""
    fields = keys_of(ClusterSettings)
    places = {key: (CLUSTERS, name, *key) for key in CLUSTER_AT_ONCE}
    return {fields[key].name: after[place].value for key, place in places.items() if place in applied}


def _has_changed(before: EffectiveValue | None, after: EffectiveValue | None) -> bool:
    """True if the value has changed. A change from default to default does not count: it follows from another key."""
    entries = [entry for entry in (before, after) if entry is not None]
    values = [None if entry is None else entry.value for entry in (before, after)]
    return values[0] != values[1] and any(entry.source_kind is not SourceKind.DEFAULT for entry in entries)


def _changes_at_once(
    place: KeyPath,
    before: dict[KeyPath, EffectiveValue],
    after: dict[KeyPath, EffectiveValue],
    choices: frozenset[KeyPath],
) -> bool:
    if place[:2] in choices:
        # recording itself neither begins nor ends while the proxy runs
        return (CAPTURE, "folder") in before and (CAPTURE, "folder") in after
    # of a cluster that the proxy has before and after
    if place[0] == CLUSTERS and place[2:] in CLUSTER_AT_ONCE:
        return place in before and place in after
    is_node = len(place) == 4 and place[0] == CLUSTERS and place[2] in (NODES, ADVERTISED)
    # a new node of a cluster that the proxy already has
    return place in AT_ONCE or (is_node and place not in before and (*place[:2], "listen") in before)


def _added(table: str, cluster: str, applied: set[KeyPath], after: dict[KeyPath, EffectiveValue]) -> dict[int, Address]:
    """Node id -> address, for the entries of a cluster's table that take effect at once."""
    return {int(place[3]): after[place].value for place in applied if place[:3] == (CLUSTERS, cluster, table)}
