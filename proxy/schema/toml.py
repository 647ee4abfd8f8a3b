"""Writes values and keys in the notation of TOML, and values in the notation of flags and the environment."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from proxy.terminal import harmless

# a list of JSON or TOML; [ab] and [::1]:9092 are none
_LIST = re.compile(r"\s*\[\s*([\"']|\]\s*$)")
_QUOTED = re.compile(r"^\s*!?[\"']|[\"'\\]\s*$")
# the beginning of a certificate's subject
_SUBJECT = re.compile(r"\s*!?CN=", re.IGNORECASE)
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
    """A value in the notation of flags and the environment: a list becomes a text with commas, or else TOML."""
    if isinstance(value, list | tuple):
        parts = [*map(plain, value)]
        with suppress(ValueError):
            if pieces(",".join(parts)) == parts:
                return ",".join(parts)
        return toml(value)
    return toml(value) if isinstance(value, int | float) else str(value)


def pieces(written: str) -> list[Any]:
    """The elements of a list in the notation of flags and the environment: `a,b`, or a list of JSON or TOML.

    Raises ValueError for a text whose commas may be parts of elements. The message continues a sentence that begins
    with the text.
    """
    if _LIST.match(written):
        return _listed(written)
    parts = written.split(",")
    for number, part in enumerate(parts):
        if _is_quoted(part) or (len(parts) > 1 and _is_cut(part, is_first=not number)):
            raise ValueError(f"has {part.strip()!r}; elements with commas stand in a list of JSON, {toml([written])}")
    return parts


def _listed(written: str) -> list[Any]:
    """The elements of a list of JSON or TOML. Raises ValueError."""
    with suppress(ValueError, RecursionError):
        return list(json.loads(written))
    with suppress(ValueError, RecursionError):
        found = tomllib.loads(f"list = {written}")
        if [*found] == ["list"] and isinstance(found["list"], list):
            return found["list"]
    raise ValueError("begins like a list of JSON or TOML, but is none")


def _is_quoted(part: str) -> bool:
    return bool(_QUOTED.search(part))


def _is_cut(part: str, *, is_first: bool) -> bool:
    """True if the comma beside a part may belong to an element: of a certificate's subject, or within brackets."""
    is_attribute = not is_first and "=" in part and not _SUBJECT.match(part)
    return is_attribute or part.count("[") != part.count("]")


def dotted(place: Sequence[str]) -> str:
    """A key path in TOML's notation, with dots."""
    return ".".join(part if _BARE.fullmatch(part) else toml(part) for part in place)
