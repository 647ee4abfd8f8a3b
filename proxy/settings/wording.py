"""Writes the error lines for wrong settings: each shows the setting as the user wrote it, and an example to copy.

Used by `reader`:

    --listen 127.0.0.1:x has no port ...; right would be --listen 127.0.0.1:19092
    clusters.main.listen = "127.0.0.1:x" has no port ...; right would be listen = "127.0.0.1:19092"
    KAFKA_WIRETAP_CLUSTERS__MAIN__LISTEN=127.0.0.1:x has no port ...; right would be KAFKA_WIRETAP_...

The lines for faults that constructors and sockets find are made by `schema/faults.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.schema.faults import KeyPath
from proxy.schema.flags import as_flag, flag_at
from proxy.schema.keys import Key
from proxy.schema.kinds import MAX_SHOWN, cut, shown
from proxy.schema.toml import dotted, plain, toml
from proxy.settings.sources import GivenValue, SourceKind, variable_of
from proxy.units import LARGEST_SIZE

# characters of a name that a line shows
MAX_NAMED = 160


def as_toml(raw: object) -> str:
    """A raw value in TOML's notation, cut if it is long."""
    if not isinstance(raw, list):
        return _item(raw)
    return cut("[" + ", ".join(map(_item, raw[:MAX_SHOWN])) + "]")


def _item(raw: object) -> str:
    is_plain = isinstance(raw, str | float) or (isinstance(raw, int) and abs(raw) <= LARGEST_SIZE)
    return cut(toml(raw)) if is_plain or not isinstance(raw, int | list | dict) else shown(raw)


def named(place: KeyPath) -> str:
    """A key path in TOML's notation, cut if it is long."""
    return cut(dotted(place), MAX_NAMED)


def wrong_value(place: KeyPath, key: Key, given: GivenValue, reason: str) -> str:
    """The line for a value that the key's kind can't read."""
    example = _example(place, key, given.source_kind, given.where)
    return f"{_as_given(place, key, given)} {reason}; right would be {example}"


def missing(place: KeyPath, key: Key, *, in_file: bool) -> str:
    """The line for a required key that is missing."""
    flag = flag_at(place)
    if in_file or flag is None:
        return f"{named(place)} is missing; right would be {_example(place, key, SourceKind.FILE, '')}"
    return f"{flag} is missing; right would be {_example(place, key, SourceKind.FLAG, flag)}"


def unknown(place: KeyPath, given: GivenValue | None, nearest: KeyPath, key: Key | None) -> str:
    """The line for an unknown name that resembles a known one.

    `given`: None for a table header, which has no value. `nearest`: the path of the known name; `key`: the key at this
    path, None for a table.
    """
    if given is not None and given.source_kind is SourceKind.ENVIRONMENT:
        right = variable_of(nearest) + (f"={plain(key.example)}" if key is not None else "__...")
        return f"{cut(given.where, MAX_NAMED)} is no setting; right would be {right}"
    right = f"{dotted(nearest)} = {toml(key.example)}" if key is not None else f"[{dotted(nearest)}]"
    return f"{named(place)} is no setting; right would be {right}"


def unknown_without_suggestion(place: KeyPath, given: GivenValue | None, names: Sequence[str]) -> str:
    """The line for an unknown name that resembles no known one. `names`: the known names."""
    by_environment = given is not None and given.source_kind is SourceKind.ENVIRONMENT
    name = cut(given.where, MAX_NAMED) if given is not None and by_environment else named(place)
    return f"{name} is no setting; right would be one of {', '.join(names)}"


def _as_given(place: KeyPath, key: Key, given: GivenValue) -> str:
    raw = "(hidden)" if key.secret else given.raw
    if given.source_kind is SourceKind.FLAG:
        # an entry of a table is named: --node 1=host:port
        is_entry = key.name_kind is not None
        return f"{given.where} {cut(_entry_name(place, key))}={cut(raw)}" if is_entry else f"{given.where} {shown(raw)}"
    if given.source_kind is SourceKind.ENVIRONMENT:
        return f"{given.where}={shown(raw)}"
    return f"{named(place)} = {as_toml(raw)}"


def _example(place: KeyPath, key: Key, source_kind: SourceKind, where: str) -> str:
    if source_kind is SourceKind.FLAG:
        return as_flag(where, _entry_name(place, key), key.example)
    if source_kind is SourceKind.ENVIRONMENT:
        return f"{where}={plain(key.example)}"
    # a key of a table ([nodes]) has the entry's name after it
    in_section = key.place if key.name_kind is None else key.entry_at(_entry_name(place, key))
    return f"{named(in_section)} = {toml(key.example)}"


def _entry_name(place: KeyPath, key: Key) -> str:
    """The name of the entry at a key path, for a key that is a table of entries."""
    return place[-len(key.entry)]
