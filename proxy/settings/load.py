"""Loads the settings of a proxy: reads all sources, checks the values, and adds the values that follow from others.

`load` is for the proxy, `read` for `kafka-wiretap config check`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.config import ClusterSettings, LiveSettings, LogSettings, ProxySettings, default_state_file
from proxy.config.places import Demand, demand, wrong_demands
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.config.whole import wrong_names
from proxy.limited_files import UnusableFile
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, KeyPath, Setting, line_of
from proxy.schema.flags import CAPTURE, CLUSTERS, LIVE
from proxy.schema.kinds import shown
from proxy.schema.patterns import NOT, Patterns
from proxy.schema.toml import dotted
from proxy.settings.reader import EffectiveValue, Section, SettingsReader
from proxy.settings.show import in_force
from proxy.settings.sources import Source, environment_source, file_source, flag_source
from proxy.tokens import RIGHT_TOKEN, token_of
from proxy.units import rounded_size
from proxy.wire.dialects import Dialect

if TYPE_CHECKING:
    from recorder.capture.session import CaptureSettings

LOG, TLS, UPSTREAM = "log", "tls", "upstream"
# the fields of RecordRuleSettings
_RULES = ("records", "topic_records", "hash_key")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in effect.

    Args:
        proxy: the settings of the proxy.
        capture: the settings of the recorder; None: nothing is recorded.
        effective: every key with its value, section by section; a cluster's TLS sections precede its own.
        file: the settings file; None: there is none.
    """

    proxy: ProxySettings
    capture: CaptureSettings | None
    effective: tuple[EffectiveValue, ...]
    file: Path | None

    def lines_of(self, error: BadSetting) -> list[str]:
        """The lines to print for an error found after loading, for example while listening.

        Keys are spelled as in the file or as flags, whichever was used.
        """
        cluster = error.cluster or self.proxy.clusters[0].name
        return [line_of(fault, cluster, in_file=self.file is not None) for fault in error.faults]


class ClusterTls(NamedTuple):
    """A cluster's TLS settings towards clients (`tls`) and brokers; None for a side without TLS, or with an error."""

    name: str
    tls: ListenerTls | None
    upstream_tls: UpstreamTls | None


class ReadResult(NamedTuple):
    """The result of reading all sources.

    Args:
        error_lines: a line for each error, without repetitions.
        loaded: the settings in effect; None if there is an error.
        cluster_tls: the TLS settings of each cluster; the files that they name have not been read.
    """

    error_lines: Sequence[str]
    loaded: LoadedSettings | None
    cluster_tls: Sequence[ClusterTls]


class _Sections(NamedTuple):
    """All sections, as they were read.

    `values`: field -> value, for the keys outside of tables. `tls_sides`: for each cluster its name, and its TLS
    sections towards clients and brokers (None: not given).
    """

    values: Mapping[str, Any]
    tls_sides: Sequence[tuple[str, Section | None, Section | None]]
    clusters: Sequence[Section]
    capture: Section | None


def load(
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    again: bool = False,
) -> LoadedSettings:
    """The settings in effect. Flags win over the environment, the environment over the file, the file over defaults.

    Args:
        flags: name in `flags.FLAGS` -> value; None and () stand for flags that were not given.
        again: True if the settings were read before; see `read_file`.

    Raises:
        BadSetting: with a line for each error.
    """
    result = read(file, flags, environment, again=again)
    if result.loaded is None:
        raise BadSetting(*result.error_lines)
    return result.loaded


