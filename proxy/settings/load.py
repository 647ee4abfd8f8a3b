"""Everything that was said about how to run: read, checked, and completed with what follows from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.config import BadSetting, ClusterSettings, LogSettings, ProxySettings, default_state_file
from proxy.settings import wording
from proxy.settings.reader import Effective, Reader
from proxy.settings.sources import CAPTURE, CLUSTERS, Source, environment_source, file_source, flag_source

if TYPE_CHECKING:
    from recorder.capture.session import CaptureSettings

LOG = "log"


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
    clusters = [reader.section(ClusterSettings, (CLUSTERS, name), name=name) for name in source.clusters()]
    capture = _capture(reader, source)
    reader.finish([(CAPTURE,), (CLUSTERS,)])
    folder = capture.folder if capture is not None else None
    found = tuple(_with_state(cluster, folder, environment) for cluster in clusters if cluster is not None)
    if reader.wrong:
        # what is right so far may still be wrong together
        _ = found and reader.made(ProxySettings, {"clusters": found})
        raise BadSetting(*reader.wrong)
    made = reader.made(ProxySettings, values | {"log": log, "clusters": found})
    if made is None:
        raise BadSetting(*reader.wrong)
    return Loaded(made, capture, _completed(reader.effective, made), file)


def _capture(reader: Reader, source: Source) -> CaptureSettings | None:
    """The recorder is imported only if something is to be recorded."""
    if all(place[0] != CAPTURE for place in {*source.given, *source.tables}):
        return None
    from recorder.capture.session import CaptureSettings

    made: CaptureSettings | None = reader.section(CaptureSettings, (CAPTURE,))
    return made


def _with_state(cluster: ClusterSettings, folder: Path | None, environment: Mapping[str, str]) -> ClusterSettings:
    if cluster.state is not None:
        return cluster
    return replace(cluster, state=default_state_file(cluster.listen, folder, cluster.name, environment))


def _completed(effective: list[Effective], proxy: ProxySettings) -> tuple[Effective, ...]:
    """With the state files that were chosen."""
    states = {(CLUSTERS, cluster.name, "state"): cluster.state for cluster in proxy.clusters}
    return tuple(one._replace(value=states[one.place]) if one.place in states else one for one in effective)
