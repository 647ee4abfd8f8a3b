"""Everything that was said about how to run: read, checked, and completed with what follows from it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.config import BadSetting, ClusterSettings, LogSettings, ProxySettings, default_state_file
from proxy.settings import wording
from proxy.settings.keys import Place
from proxy.settings.reader import Effective, Reader
from proxy.settings.sources import CAPTURE, CLUSTERS, Source, environment_source, file_source, flag_source
from proxy.tls.settings import ListenerTls, UpstreamTls
from proxy.wire.dialects import Dialect

if TYPE_CHECKING:
    from recorder.capture.session import CaptureSettings

LOG, TLS, UPSTREAM = "log", "tls", "upstream"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is in effect.

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

    def retold(self, error: BadSetting) -> list[str]:
        """The lines of an error that turned up later, in the words of where its settings were given."""
        cluster = error.cluster or self.proxy.clusters[0].name
        return [wording.retold(line, cluster, in_file=self.file is not None) for line in error.lines]


def load(
    file: Path | None = None, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] = os.environ
) -> Loaded:
    """Reads all sources: flags win over the environment, that over the file, that over defaults.

    Args:
        flags: by their names in `sources.FLAGS`; None and () are flags that were not given.

    Raises:
        BadSetting: with a line for everything that is wrong.
    """
    source = file_source(file) if file is not None else Source()
    source = environment_source(environment, source.clusters()).over(source)
    if flags is not None:
        source = flag_source(flags, source).over(source)
    reader = Reader(source, in_file=file is not None)
    values = reader.values(ProxySettings)
    log = reader.section(LogSettings, (LOG,))
    clusters = [_cluster(reader, source, name) for name in source.clusters()]
    capture = _capture(reader, source)
    reader.finish([(CAPTURE,), (CLUSTERS,), *_tls_tables(source)])
    folder = capture.folder if capture is not None else None
    found = tuple(_with_state(cluster, folder, environment) for cluster in clusters if cluster is not None)
    reader.wrong += _wrong_selection(source, capture)
    if reader.wrong:
        # what is right so far may still be wrong together
        _ = found and reader.made(ProxySettings, {"clusters": found})
        raise BadSetting(*reader.wrong)
    made = reader.made(ProxySettings, values | {"log": log, "clusters": found})
    if made is None:
        raise BadSetting(*reader.wrong)
    return Loaded(made, capture, _completed(reader.effective, made), file)


def _cluster(reader: Reader, source: Source, name: str) -> ClusterSettings | None:
    """A cluster's settings, with TLS on the sides of which something is said."""
    listener, upstream = None, None
    wrong = len(reader.wrong)
    if _is_said(source, (CLUSTERS, name, TLS), but=UPSTREAM):
        listener = reader.section(ListenerTls, (CLUSTERS, name, TLS))
    if _is_said(source, (CLUSTERS, name, TLS, UPSTREAM)):
        upstream = reader.section(UpstreamTls, (CLUSTERS, name, TLS, UPSTREAM))
    both = {"tls": listener, "upstream_tls": upstream if upstream is not None and upstream.on else None}
    made: ClusterSettings | None = reader.section(ClusterSettings, (CLUSTERS, name), name=name, **both)
    return made if len(reader.wrong) == wrong else None


def _is_said(source: Source, section: Place, but: str = "") -> bool:
    """Whether anything is said of a section, besides of one of its tables; that it stands there is enough."""
    size = len(section)
    below = (place[size:] for place in {*source.given, *source.tables} if place[:size] == section)
    said = [*below]
    return any(place[:1] != (but,) for place in said if place) or said == [()]


def _tls_tables(source: Source) -> Iterator[Place]:
    for name in source.clusters():
        yield from ((CLUSTERS, name, TLS), (CLUSTERS, name, TLS, UPSTREAM))


def _capture(reader: Reader, source: Source) -> CaptureSettings | None:
    """The recorder is imported only if something is to be recorded."""
    if all(place[0] != CAPTURE for place in {*source.given, *source.tables}):
        return None
    from recorder.capture.session import CaptureSettings

    made: CaptureSettings | None = reader.section(CaptureSettings, (CAPTURE,))
    return made


def _wrong_selection(source: Source, capture: CaptureSettings | None) -> Iterator[str]:
    """A line for each pattern that no cluster's name can match."""
    names = source.clusters()
    for pattern in (capture.clusters or ()) if capture is not None else ():
        if not any(fnmatchcase(name, pattern.removeprefix("!")) for name in names):
            right = f"{CAPTURE}.only.clusters = {wording.toml(names[:1])}"
            yield f"{CAPTURE}.only.clusters has {pattern!r}, which is no cluster of these; right would be {right}"


def _with_state(cluster: ClusterSettings, folder: Path | None, environment: Mapping[str, str]) -> ClusterSettings:
    if cluster.state is not None or cluster.dialect is Dialect.KAFKA_07:
        return cluster
    state = default_state_file(cluster.listen, folder, cluster.name, environment)
    return replace(cluster, state=state, state_is_default=True)


def _completed(effective: list[Effective], proxy: ProxySettings) -> tuple[Effective, ...]:
    """With the state files that were chosen."""
    states = {(CLUSTERS, cluster.name, "state"): cluster.state for cluster in proxy.clusters}
    return tuple(one._replace(value=states[one.place]) if one.place in states else one for one in effective)
