"""A message at one version: its fields in their order, and the encoding of each.

Everything that depends on the version is decided here, so that the writers of source need no version.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from proxy.wire.integers import INTEGERS, Encoding, Integer
from proxy.wire.language import Field, Message

# type -> struct code and size
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
# type -> its default; 0 for all others
ZEROS: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "float64": 0.0}


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of one version. `type` is that of the value or of the array's elements."""

    field: Field
    type: str
    array: bool
    nullable: bool
    compact: bool  # lengths are unsigned varints, one more than the length
    struct: "Struct | None"

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def tag(self) -> int | None:
        return self.field.tag

    @property
    def default(self) -> Any:
        """The value of an absent field: a new one each time."""
        if self.field.has_default:
            return self.field.default
        if self.array:
            return []
        if self.struct:
            return {inner.name: inner.default for inner in self.struct}
        return ZEROS.get(self.type, 0)

    @property
    def code(self) -> str | None:
        """The `struct` code of a value of fixed size; None for all others."""
        return None if self.array else self.element_code

    @property
    def element_code(self) -> str | None:
        """The `struct` code of an array's elements, if their size is fixed."""
        return FIXED[self.type][0] if self.type in FIXED else None

    @property
    def varint(self) -> Integer | None:
        """Width and encoding of an integer in groups of 7 bits; None for all other values."""
        return None if self.array else self.element_varint

    @property
    def element_varint(self) -> Integer | None:
        """Width and encoding of an array's elements, if these are integers in groups of 7 bits."""
        integer = INTEGERS.get(self.type)
        return integer if integer and integer.encoding is not Encoding.FIXED else None

    @property
    def size(self) -> int:
        """Bytes of a value or an array's element of fixed size; KeyError for all others."""
        return FIXED[self.type][1]

    @property
    def element(self) -> "Slot":
        """The slot of this array's elements."""
        return replace(self, array=False, nullable=False)


@dataclass(frozen=True, slots=True)
class Struct:
    """The fields of a struct at one version: `slots` in wire order, `tagged` by ascending tag."""

    slots: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    flexible: bool
    names: frozenset[str]  # of all versions: an encoder leaves out another version's field, but refuses an unknown name

    def __iter__(self) -> Iterator[Slot]:
        yield from self.slots
        yield from self.tagged

    @property
    def fixed_size(self) -> int | None:
        """Bytes of every such struct; None if they differ."""
        if self.flexible or any(slot.code is None for slot in self.slots):
            return None
        return sum(slot.size for slot in self.slots)


def layout(message: Message, version: int) -> Struct:
    """The message's struct at `version`, which is one of `message.versions`."""
    return _struct(message.fields, version, version in message.flexible)


def _struct(fields: tuple[Field, ...], version: int, flexible: bool) -> Struct:
    slots = [_slot(field, version, flexible) for field in fields if version in field.versions]
    return Struct(
        tuple(slot for slot in slots if slot.tag is None),
        tuple(sorted((slot for slot in slots if slot.tag is not None), key=lambda slot: slot.tag or 0)),
        flexible,
        frozenset(field.name for field in fields),
    )


def _slot(field: Field, version: int, flexible: bool) -> Slot:
    inner = _struct(field.fields, version, flexible) if field.fields else None
    return Slot(field, field.element_at(version), field.is_array, version in field.nullable, flexible, inner)
