"""Finds the value that does not fit its field, after an encoder has failed; so speed does not matter here.

The text names types, and numbers that are out of range, but no other value, because a value may be a secret.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.wire.compile.layout import Slot, Struct
from proxy.wire.compile.runtime import STRING_MAX
from proxy.wire.errors import in_bytes
from proxy.wire.integers import limits


def misfit(struct: Struct, values: Any, path: str = "") -> str | None:
    """The path of the first value that does not fit, and why: "topics[3].name: int is no string"; None if all fit."""
    if not isinstance(values, Mapping):
        return f"{path or 'the message'}: {type(values).__name__} is no mapping"
    if unknown := values.keys() - struct.names - {"_tags"}:
        return f"{path}{': ' * bool(path)}unknown fields: {', '.join(sorted(map(str, unknown)))}"
    above = f"{path}." if path else ""
    found = (_of_slot(slot, values.get(slot.name, slot.default), above + slot.name) for slot in struct)
    return next(filter(None, found), None)


def _of_slot(slot: Slot, value: Any, path: str) -> str | None:
    if value is None:
        return None if slot.nullable else f"{path}: null where a value must stand"
    if slot.array:
        return _of_array(slot.element, value, path)
    if slot.struct:
        return misfit(slot.struct, value, path)
    reason = _reason(slot.type, value)
    return f"{path}: {reason}" if reason else None


def _of_array(element: Slot, value: Any, path: str) -> str | None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return f"{path}: {type(value).__name__} is no list"
    found = (_of_slot(element, one, f"{path}[{number}]") for number, one in enumerate(value))
    return next(filter(None, found), None)


def _reason(type_: str, value: Any) -> str | None:
    if type_ == "bool":
        return None
    if type_ == "string":
        return _of_text(value)
    if type_ in ("bytes", "records", "uuid"):
        return _of_bytes(type_, value)
    if not isinstance(value, int | float if type_ == "float64" else int):
        return f"{type(value).__name__} is no {type_}"
    return None if type_ == "float64" or value in limits(type_) else f"{value} is no {type_}"


def _of_text(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"{type(value).__name__} is no string"
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        return f"no UTF-8: {error.reason}"
    return f"a string of {in_bytes(size)}: at most {STRING_MAX} may stand there" if size > STRING_MAX else None


def _of_bytes(type_: str, value: Any) -> str | None:
    try:
        size = memoryview(value).nbytes
    except (TypeError, ValueError):  # no buffer, or a released one
        return f"{type(value).__name__} is no {type_}"
    return f"an id of {in_bytes(size)}, not 16" if type_ == "uuid" and size != 16 else None
