"""A key of the settings: what stands next to the field that it sets, in the field's own annotation.

    drain_seconds: Annotated[float, Key(SECONDS, "drain", "How long ... after SIGTERM.", "10s")] = 10

`keys_of` reads a dataclass' fields back. A field without a `Key` is none of the user's.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from proxy.schema.errors import Misread
from proxy.schema.faults import Fault, KeyPath
from proxy.schema.kinds import Kind, Toml


@dataclass(frozen=True, slots=True)
class Key:
    """The description of a setting.

    Args:
        kind: what may be written for it.
        name: its place below its section, with dots: "limits.hold".
        text: what it does, in a sentence or two.
        example: a right value, as TOML has it.
        unset: what holds if nothing is said and no value can be named.
        each: the kind of the names of a table of such values ([clusters.main.nodes]); None: a single value.
        secret: True if the value must never be shown.
    """

    kind: Kind
    name: str
    text: str
    example: Toml
    unset: str = ""
    each: Kind | None = None
    secret: bool = False

    @property
    def place(self) -> KeyPath:
        """The key's path below its section."""
        return tuple(self.name.split("."))


@dataclass(frozen=True, slots=True)
class Known:
    """A key with the field that it sets."""

    field: str
    key: Key
    default: Any

    @property
    def is_required(self) -> bool:
        """True if the key has no default."""
        return self.default is MISSING


@cache
def keys_of(settings: type[Any]) -> dict[KeyPath, Known]:
    """The keys of a dataclass, in the order of its fields; those that must be given come first."""
    hints = get_type_hints(settings, include_extras=True)
    marked = ((field, _key(hints[field.name])) for field in fields(settings))
    known = [Known(field.name, key, default_of(field)) for field, key in marked if key is not None]
    return {one.key.place: one for one in sorted(known, key=lambda one: not one.is_required)}


def wrong_values(settings: Any) -> list[Fault]:
    """A fault for each value that its own kind would not read: what a constructor has to say about single values."""
    return [
        Fault(f"{name} {value!r} {error}", f"{name} {known.key.example}")
        for known in keys_of(settings.__class__).values()
        for name, value in _values(known, getattr(settings, known.field))
        if (error := _error(known.key.kind, value))
    ]


def _values(known: Known, value: Any) -> list[tuple[str, Any]]:
    if value is None and known.default is None:
        return []
    if known.key.each is not None:
        return [(f"{known.key.name}.{name}", one) for name, one in value.items()]
    return [(known.key.name, value)]


def _error(kind: Kind, value: Any) -> str:
    try:
        kind.read(kind.written(value))
    except Misread as error:
        return str(error)
    return ""


def _key(hint: Any) -> Key | None:
    return next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Key)), None)


def default_of(field: Field[Any]) -> Any:
    """The default of a dataclass' field; MISSING for a required field."""
    return field.default if field.default_factory is MISSING else field.default_factory()
