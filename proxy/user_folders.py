"""This program's folders among a user's own, as the XDG Base Directory Specification places them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_NAME = "kafka-wiretap"


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """What is kept from run to run: the proxy's nodes, the shell's history."""
    return _folder(environment, "XDG_STATE_HOME", ".local/state")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """What can be made again."""
    return _folder(environment, "XDG_CACHE_HOME", ".cache")


def _folder(environment: Mapping[str, str], variable: str, default: str) -> Path:
    given = environment.get(variable, "")
    # the specification: "If an implementation encounters a relative path [...] it should [...] ignore it."
    base = Path(given) if given.startswith("/") else Path(environment.get("HOME", "/")) / default
    return base / _NAME
