"""What `kafka-wiretap config explain KEY` prints: a key of the settings, by the descriptions of docs/settings.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.schema.faults import KeyPath
from proxy.schema.flags import CLUSTERS, MAIN
from proxy.schema.toml import dotted, toml
from proxy.settings.reference import DescribedKey, described_keys
from proxy.similar import nearest

# how a cluster is called in a path that stands for that of any cluster
ANY_NAME = "NAME"
_VARIABLE = re.compile(r"[A-Z0-9_]+")


class UnknownKey(ValueError):
    """No key is called so; the message says which key may be meant."""


def explain(text: str) -> list[str]:
    """The lines that explain a key; several keys if `text` is the end of several.

    Args:
        text: a key with or without its section, a flag, or an environment variable.

    Raises UnknownKey.
    """
    every = [*described_keys()]
    found = [key for key in every if text in _names(key)] or [key for key in every if _ends_with(key, text)]
    if not found:
        known = {name for key in every for name in (*_names(key), key.short)}
        near = nearest(text, known)
        meant = f"; did you mean {near}?" if near else ";"
        raise UnknownKey(f"no key is called {text}{meant} `kafka-wiretap config reference` lists all")
    return [line for number, key in enumerate(found) for line in ([""] if number else []) + [*_lines(key)]]


def _names(key: DescribedKey) -> Iterator[str]:
    """All that stands for exactly this key."""
    yield dotted(key.path)
    yield _general(key.path)
    yield key.variable
    # a table with an entry for each node, topic, ...
    yield dotted(key.field.key.place)
    if key.flag:
        yield key.flag


def _ends_with(key: DescribedKey, text: str) -> bool:
    """True if `text` is the key's path without its first parts: `idle`, `timeouts.idle`, `west.timeouts.idle`."""
    parts, path = text.split("."), list(key.path)
    if path[0] == CLUSTERS and len(parts) > 1 and parts[0] == CLUSTERS:
        path[1] = parts[1]
    return path[-len(parts) :] == parts


def _general(path: KeyPath) -> str:
    """A path with NAME for the cluster's name."""
    return dotted(path).replace(f"{CLUSTERS}.{MAIN}", f"{CLUSTERS}.{ANY_NAME}", 1)


def _lines(key: DescribedKey) -> Iterator[str]:
    yield _general(key.path)
    yield f"    {key.field.key.text}"
    yield f"  value        {key.field.key.kind.name}"
    yield f"  default      {key.default.strip('`')}"
    yield f"  example      {key.short} = {toml(key.field.key.example)}"
    yield f"  section      {key.heading}"
    # no shell has a variable whose name holds a pattern
    yield f"  environment  {key.variable if _VARIABLE.fullmatch(key.variable) else 'none'}"
    yield f"  flag         {key.flag or 'none'}"
