"""Right values and keys as TOML has them, and values as a flag has them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from proxy.terminal import harmless

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(value: object) -> str:
    """A right value as TOML has it; anything that can't be one as its text."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return json.dumps(value)
    # JSON's strings are TOML's, but for what may not be seen
    return '"' + harmless(json.dumps(str(value), ensure_ascii=False)[1:-1]) + '"'


def plain(value: object) -> str:
    """A right value as a flag or the environment has it."""
    if isinstance(value, list | tuple):
        return ",".join(map(plain, value))
    return toml(value) if isinstance(value, int | float) else str(value)


def dotted(place: Sequence[str]) -> str:
    """A key with its tables, as TOML has it."""
    return ".".join(part if _BARE.fullmatch(part) else toml(part) for part in place)
