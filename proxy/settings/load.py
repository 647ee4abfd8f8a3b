"""Everything that was said about how to run: read, checked, and completed with what follows from it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.config import ClusterSettings, LogSettings, ProxySettings, default_state_file
from proxy.config.places import Demand, demand, wrong_demands
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.config.whole import wrong_names
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, KeyPath, Setting, line_of
from proxy.schema.flags import CAPTURE, CLUSTERS
from proxy.schema.kinds import shown
from proxy.settings.reader import Effective, Section, SettingsReader
from proxy.settings.sources import Source, environment_source, file_source, flag_source
from proxy.wire.dialects import Dialect

if TYPE_CHECKING:
    from recorder.capture.session import CaptureSettings

LOG, TLS, UPSTREAM = "log", "tls", "upstream"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in effect.

    Args:
        proxy: how to pass traffic on.
        capture: how to record; None: nothing is recorded.
        effective: every key with its value, in the order of the reference page.
        file: the file of settings, if there is one.
    """

    proxy: ProxySettings
    capture: CaptureSettings | None
    effective: tuple[Effective, ...]
    file: Path | None

    def lines_of(self, error: BadSetting) -> list[str]:
        """The lines of an error that turned up later, in the words of where its settings were given."""
        cluster = error.cluster or self.proxy.clusters[0].name
        return [line_of(fault, cluster, in_file=self.file is not None) for fault in error.faults]


class ClusterTls(NamedTuple):
    """A cluster's sides of TLS, as far as what is said of them is right."""

    name: str
    tls: ListenerTls | None
    upstream_tls: UpstreamTls | None


class Reading(NamedTuple):
    """The result of reading all sources.

    Args:
        wrong: a line for everything that is wrong, each once.
        loaded: None if anything is.
        cluster_tls: every cluster's settings of TLS; the files that they name have not been read.
    """

    wrong: Sequence[str]
    loaded: Loaded | None
    cluster_tls: Sequence[ClusterTls]


class _Sections(NamedTuple):
    """The sections read. `values`: at the top, by field. `sides`: each cluster's name, and TLS towards either side."""

    values: Mapping[str, Any]
    sides: Sequence[tuple[str, Section | None, Section | None]]
    clusters: Sequence[Section]
    capture: Section | None


def load(
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    again: bool = False,
) -> Loaded:
    """Reads all sources: flags win over the environment, that over the file, that over defaults.

    Args:
        flags: by their names in `flags.FLAGS`; None and () are flags that were not given.
        again: they were read at the start; see `read_file`.

    Raises:
        BadSetting: with a line for everything that is wrong.
    """
    reading = read(file, flags, environment, again=again)
    if reading.loaded is None:
        raise BadSetting(*reading.wrong)
    return reading.loaded


def read(
    file: Path | None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    again: bool = False,
) -> Reading:
    """As `load`, but returns the errors of settings, too. Raises BadSetting if the file can't be read."""
    source = file_source(file, again=again) if file is not None else Source()
    source = environment_source(environment, source.clusters).over(source)
    source = source if flags is None else flag_source(flags, source).over(source)
    reader = SettingsReader(source, in_file=file is not None)
    found = _sections(reader, source)
    cluster_tls = [ClusterTls(name, _spoken(listener), _spoken(upstream)) for name, listener, upstream in found.sides]
    if reader.wrong:
        # faults of several clusters together
        reader.report(*wrong_names(source.clusters), *wrong_demands(_demands(source.clusters, found.clusters)))
        return Reading(reader.wrong, None, cluster_tls)
    loaded = _loaded(reader, found, environment, file)
    return Reading(reader.wrong, loaded, cluster_tls)


def _sections(reader: SettingsReader, source: Source) -> _Sections:
    """All sections, read; the reader has an error line for each fault."""
    values = reader.values(ProxySettings)
    log = reader.section(LogSettings, (LOG,)).value
    sides = [_tls_sides(reader, source, name) for name in source.clusters]
    clusters = [_cluster(reader, *side) for side in sides]
    capture = _capture(reader, source)
    tls = [(CLUSTERS, name, TLS) for name in source.clusters]
    reader.finish([(CAPTURE,), (CLUSTERS,), *tls, *((*side, UPSTREAM) for side in tls)])
    reader.report(*_wrong_selection(source, capture.right if capture is not None else {}))
    return _Sections({**values, "log": log}, sides, clusters, capture)


