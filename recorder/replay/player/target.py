"""The target as settings name it: addresses, TLS by the proxy's own keys, logins."""

from __future__ import annotations

import ssl
from pathlib import Path

from recorder.replay.logins import credentials_of
from recorder.replay.player.dial import Target
from recorder.replay.settings import FileSettings


def target_of(bootstrap: tuple[tuple[str, int], ...], file: FileSettings) -> Target:
    """How the target is reached. Errors: BadReplaySettings."""
    return Target(bootstrap, _tls(file), credentials_of(file.logins))


def _tls(file: FileSettings) -> tuple[ssl.SSLContext, str | None] | None:
    return None
