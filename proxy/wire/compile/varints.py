"""Writes the lines that read, step over and encode integers in groups of 7 bits.

Nearly all integers take one byte, which is read with the fixed fields before it; the written function calls
`proxy.wire.varints` for longer ones, and once for a whole array.
"""

from collections.abc import Callable

from proxy.wire.compile.cursor import Cursor
from proxy.wire.integers import Encoding, Integer


def read(cursor: Cursor, integer: Integer, target: str) -> None:
    """Reads the value into the variable `target`; nothing is left pending."""
    cursor.take("B", 1, target)
    cursor.flush()
    long = f"read_{integer.encoding}({integer.bits}, buf, at - 1)"
    cursor.source.line(f"if {target} > 127: {target}, at = {long}")
    if integer.encoding is Encoding.SIGNED:
        cursor.source.line(f"else: {target} = short_signed({target})")


def read_many(cursor: Cursor, integer: Integer, target: str, count: str, chunk: str) -> None:
    """Reads a list of `count` values into `target`; `chunk` is the expression for the next `count` bytes."""
    # Broker ids, for example, take one byte each; unsigned bytes are the numbers themselves.
    short = target if integer.encoding is Encoding.UNSIGNED else f"map(short_signed, {target})"
    cursor.source.line(f"{target} = {chunk}")
    cursor.source.line(f"if {target}.isascii(): {target}, at = list({short}), at + {count}")
    cursor.source.line(f"else: {target}, at = read_many_{integer.encoding}({integer.bits}, {count}, buf, at)")


def step_over(cursor: Cursor, integer: Integer) -> None:
    """Steps over one value."""
    cursor.length("B", 1)
    cursor.source.line(cursor.rest_of_integer.format(integer.max_bytes))


def write(put_short: Callable[[str, str, str, str], None], integer: Integer, value: str) -> None:
    """Encodes the variable `value`; `put_short` is the encoder's method for values of usually one byte."""
    long = f"{integer.encoding}({integer.bits}, {value})"
    if integer.encoding is Encoding.SIGNED:
        put_short(f"-65 < {value} < 64", "B", f"{value} << 1 ^ {value} >> 63", long)
    else:
        put_short(f"-1 < {value} < 128", "B", value, long)


def many(integer: Integer, value: str) -> str:
    """The expression for the bytes of a whole array."""
    return f"many_{integer.encoding}({integer.bits}, {value})"