def read(
    file: Path | None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    again: bool = False,
) -> ReadResult:
    """Like `load`, but returns error lines instead of raising them. Raises BadSetting if the file can't be read."""
    source = file_source(file, again=again) if file is not None else Source()
    source = environment_source(environment, source.clusters).over(source)
    source = source if flags is None else flag_source(flags, source).over(source)
    reader = SettingsReader(source, in_file=file is not None)
    sections = _sections(reader, source)
    cluster_tls = [
        ClusterTls(name, _tls_in_use(listener), _tls_in_use(upstream))
        for name, listener, upstream in sections.tls_sides
    ]
    if reader.error_lines:
        # with errors, ProxySettings is never constructed; so look here for the faults between clusters that its
        # constructor would find
        reader.report(*wrong_names(source.clusters), *wrong_demands(_demands(source.clusters, sections.clusters)))
        return ReadResult(reader.error_lines, None, cluster_tls)
    loaded = _loaded(reader, sections, environment, file)
    return ReadResult(reader.error_lines, loaded, cluster_tls)


def _sections(reader: SettingsReader, source: Source) -> _Sections:
    """Reads all sections. The reader then has an error line for each fault."""
    values = reader.values(ProxySettings)
    log = reader.section(LogSettings, (LOG,)).value
    live = reader.section(LiveSettings, (LIVE,))
    reader.report(*_wrong_page(live.value), *_wrong_otlp(live.valid), *_wrong_token(live.value))
    tls_sides, clusters = [], []
    for name in source.clusters:
        # cluster by cluster: in `effective`, the keys of a cluster must stand together
        tls_sides.append(_tls_sides(reader, source, name))
        clusters.append(_cluster(reader, *tls_sides[-1]))
    capture = _capture(reader, source)
    tls = [(CLUSTERS, name, TLS) for name in source.clusters]
    reader.finish([(CAPTURE,), (CLUSTERS,), *tls, *((*side, UPSTREAM) for side in tls)])
    if capture is not None:
        reader.report(
            *_wrong_selection(source, capture.valid),
            *_wrong_keep(capture.valid),
            *_wrong_rules(capture.valid),
            *_wrong_ship(capture.valid),
        )
    return _Sections({**values, "log": log, "live": live.value}, tls_sides, clusters, capture)


def _loaded(
    reader: SettingsReader, sections: _Sections, environment: Mapping[str, str], file: Path | None
) -> LoadedSettings | None:
    """The settings in effect; None if the sections don't fit together. Call it only if no section has an error."""
    capture: CaptureSettings | None = sections.capture.value if sections.capture is not None else None
    folder = capture.folder if capture is not None else None
    clusters = tuple(
        _with_state(cluster.value, folder, environment) for cluster in sections.clusters if cluster.value is not None
    )
    proxy = reader.construct(ProxySettings, {**sections.values, "clusters": clusters})
    return None if proxy is None else loaded_settings(proxy, capture, _completed(reader.effective, proxy), file)


def loaded_settings(
    proxy: ProxySettings, capture: CaptureSettings | None, effective: tuple[EffectiveValue, ...], file: Path | None
) -> LoadedSettings:
    """The settings in effect; the recorder's tell all of them, for the capture."""
    told = None if capture is None else replace(capture, in_force=in_force(effective))
    return LoadedSettings(proxy, told, effective, file)


def _tls_sides(reader: SettingsReader, source: Source, name: str) -> tuple[str, Section | None, Section | None]:
    """A cluster's name, and its TLS sections towards clients and brokers; None for a section that isn't given."""
    listener = upstream = None
    if _is_given(source, (CLUSTERS, name, TLS), ignored=UPSTREAM):
        listener = reader.section(ListenerTls, (CLUSTERS, name, TLS))
    if _is_given(source, (CLUSTERS, name, TLS, UPSTREAM)):
        upstream = reader.section(UpstreamTls, (CLUSTERS, name, TLS, UPSTREAM))
    return name, listener, upstream


def _cluster(reader: SettingsReader, name: str, listener: Section | None, upstream: Section | None) -> Section:
    """A cluster's section, with its TLS sections."""
    parts = [side for side in (listener, upstream) if side is not None]
    # drafts, so the cluster's own keys are checked even if a TLS section has an error
    tls, upstream_tls = (side.draft if side is not None else None for side in (listener, upstream))
    both = {"tls": tls, "upstream_tls": upstream_tls if upstream_tls is not None and upstream_tls.on else None}
    return reader.section(ClusterSettings, (CLUSTERS, name), *parts, name=name, **both)


