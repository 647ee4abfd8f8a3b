"""Writes values and keys in the notation of TOML, and values in the notation of flags and the environment."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from proxy.terminal import harmless

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(value: object) -> str:
    """A value in TOML's notation; a value of another type as a text."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(element) for element in value) + "]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return json.dumps(value)
    # a JSON string is a TOML string, apart from invisible characters, which `harmless` escapes
    return '"' + harmless(json.dumps(str(value), ensure_ascii=False)[1:-1]) + '"'


def plain(value: object) -> str:
    """A value in the notation of flags and the environment: a list becomes a text with commas."""
    if isinstance(value, list | tuple):
        return ",".join(map(plain, value))
    return toml(value) if isinstance(value, int | float) else str(value)


def dotted(place: Sequence[str]) -> str:
    """A key path in TOML's notation, with dots."""
    return ".".join(part if _BARE.fullmatch(part) else toml(part) for part in place)
