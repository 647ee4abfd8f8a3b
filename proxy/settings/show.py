"""The lines of `kafka-wiretap config show`: the settings in effect and their sources, as a list or a settings file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from proxy.schema.faults import KeyPath
from proxy.schema.flags import CLUSTERS
from proxy.schema.toml import dotted, toml
from proxy.settings.reader import EffectiveValue
from proxy.settings.sources import SourceKind

HIDDEN = "(hidden)"


def listing(effective: Iterable[EffectiveValue]) -> Iterator[str]:
    """A line for each key: its value, and the value's source, in aligned columns."""
    rows = [
        (f"{dotted(entry.place)}{': ' if entry.value is None else ' = '}{_value(entry)}", _origin(entry))
        for entry in effective
    ]
    width = max((len(left) for left, _ in rows), default=0)
    for left, origin in rows:
        yield f"{left:{width}}  {origin}"


def in_force(effective: Iterable[EffectiveValue]) -> dict[KeyPath, str]:
    """Key -> value, as `config show` prints it, of all keys that have a value. Secrets are hidden."""
    return {entry.place: _value(entry) for entry in effective if entry.value is not None}


def as_file(effective: Iterable[EffectiveValue]) -> Iterator[str]:
    """The lines of a settings file with these values. Keys without a value, and secrets, are comments."""
    for table, entries in groupby(effective, key=_table):
        if table:
            yield ""
            yield f"[{dotted(table)}]"
        for entry in entries:
            name = dotted(entry.place[len(table) :])
            is_comment = entry.value is None or entry.key.secret
            shown = f"# {name}: {_value(entry)}" if is_comment else f"{name} = {_value(entry)}"
            yield f"{shown}  # {_origin(entry)}"


def _table(entry: EffectiveValue) -> KeyPath:
    """The table under whose header a key is printed: `[clusters.NAME]`, or the first part of the key."""
    return entry.place[: 2 if entry.place[0] == CLUSTERS else min(1, len(entry.place) - 1)]


def _value(entry: EffectiveValue) -> str:
    if entry.value is None:
        return entry.key.unset
    return HIDDEN if entry.key.secret else toml(entry.key.kind.written(entry.value))


def _origin(entry: EffectiveValue) -> str:
    kind = entry.source_kind
    return kind.value if kind is SourceKind.DEFAULT else f"{kind.value} {entry.where}"
