"""The integer types of the message language: how wide a value is, and how it is written.

A type is a width and an encoding, and its name says both: int32 is 32 bits in the fixed encoding, varint32 in the
signed one, unsigned_varint32 in the unsigned one. All three hold the same values, -2**31 to 2**31 - 1: "signed" and
"unsigned" say which numbers are short, not which are allowed (KAFKA-9927). The language's modifier `encoding` has names
of its own: fixed32, signed32, unsigned32. This module knows names, no bytes; `varints.py` reads and writes the bytes.
"""

from enum import StrEnum
from typing import NamedTuple


class Encoding(StrEnum):
    """The encoding of an integer: all bytes of its width, or groups of 7 bits."""

    FIXED = "fixed"  # big-endian
    SIGNED = "signed"  # zigzag: small numbers on both sides of 0 are short
    UNSIGNED = "unsigned"  # two's complement: small numbers from 0 on are short, negative ones take all bytes


class Integer(NamedTuple):
    """A width in bits (16, 32 or 64 unless the encoding is fixed) and an encoding."""

    bits: int
    encoding: Encoding

    @property
    def name(self) -> str:
        """The type's name: "varint32"."""
        return f"{_PREFIXES[self.encoding]}{self.bits}"

    @property
    def max_bytes(self) -> int:
        """Bytes of the longest value."""
        return self.bits // 8 if self.encoding is Encoding.FIXED else -(-self.bits // 7)


_PREFIXES = {Encoding.FIXED: "int", Encoding.SIGNED: "varint", Encoding.UNSIGNED: "unsigned_varint"}
WIDTHS = (16, 32, 64)  # the widths with three encodings; a single byte can't get shorter

# type -> width and encoding
INTEGERS = {one.name: one for one in (Integer(bits, encoding) for encoding in Encoding for bits in WIDTHS)}
INTEGERS["int8"] = Integer(8, Encoding.FIXED)
VARINT_TYPES = tuple(name for name, one in INTEGERS.items() if one.encoding is not Encoding.FIXED)

# The names behind the modifier `encoding`: "unsigned32" -> width and encoding.
ENCODINGS = {f"{one.encoding}{one.bits}": one for one in INTEGERS.values() if one.bits in WIDTHS}


def widest(types: list[str]) -> str:
    """The fixed type that holds the values of all these integer types."""
    return Integer(max(INTEGERS[one].bits for one in types), Encoding.FIXED).name


def limits(type_: str) -> range:
    """The values of an integer type, uint16 and uint32 included. KeyError for any other."""
    if type_ in ("uint16", "uint32"):
        return range(1 << int(type_.removeprefix("uint")))
    top = 1 << INTEGERS[type_].bits - 1
    return range(-top, top)
