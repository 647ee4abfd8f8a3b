"""Which Avro schemas are safe to decode foreign data with.

A decoder calls itself for each level of a value, and a schema may make values of no bytes at all: nulls, empty records.
So data of a few bytes could take all stack or all memory. A schema is used if its depth and its values without bytes
are bounded whatever the data are: it does not refer to itself, and has no array of values without bytes. Every other
value takes a byte of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# levels of a value; values that are made of no bytes
MAX_DEPTH, MAX_EMPTY = 100, 10_000
# values without bytes in each value of an array or a map
MAX_EMPTY_EACH = 16
_NAMED = ("record", "error", "enum", "fixed")


class Endless(Exception):
    """A schema whose data could take all stack or memory. The message says why, in one line."""


class _Size(NamedTuple):
    """Of a schema: its depth; whether data need a byte; how many values may be made of no bytes."""

    depth: int = 1
    takes_bytes: bool = True
    empty: int = 0


def check(schemas: Sequence[Any]) -> None:
    """Checks schemas, of which the later ones may refer to the earlier ones. Errors: Endless."""
    known: dict[str, _Size | None] = {}
    for each in schemas:
        _size(each, "", known)


def _size(schema: Any, space: str, known: dict[str, _Size | None]) -> _Size:
    """The size of a schema. `known`: of named types; None while their own fields are looked at."""
    found = _unchecked(schema, space, known)
    if found.depth > MAX_DEPTH:
        raise Endless(f"its schema has more than {MAX_DEPTH} levels")
    if found.empty > MAX_EMPTY:
        raise Endless(f"its schema makes more than {MAX_EMPTY} values without bytes")
    return found


def _unchecked(schema: Any, space: str, known: dict[str, _Size | None]) -> _Size:
    if isinstance(schema, str):
        return _of_name(schema, space, known)
    if isinstance(schema, list):
        parts = [_size(each, space, known) for each in schema]
        # which part it is takes a byte, so a single value of none is not for free
        return _Size(_deepest(parts), True, max((part.empty - 1 for part in parts if part.empty), default=0))
    if not isinstance(schema, Mapping):
        return _Size()
    kind = schema.get("type")
    if kind in _NAMED:
        return _of_named(schema, space, known)
    if kind == "array":
        items = _size(schema.get("items"), space, known)
        if not items.takes_bytes:
            raise Endless("its schema has an array of values without bytes")
        return _repeated(items)
    if kind == "map":
        # each entry has the length of its key
        return _repeated(_size(schema.get("values"), space, known))
    return _size(kind, space, known)


def _repeated(size: _Size) -> _Size:
    if size.empty > MAX_EMPTY_EACH:
        raise Endless(f"its schema makes more than {MAX_EMPTY_EACH} values without bytes of each value of a list")
    return _Size(size.depth + 1)


def _of_name(name: str, space: str, known: dict[str, _Size | None]) -> _Size:
    if name == "null":
        return _Size(1, False, 1)
    full = name if "." in name or not space else f"{space}.{name}"
    found = full if full in known else name
    if found not in known:
        return _Size()
    size = known[found]
    if size is None:
        raise Endless("its schema refers to itself")
    return size


def _of_named(schema: Mapping[str, Any], space: str, known: dict[str, _Size | None]) -> _Size:
    name = str(schema.get("name", ""))
    space = name.rpartition(".")[0] or str(schema.get("namespace") or space)
    full = name if "." in name or not space else f"{space}.{name}"
    known[full] = None
    size = _Size()
    if schema["type"] == "fixed":
        size = _Size(1, bool(schema.get("size")), 0 if schema.get("size") else 1)
    elif schema["type"] != "enum":
        fields = [_size(each.get("type"), space, known) for each in schema.get("fields", ())]
        takes = any(field.takes_bytes for field in fields)
        size = _Size(_deepest(fields), takes, sum(field.empty for field in fields) + (not takes))
    known[full] = size
    for alias in schema.get("aliases", ()):
        known[alias if "." in alias or not space else f"{space}.{alias}"] = size
    return size


def _deepest(parts: Sequence[_Size]) -> int:
    return 1 + max((part.depth for part in parts), default=0)
