"""The keys of settings. A key is described in the annotation of the dataclass field that it sets:

    drain_seconds: Annotated[float, Key(SECONDS, "drain", "How long ... after SIGTERM.", "10s")] = 10

`keys_of` reads the keys from a dataclass. Users can't set a field without a `Key`.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from proxy.schema.errors import InvalidValue
from proxy.schema.faults import Fault, KeyPath
from proxy.schema.kinds import Kind, Toml


@dataclass(frozen=True, slots=True)
class Key:
    """The description of a setting.

    Args:
        kind: the kind of its value.
        name: its name below its section, with dots: "limits.hold".
        text: what it does, in a sentence or two.
        example: a right value, in TOML.
        unset: the default in words, if no value expresses it.
        name_kind: for a table of such values ([clusters.main.nodes]), the kind of its names; None for a single value.
        entry: the path of an entry in that table: its name, for example; with a second part, the entry is itself a
            table, which has the value under this key.
        secret: True if the value must never be shown.
    """

    kind: Kind
    name: str
    text: str
    example: Toml
    unset: str = ""
    name_kind: Kind | None = None
    entry: KeyPath = ("1",)
    secret: bool = False

    @property
    def place(self) -> KeyPath:
        """The key's path below its section."""
        return tuple(self.name.split("."))

    def entry_at(self, name: str) -> KeyPath:
        """The path of an entry below the key's section. `name`: the entry's, in the table of `name_kind`."""
        return (*self.place, name, *self.entry[1:])


@dataclass(frozen=True, slots=True)
class KeyedField:
    """A field that a key sets. `name`: the field's name; `default`: the field's default, MISSING if there is none."""

    name: str
    key: Key
    default: Any

    @property
    def is_required(self) -> bool:
        """True if the key has no default."""
        return self.default is MISSING


@cache
def keys_of(settings: type[Any]) -> dict[KeyPath, KeyedField]:
    """Key path below the section -> field, for a dataclass: first the required ones, then in field order."""
    hints = get_type_hints(settings, include_extras=True)
    marked = ((field, _key(hints[field.name])) for field in fields(settings))
    keyed = [KeyedField(field.name, key, default_of(field)) for field, key in marked if key is not None]
    return {field.key.place: field for field in sorted(keyed, key=lambda field: not field.is_required)}


def wrong_values(settings: Any) -> list[Fault]:
    """A fault for each value of a dataclass that is not of its key's kind. For the dataclass' constructor."""
    return [
        Fault(f"{name} {value!r} {error}", f"{name} {field.key.example}")
        for field in keys_of(settings.__class__).values()
        for name, value in _values(field, getattr(settings, field.name))
        if (error := _error(field.key.kind, value))
    ]


def _values(field: KeyedField, value: Any) -> list[tuple[str, Any]]:
    if value is None and field.default is None:
        return []
    if field.key.name_kind is not None:
        return [(f"{field.key.name}.{name}", entry) for name, entry in value.items()]
    return [(field.key.name, value)]


def _error(kind: Kind, value: Any) -> str:
    try:
        kind.read(kind.written(value))
    except InvalidValue as error:
        return str(error)
    return ""


def _key(hint: Any) -> Key | None:
    return next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Key)), None)


def default_of(field: Field[Any]) -> Any:
    """The default of a dataclass' field; MISSING for a required field."""
    return field.default if field.default_factory is MISSING else field.default_factory()
