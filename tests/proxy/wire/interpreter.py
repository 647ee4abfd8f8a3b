"""The slow, obvious twin of the compiled functions: reads and writes a message field by field, from the schema.

It shares only the schema's values with the compiler. Lengths, varints, tags and versions are coded here again.
"""

import struct
from collections.abc import Mapping
from typing import Any

from proxy.wire.language import Field, Message

CODES = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}
CODES |= {"uint16": "H", "uint32": "I", "float64": "d"}
ZEROS: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "float64": 0.0}


def default_of(field: Field, version: int) -> Any:
    if field.has_default:
        return field.default
    if field.is_array:
        return []
    if field.fields:
        return {inner.name: default_of(inner, version) for inner in field.fields if version in inner.versions}
    return ZEROS.get(field.type, 0)


class Reader:
    """Reads one body. `spans` has (path, value, start, end) of every field, in order."""

    def __init__(self, message: Message, version: int, buf: bytes, at: int = 0):
        self.message, self.version, self.buf, self.at = message, version, buf, at
        self.flexible = version in message.flexible
        self.spans: list[tuple[str, Any, int, int]] = []
        self.tags_start: int | None = None

    def read(self) -> dict[str, Any]:
        return self.struct(self.message.fields, "")

    def take(self, size: int) -> bytes:
        assert 0 <= size <= len(self.buf) - self.at, "out of bytes"
        self.at += size
        return self.buf[self.at - size : self.at]

    def number(self, code: str) -> Any:
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def integer(self, type_: str) -> int:
        """Reads an integer in groups of 7 bits, by the name of its type."""
        bits = int(type_[-2:])
        value = self.varint({16: 3, 32: 5, 64: 10}[bits])
        assert value < 2**bits, "too many bits"
        if type_.startswith("unsigned"):
            return value if value < 2 ** (bits - 1) else value - 2**bits
        return value // 2 if value % 2 == 0 else -(value + 1) // 2

    def varint(self, most: int = 5) -> int:
        value = 0
        for place in range(most):
            byte: int = self.number("B")
            value += (byte & 127) << (7 * place)
            if byte < 128:
                return value
        raise AssertionError("long varint")

    def struct(self, fields: tuple[Field, ...], above: str) -> dict[str, Any]:
        now = [field for field in fields if self.version in field.versions]
        plain = {field.name: self.field(field, above) for field in now if field.tag is None}
        tagged = {field.name: default_of(field, self.version) for field in now if field.tag is not None}
        unknown = {}
        if self.flexible:
            self.tags_start = self.at if not above else self.tags_start
            by_tag = {field.tag: field for field in now if field.tag is not None}
            for _ in range(self.varint()):
                tag, size = self.varint(), self.varint()
                if tag in by_tag:
                    tagged[by_tag[tag].name] = self.field(by_tag[tag], above)
                else:
                    unknown[tag] = self.take(size)
        return plain | tagged | ({"_tags": unknown} if unknown else {})

    def field(self, field: Field, above: str) -> Any:
        start = self.at
        value = self.value(field, above + field.name)
        self.spans.append((above + field.name, value, start, self.at))
        return value

    def value(self, field: Field, path: str) -> Any:
        nullable = self.version in field.nullable
        if field.is_array:
            count = self.length("i")
            assert count >= 0 or nullable
            return None if count < 0 else [self.one(field, path) for _ in range(count)]
        if field.fields and nullable:
            there = self.varint() == 1 if field.tag is not None else self.number("b") == 1
            return self.one(field, path) if there else None
        return self.one(field, path, nullable)

    def one(self, field: Field, path: str, nullable: bool = False) -> Any:
        if field.fields:
            return self.struct(field.fields, path + ".")
        type_ = field.element_at(self.version)
        if type_ in CODES:
            return self.number(CODES[type_])
        if "varint" in type_:
            return self.integer(type_)
        if type_ == "uuid":
            return self.take(16)
        size = self.length("h" if field.element == "string" else "i")
        assert size >= 0 or nullable
        if size < 0:
            return None
        return self.take(size).decode() if field.element == "string" else self.take(size)

    def length(self, code: str) -> int:
        return self.varint() - 1 if self.flexible else int(self.number(code))


class Writer:
    """Writes one body. `width`: the fewest bytes of a varint. `eager`: tagged fields are written even with defaults."""

    def __init__(self, message: Message, version: int, *, width: int = 1, eager: bool = False):
        self.message, self.version = message, version
        self.width, self.eager = width, eager
        self.flexible = version in message.flexible

    def write(self, values: Mapping[str, Any]) -> bytes:
        return self.struct(self.message.fields, values)

    def struct(self, fields: tuple[Field, ...], values: Mapping[str, Any]) -> bytes:
        now = [field for field in fields if self.version in field.versions]
        out = b"".join(self.value(field, values[field.name]) for field in now if field.tag is None)
        if not self.flexible:
            return out
        tags = dict(values.get("_tags", {}))
        for field in now:
            if field.tag is not None and (self.eager or values[field.name] != default_of(field, self.version)):
                tags[field.tag] = self.value(field, values[field.name])
        out += self.varint(len(tags))
        for tag in sorted(tags):
            out += self.varint(tag) + self.varint(len(tags[tag])) + tags[tag]
        return out

    def value(self, field: Field, value: Any) -> bytes:
        if field.is_array:
            return self.length("i", value) + b"".join(self.one(field, element) for element in value or [])
        if field.fields and self.version in field.nullable:
            there, null = (b"\x01", b"\x00") if field.tag is not None else (b"\x01", b"\xff")
            return null if value is None else there + self.one(field, value)
        return self.one(field, value)

    def one(self, field: Field, value: Any) -> bytes:
        if field.fields:
            return self.struct(field.fields, value)
        type_ = field.element_at(self.version)
        if type_ in CODES:
            return struct.pack(">" + CODES[type_], value)
        if "varint" in type_:
            return self.integer(type_, value)
        if type_ == "uuid":
            return bytes(value)
        data = value.encode() if isinstance(value, str) else value
        return self.length("h" if field.element == "string" else "i", data) + (data or b"")

    def length(self, code: str, value: Any) -> bytes:
        size = -1 if value is None else len(value)
        return self.varint(size + 1) if self.flexible else struct.pack(">" + code, size)

    def integer(self, type_: str, value: int) -> bytes:
        """Writes an integer in groups of 7 bits, by the name of its type."""
        bits = int(type_[-2:])
        assert -(2 ** (bits - 1)) <= value < 2 ** (bits - 1), "out of range"
        zigzag = 2 * value if value >= 0 else -2 * value - 1
        written = value % 2**bits if type_.startswith("unsigned") else zigzag
        return self.varint(written, most={16: 3, 32: 5, 64: 10}[bits])

    def varint(self, value: int, place: int = 1, most: int = 5) -> bytes:
        if value < 128 and place >= min(self.width, most):
            return bytes([value])
        return bytes([value % 128 + 128]) + self.varint(value // 128, place + 1, most)
