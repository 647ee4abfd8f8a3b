"""The size of a message with its integers in other encodings: fixed, signed, unsigned, or the best for each field.

Sizes are computed from the values; nothing is encoded. All integers of 16, 32 and 64 bits count in the given encoding,
elements of arrays too. Other types (int8, uint16, uint32), lengths and counts keep their size. `reencoded` gives the
message with its integers in these encodings; its encoder writes exactly as many bytes as `sizes` computes.
Source: KAFKA-9927; `docs/encodings.md` is the study.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from proxy.wire.compile.layout import FIXED, Slot, Struct, layout
from proxy.wire.integers import INTEGERS, WIDTHS, Encoding, Integer
from proxy.wire.language import Field, Message
from proxy.wire.varints import varint_size

BEST = "best"

# One encoding for all integers, or path -> encoding; integers at other paths stay as they are.
Encodings = Encoding | Mapping[str, Encoding]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of one message.

    `total`: the body. `fields`: path (names joined by dots) -> bytes of all its encoded values, their lengths and
    counts included, as in the spans of a projection; 0 for an absent field. `encodings`: path of each field of integers
    -> the encoding that was counted.
    """

    total: int
    fields: Mapping[str, int]
    encodings: Mapping[str, Encoding]


def sizes(message: Message, version: int, values: Mapping[str, Any], encoding: str) -> Sizes:
    """The sizes of `values`, as `decode` returns them, with all integers in that encoding.

    `encoding`: "fixed", "signed", "unsigned" (an `Encoding` is one of these), or "best": for each path the one that
    takes the fewest bytes over all its values; in a tie fixed, then unsigned.

    Errors: ValueError for an unknown encoding or a version that the message lacks. Values that don't fit the message
    are not detected; encoding them would.
    """
    return Sizer(message, version).sizes(values, encoding)


class Sizer:
    """`sizes` for many values of one message in one version: the message's layout is looked up once."""

    def __init__(self, message: Message, version: int) -> None:
        """Errors: ValueError for a version that the message lacks."""
        if version not in message.versions:
            raise ValueError(f"{message.name} has no version {version}")
        self._struct = layout(message, version)
        self._types = dict(_types(self._struct, ""))

    def sizes(self, values: Mapping[str, Any], encoding: str) -> Sizes:
        """As the function `sizes`. Errors: ValueError for an unknown encoding."""
        if encoding != BEST:
            return self._measured(values, Encoding(encoding))
        preferred = (Encoding.FIXED, Encoding.UNSIGNED, Encoding.SIGNED)
        counted = [self._measured(values, one) for one in preferred]
        paths = counted[0].encodings
        best = {path: min(counted, key=lambda one: one.fields[path]).encodings[path] for path in paths}
        return self._measured(values, best)

    def _measured(self, values: Mapping[str, Any], encodings: Encodings) -> Sizes:
        counter = _Counter(encodings, self._types)
        total = counter.struct(self._struct, values, "")
        chosen = {path: _chosen(type_, encodings, path) for path, type_ in self._types.items()}
        of_integers = {path: integer.encoding for path, integer in chosen.items() if integer}
        return Sizes(total, MappingProxyType(counter.fields), MappingProxyType(of_integers))


def _types(struct: Struct, above: str) -> Iterator[tuple[str, str]]:
    """All paths, in order, with the types of their elements."""
    for slot in struct:
        yield above + slot.name, slot.type
        if slot.struct:
            yield from _types(slot.struct, above + slot.name + ".")


def reencoded(message: Message, encodings: Encodings) -> Message:
    """The message with its integers of 16, 32 and 64 bits in these encodings, in all versions."""
    return replace(message, fields=tuple(_reencoded(field, encodings, "") for field in message.fields))


def _reencoded(field: Field, encodings: Encodings, above: str) -> Field:
    path = above + field.name
    inner = tuple(_reencoded(one, encodings, path + ".") for one in field.fields)
    types = tuple((versions, _type(type_, encodings, path)) for versions, type_ in field.types)
    return replace(field, type=_type(field.type, encodings, path), fields=inner, types=types)


def _type(type_: str, encodings: Encodings, path: str) -> str:
    array, element = "[]" * type_.startswith("[]"), type_.removeprefix("[]")
    integer = _chosen(element, encodings, path)
    return array + integer.name if integer else type_


# Integers that have three encodings, by the type's name, and by width and encoding.
_REENCODABLE = {name: integer for name, integer in INTEGERS.items() if integer.bits in WIDTHS}
_INTEGERS = {(bits, encoding): Integer(bits, encoding) for bits in WIDTHS for encoding in Encoding}


def _chosen(type_: str, encodings: Encodings, path: str) -> Integer | None:
    """Width and encoding of an integer that can be reencoded; None for other types."""
    integer = _REENCODABLE.get(type_)
    if integer is None:
        return None
    chosen = encodings if isinstance(encodings, Encoding) else encodings.get(path, integer.encoding)
    return _INTEGERS[integer.bits, chosen]


class _Counter:
    """Adds up the bytes of one message; every method returns the bytes of its part. `fields`: 0 for absent fields."""

    def __init__(self, encodings: Encodings, paths: Iterable[str]):
        self._requested = encodings
        self.fields = dict.fromkeys(paths, 0)

    def struct(self, struct: Struct, values: Mapping[str, Any], above: str) -> int:
        plain = sum([self._slot(slot, values.get(slot.name, slot.default), above) for slot in struct.slots])
        return plain + self._tags(struct, values, above) if struct.flexible else plain

    def _tags(self, struct: Struct, values: Mapping[str, Any], above: str) -> int:
        tags = {tag: len(payload) for tag, payload in values.get("_tags", {}).items()}
        for slot in struct.tagged:
            value = values.get(slot.name, slot.default)
            if slot.tag is not None and value != slot.default:
                tags[slot.tag] = self._slot(slot, value, above)
        return _varint(len(tags)) + sum(_varint(tag) + _varint(size) + size for tag, size in tags.items())

    def _slot(self, slot: Slot, value: Any, above: str) -> int:
        path = above + slot.name
        size = self._value(slot, value, path)
        self.fields[path] += size
        return size

    def _value(self, slot: Slot, value: Any, path: str) -> int:
        if slot.array:
            return _length(slot, value) + self._all(slot.element, value or (), path)
        if slot.nullable and slot.struct:
            return 1 if value is None else 1 + self._all(slot, [value], path)
        return self._all(slot, [value], path)

    def _all(self, slot: Slot, values: Sequence[Any], path: str) -> int:
        """The bytes of values of one type, without their count."""
        if slot.struct:
            struct, below = slot.struct, path + "."
            return sum([self.struct(struct, value, below) for value in values])
        if integer := _chosen(slot.type, self._requested, path):
            return _integers(integer, values)
        if slot.type in FIXED:
            return FIXED[slot.type][1] * len(values)
        data = [value.encode() if isinstance(value, str) else value for value in values]
        return sum([_length(slot, one) + len(one or b"") for one in data])


def _integers(integer: Integer, values: Sequence[int]) -> int:
    bits, zigzag = integer.bits, integer.encoding is Encoding.SIGNED
    if integer.encoding is Encoding.FIXED:
        return bits // 8 * len(values)
    return sum([varint_size(bits, value, zigzag=zigzag) for value in values])


def _length(slot: Slot, value: Sequence[Any] | None) -> int:
    """The bytes of the count or length before a value, which may be null."""
    if slot.compact:
        return _varint(0 if value is None else len(value) + 1)
    return 2 if slot.type == "string" and not slot.array else 4


def _varint(value: int) -> int:
    return varint_size(32, value, zigzag=False)
