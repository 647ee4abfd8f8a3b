"""A tree of values as lines of text.

Bytes are shown with their length, as text if they are readable, otherwise as hex. Long bytes are cut, and "..." marks
the cut.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, NamedTuple

from proxy.terminal import is_visible, printable, quoted
from proxy.tools.tree import Masked
from proxy.wire.error_codes import is_error_code, kafka_error
from proxy.wire.errors import in_bytes

INDENT = "  "
# fields whose numbers have names in Kafka: of share groups (KIP-932, KIP-1206, KIP-1222)
_NAMED_VALUES: Mapping[str, Sequence[str]] = {
    "acknowledge_types": ("gap", "accept", "release", "reject", "renew"),
    "share_acquire_mode": ("batch_optimized", "record_limit"),
}
_CONSTANTS = {None: "null", True: "true", False: "false"}
_WORDS = ("", "masked", *_CONSTANTS.values())


class Line(NamedTuple):
    """A line, and the path of the field that it shows, outermost first. Elements of an array have the array's path."""

    text: str
    path: tuple[str, ...]


def as_lines(values: Mapping[str, Any], depth: int, most: int) -> Iterator[str]:
    """A line for each value. Structs are indented, elements of arrays have a dash. `most`: bytes shown of a value."""
    return (line.text for line in lines(values, depth, most))


def lines(values: Mapping[str, Any], depth: int, most: int, path: tuple[str, ...] = ()) -> Iterator[Line]:
    """As `as_lines`, with the path of each line."""
    for name, value in values.items():
        yield from _named(printable(name), value, depth, most, (*path, name))


def _named(name: str, value: Any, depth: int, most: int, path: tuple[str, ...]) -> Iterator[Line]:
    indent = INDENT * depth
    if isinstance(value, dict) and value:
        yield Line(f"{indent}{name}:", path)
        yield from lines(value, depth + 1, most, path)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        yield Line(f"{indent}{name}:", path)
        for one in value:
            yield from _item(one, depth + 1, most, path)
    else:
        yield Line(f"{indent}{name}: {_scalar(name, value, most)}", path)


def _item(value: Any, depth: int, most: int, path: tuple[str, ...]) -> Iterator[Line]:
    """The lines of an element of an array that holds structs; the first line has the dash."""
    if not isinstance(value, dict):
        yield Line(f"{INDENT * depth}- {_scalar('', value, most)}", path)
        return
    dash = True
    for line in lines(value, depth + 1, most, path):
        yield line._replace(text=f"{INDENT * depth}- {line.text[len(INDENT) * (depth + 1) :]}") if dash else line
        dash = False
    if dash:
        yield Line(f"{INDENT * depth}- {{}}", path)


def _scalar(name: str, value: Any, most: int) -> str:
    if isinstance(value, Masked):
        return "masked" if value.length is None else f"masked, {in_bytes(value.length)}"
    if isinstance(value, bytes | bytearray | memoryview):
        return _octets(bytes(value), most)
    if isinstance(value, list):
        return _list(name if name in _NAMED_VALUES else "", value, most)
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    if told := error_name(name, value) or _value_name(name, value):
        return f"{value} {told}"
    return str(value) if not isinstance(value, str) else _text(value)


def _list(name: str, values: list[Any], most: int) -> str:
    """The values in one line; they are written one by one because there may be millions. `name`: of their field, if its
    values have names.
    """
    line = StringIO()
    for number, one in enumerate(values):
        line.write(f"{', ' if number else ''}{_scalar(name, one, most)}")
    return f"[{line.getvalue()}]"


def _text(value: str) -> str:
    """The text, in quotes if a reader could mistake it: if it is empty, has blanks at its ends, or is in _WORDS."""
    seen = value.strip() == value and value not in _WORDS and value[0] not in "'\""
    return printable(value) if seen else quoted(value)


def _octets(value: bytes, most: int) -> str:
    told = readable(value, most)
    shown = value[:most].hex(" ") if told is None else quoted(told)
    is_cut = (min(most, len(value)) if told is None else len(told.encode())) < len(value)
    return f"{in_bytes(len(value))}{': ' + shown if value and most else ''}{' ...' if most and is_cut else ''}"


def readable(value: bytes, most: int | None = None) -> str | None:
    """The bytes, or the whole letters among the first `most`, as text; None if they are empty or no printable UTF-8."""
    head = value if most is None else value[:most]
    try:
        text = getincrementaldecoder("utf-8")().decode(head, final=len(head) == len(value))
    except UnicodeDecodeError:
        return None
    return text if text and is_visible(text, but="\t\r\n") else None


def _value_name(name: str, value: Any) -> str | None:
    """The name of a field's value, if Kafka has one for it."""
    names = _NAMED_VALUES.get(name, ())
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def error_name(name: str, value: Any) -> str | None:
    """The error's name, if the field's value is the code of an error."""
    is_code = is_error_code(name) and isinstance(value, int) and value
    return kafka_error(value).name if is_code else None
