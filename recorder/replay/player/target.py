"""The target as the settings file describes it: TLS by the keys of the proxy's `tls.upstream`, logins."""

from __future__ import annotations

import ssl
from typing import Any

from proxy.config.tls import UpstreamTls
from proxy.schema.errors import InvalidValue
from proxy.schema.keys import keys_of
from proxy.tls.contexts import BadCertificate, upstream_context
from recorder.replay.login.logins import logins
from recorder.replay.player.dial import Target
from recorder.replay.settings import BadReplaySettings, FileSettings


def target_of(bootstrap: tuple[tuple[str, int], ...], file: FileSettings) -> Target:
    """How the target is reached. Blocks. Errors: BadReplaySettings, BadSetting."""
    found = logins({"login": file.logins}, file.folder) if file.logins else None
    return Target(bootstrap, None if file.tls is None else _tls(file.tls), found)


def _tls(section: dict[str, Any]) -> tuple[ssl.SSLContext, str | None] | None:
    known = {place[0]: field for place, field in keys_of(UpstreamTls).items()}
    values: dict[str, Any] = {}
    for name, raw in section.items():
        if name not in known:
            raise BadReplaySettings(f"tls.{name} is no setting: right would be one of {', '.join(known)}")
        try:
            values[known[name].name] = known[name].key.kind.read(raw)
        except InvalidValue as error:
            raise BadReplaySettings(f"tls.{name} {error}; right would be {known[name].key.example}") from error
    settings = UpstreamTls(**values)
    try:
        return (upstream_context(settings), settings.server_name) if settings.on else None
    except BadCertificate as error:
        raise BadReplaySettings(f"tls.{error}") from error