def _tls_in_use(side: Section | None) -> Any:
    """The settings of a TLS section; None if the section is not given, has an error, or switches TLS off."""
    settings = side.value if side is not None else None
    return settings if getattr(settings, "on", True) else None


def _is_given(source: Source, section: KeyPath, ignored: str = "") -> bool:
    """True if a source has the section, even an empty one. Keys in its table `ignored` don't count."""
    names = source.names_in(section)
    return bool({*names} - {ignored}) or (not names and (section in source.tables or section in source.given))


def _capture(reader: SettingsReader, source: Source) -> Section | None:
    """The section of the capture; None if it isn't given. The recorder is imported only if it is."""
    if not _is_given(source, (CAPTURE,)):
        return None
    from recorder.capture.session import CaptureSettings

    return reader.section(CaptureSettings, (CAPTURE,))


def _wrong_selection(source: Source, capture: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for each pattern of `capture.only.clusters` that matches no cluster's name."""
    names = source.clusters
    for pattern in capture.get("clusters") or ():
        if not any(map(Patterns([pattern.removeprefix(NOT)]).matches, names)):
            key = f"{CAPTURE}.only.clusters"
            yield Fault(
                (Setting(key, of_cluster=False), f" has {shown(pattern)}, which is no cluster of these"),
                Setting(key, names[:1], of_cluster=False),
            )


def _wrong_keep(capture: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for a floor that the volume does not have, and for bounds that no compactor keeps."""
    from recorder.capture.keep import volume_size

    folder, floor = capture.get("folder"), capture.get("keep_free")
    if folder is not None and floor is not None and floor.size:
        size = volume_size(folder)
        if size is not None and floor.size >= size:
            named = Setting("capture.keep.free", str(floor), of_cluster=False)
            yield Fault(
                (named, f" is more than the whole volume of {folder}, {rounded_size(size)}"),
                Setting("capture.keep.free", "10%", of_cluster=False),
            )
    bounds = [name for name in ("keep_age", "keep_size") if capture.get(name) is not None]
    if bounds and capture.get("compactor") is False:
        key = f"capture.{bounds[0].replace('_', '.')}"
        yield Fault(
            (Setting(key, of_cluster=False), " removes nothing without a compactor"),
            Setting("capture.compactor", True, of_cluster=False),
        )


def _wrong_rules(capture: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults of a rule `hash`: a key that is missing or that can't be used; of it and of encryption: what they need."""
    from recorder.capture.record_rules import RIGHT_KEY, RecordRuleSettings, hash_key_of

    if capture.get("encrypt"):
        yield from _unmet_needs(Setting("capture.encrypt", True, of_cluster=False), capture)
    rules = RecordRuleSettings(**{name: capture[name] for name in _RULES if name in capture})
    if not rules.hashed:
        return
    named = Setting(dotted((CAPTURE, *rules.hashed[0])), "hash", of_cluster=False, is_short=True)
    try:
        hash_key_of(rules)
    except UnusableFile as error:
        key = Setting("capture.hash_key", rules.hash_key, of_cluster=False)
        yield Fault((key, f" {error}"), RIGHT_KEY)
    if rules.hash_key is None:
        yield Fault((named, " needs a key"), Setting("capture.hash_key", "/etc/wiretap/hash.key", of_cluster=False))
    if not capture.get("encrypt"):
        yield from _unmet_needs(named, capture)


def _unmet_needs(named: Setting, capture: Mapping[str, Any]) -> Iterator[Fault]:
    """Faults where the log can't be encrypted, which the setting `named` asks for."""
    from recorder.extras import pip_install

    if capture.get("compactor") is False:
        yield Fault((named, " needs a compactor"), Setting("capture.compactor", True, of_cluster=False))
    if find_spec("cryptography") is None:
        yield Fault((named, " needs the package cryptography, which is not installed"), pip_install("hash"))


def _wrong_page(live: LiveSettings | None) -> Iterator[Fault]:
    """A fault for a page whose packages are not installed."""
    if live is not None and live.page is not None:
        yield from _not_installed("live.page", "page")


def _wrong_ship(capture: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for a capture that can't be shipped: no packages, no compactor, keys that others may read."""
    if capture.get("ship") is None:
        return
    yield from _not_installed("capture.ship", "ship")
    if capture.get("compactor") is False:
        yield Fault(
            (Setting("capture.ship", of_cluster=False), " ships nothing without a compactor"),
            Setting("capture.compactor", True, of_cluster=False),
        )
    if (credentials := capture.get("ship_credentials")) is not None:
        yield from _not_private("capture.ship_credentials", credentials)


def _wrong_otlp(live: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for spans that can't be sent: no packages, headers that others may read or that are none."""
    if live.get("otlp") is None:
        return
    from recorder.tracing.headers import WrongHeaders, headers_in

    yield from _not_installed("live.otlp", "otlp")
    path = live.get("otlp_headers")
    if path is None:
        return
    if faults := [*_not_private("live.otlp_headers", path)]:
        yield from faults
        return
    try:
        headers_in(path)
    except WrongHeaders as error:
        yield Fault((Setting("live.otlp_headers", str(path), of_cluster=False), f" {error}"), error.right)


def _wrong_token(live: LiveSettings | None) -> Iterator[Fault]:
    """A fault for a token that can't be used, or that others may read."""
    if live is None or live.token_file is None:
        return
    try:
        token_of(live.token_file)
    except UnusableFile as error:
        named = Setting("live.token_file", str(live.token_file), of_cluster=False)
        yield Fault((named, f" {str(error).partition(':')[0]}"), f"a file of yours with {RIGHT_TOKEN}")
    else:
        yield from _not_private("live.token_file", live.token_file)


def _not_installed(key: str, extra: str) -> Iterator[Fault]:
    """A fault for a key whose extra's packages are not installed."""
    from recorder.extras import lacking, pip_install

    if names := lacking(extra):
        named = Setting(key, of_cluster=False)
        yield Fault((named, f" needs what is not installed: {', '.join(names)}"), pip_install(extra))


def _not_private(key: str, file: Path) -> Iterator[Fault]:
    """A fault for a file with secrets that can't be read, or that others may read."""
    try:
        why = "may be read by others than its owner" if file.stat().st_mode & 0o077 else ""
    except OSError as error:
        why = f"can't be read ({error.strerror})"
    if why:
        named = Setting(key, str(file), of_cluster=False)
        yield Fault((named, f" {why}"), f"a file of yours with the mode 0600: chmod 600 {file}")


def _demands(names: Sequence[str], clusters: Sequence[Section]) -> Iterator[Demand]:
    """The ports and files that the clusters claim by their valid values; also those of clusters with errors."""
    for name, section in zip(names, clusters, strict=True):
        # a place is (CLUSTERS, the cluster's name, the key, ...)
        yield demand(name, section.valid, {place[2] for place in section.wrong_places})


def _with_state(cluster: ClusterSettings, folder: Path | None, environment: Mapping[str, str]) -> ClusterSettings:
    if cluster.state is not None or cluster.dialect is Dialect.KAFKA_07:
        return cluster
    state = default_state_file(cluster.listen, folder, cluster.name, environment)
    return replace(cluster, state=state, state_is_default=True)


def _completed(effective: list[EffectiveValue], proxy: ProxySettings) -> tuple[EffectiveValue, ...]:
    """The effective keys, with the default state files."""
    states = {(CLUSTERS, cluster.name, "state"): cluster.state for cluster in proxy.clusters}
    return tuple(entry._replace(value=states[entry.place]) if entry.place in states else entry for entry in effective)
