"""Decoded values as a tree for people: ids as Kafka's tools print them, secrets named as such.

A masked value must never pass for a real one: it becomes `Masked`, with its length. The tree holds dicts, lists,
numbers, text, bytes, None and Masked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.wire.language import Field
from proxy.wire.primitives import uuid_text

TAGS = "_tags"


@dataclass(frozen=True, slots=True)
class Masked:
    """A value that is not shown; `length` in bytes where it is known."""

    length: int | None


@dataclass(frozen=True, slots=True)
class Tree:
    """Makes trees of the values of one message at one version. `hidden`: paths of values that are not shown."""

    version: int
    hidden: Collection[str] = ()

    def struct(self, values: Mapping[str, Any], fields: Sequence[Field], above: str = "") -> dict[str, Any]:
        """A struct's values, in their order."""
        named = {field.name: field for field in fields if self.version in field.versions}
        return {
            name: dict(value) if name == TAGS else self._value(value, named[name], above + name)
            for name, value in values.items()
        }

    def _value(self, value: Any, field: Field, path: str) -> Any:
        if value is None:
            return None
        if path in self.hidden:
            return hide(value)
        if field.is_array and isinstance(value, list):
            return [self._element(one, field, path) for one in value]
        return self._element(value, field, path)

    def _element(self, value: Any, field: Field, path: str) -> Any:
        if field.fields:
            return self.struct(value, field.fields, f"{path}.")
        return uuid_text(bytes(value)) if field.element == "uuid" else value


def hide(value: Any) -> Any:
    """Nothing was there to be hidden of an empty value."""
    if isinstance(value, str | bytes | memoryview):
        length = len(value.encode()) if isinstance(value, str) else len(value)
        return Masked(length) if length else value
    return Masked(None)