def _loaded(
    reader: SettingsReader, found: _Sections, environment: Mapping[str, str], file: Path | None
) -> Loaded | None:
    """The settings in effect, if every section is right; None if the sections don't fit together."""
    capture: CaptureSettings | None = found.capture.value if found.capture is not None else None
    folder = capture.folder if capture is not None else None
    clusters = tuple(_with_state(one.value, folder, environment) for one in found.clusters if one.value is not None)
    proxy = reader.construct(ProxySettings, {**found.values, "clusters": clusters})
    return None if proxy is None else Loaded(proxy, capture, _completed(reader.effective, proxy), file)


def _tls_sides(reader: SettingsReader, source: Source, name: str) -> tuple[str, Section | None, Section | None]:
    """A cluster's name, and TLS on the sides of which something is said."""
    listener = upstream = None
    if _is_said(source, (CLUSTERS, name, TLS), but=UPSTREAM):
        listener = reader.section(ListenerTls, (CLUSTERS, name, TLS))
    if _is_said(source, (CLUSTERS, name, TLS, UPSTREAM)):
        upstream = reader.section(UpstreamTls, (CLUSTERS, name, TLS, UPSTREAM))
    return name, listener, upstream


def _cluster(reader: SettingsReader, name: str, listener: Section | None, upstream: Section | None) -> Section:
    """A cluster's settings."""
    parts = [side for side in (listener, upstream) if side is not None]
    tls, upstream_tls = (side.draft if side is not None else None for side in (listener, upstream))
    both = {"tls": tls, "upstream_tls": upstream_tls if upstream_tls is not None and upstream_tls.on else None}
    return reader.section(ClusterSettings, (CLUSTERS, name), *parts, name=name, **both)


def _spoken(side: Section | None) -> Any:
    """A side of TLS, if all is right and it is spoken."""
    settings = side.value if side is not None else None
    return settings if getattr(settings, "on", True) else None


def _is_said(source: Source, section: KeyPath, but: str = "") -> bool:
    """True if a source has the section, even an empty one, or anything in it outside of its table `but`."""
    names = source.names_in(section)
    return bool({*names} - {but}) or (not names and (section in source.tables or section in source.given))


def _capture(reader: SettingsReader, source: Source) -> Section | None:
    """The recorder is imported only if something is to be recorded."""
    if not _is_said(source, (CAPTURE,)):
        return None
    from recorder.capture.session import CaptureSettings

    return reader.section(CaptureSettings, (CAPTURE,))


def _wrong_selection(source: Source, capture: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for each pattern that no cluster's name can match."""
    names = source.clusters
    for pattern in capture.get("clusters") or ():
        if not any(fnmatchcase(name, pattern.removeprefix("!")) for name in names):
            key = f"{CAPTURE}.only.clusters"
            yield Fault(
                (Setting(key, of_cluster=False), f" has {shown(pattern)}, which is no cluster of these"),
                Setting(key, names[:1], of_cluster=False),
            )


def _demands(names: Sequence[str], clusters: Sequence[Section]) -> Iterator[Demand]:
    """The clusters' demands as far as known, also those of clusters with other faults."""
    for name, section in zip(names, clusters, strict=True):
        yield demand(name, section.right, {place[2] for place in section.wrong})


def _with_state(cluster: ClusterSettings, folder: Path | None, environment: Mapping[str, str]) -> ClusterSettings:
    if cluster.state is not None or cluster.dialect is Dialect.KAFKA_07:
        return cluster
    state = default_state_file(cluster.listen, folder, cluster.name, environment)
    return replace(cluster, state=state, state_is_default=True)


def _completed(effective: list[Effective], proxy: ProxySettings) -> tuple[Effective, ...]:
    """With the state files that were chosen."""
    states = {(CLUSTERS, cluster.name, "state"): cluster.state for cluster in proxy.clusters}
    return tuple(one._replace(value=states[one.place]) if one.place in states else one for one in effective)
