"""The kinds of settings' values. A kind reads what a user wrote, and writes a value as TOML.

TOML has texts, numbers and lists; flags and the environment have only texts. So every kind also reads its values from
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from proxy.schema.errors import InvalidValue
from proxy.schema.toml import pieces
from proxy.units import LARGEST_SIZE, digits, read_size, read_time, written_size, written_time

Read = TypeVar("Read")
Toml = str | int | float | bool | list[str]

# the largest node id, port or count: Kafka's are int32
LARGEST_NUMBER = 2**31 - 1
# bytes of the longest path: PATH_MAX of Linux, without the zero at the end
LONGEST_PATH = 4095
# characters of a wrong value that an error shows
MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    Args:
        name: the kind's name on the reference page, such as "a path".
        read: what a user wrote -> the value. Raises InvalidValue.
        written: the value -> a value for TOML, short and with its unit.
        metavar: the placeholder for a value in `--help`.
        choices: all possible values, if they are few; otherwise empty.
    """

    name: str
    read: Callable[[Any], Any]
    written: Callable[[Any], Toml]
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()


def shown(raw: Any) -> str:
    """A raw value for an error: in Python's notation, cut off if it is long."""
    if isinstance(raw, list | dict):
        return "[...]" if isinstance(raw, list) else "{...}"
    if isinstance(raw, int) and abs(raw).bit_length() > MAX_SHOWN * 3:
        return "(a number of very many digits)"
    return cut(repr(raw))


def cut(line: str, max_length: int = MAX_SHOWN) -> str:
    """The text; if it is longer than `max_length`, its beginning and "..."."""
    return line if len(line) <= max_length else line[: max_length - 3] + "..."


def text(raw: Any) -> str:
    """The text without blanks around it. Raises InvalidValue for no text, an empty or a partly invisible one."""
    if not isinstance(raw, str):
        raise InvalidValue("is no text")
    if not raw.strip() or not raw.isprintable():
        raise InvalidValue("is empty" if not raw.strip() else "has characters that nobody can see")
    return raw.strip()


def each(parts: Iterable[Any], read: Callable[[Any], Read]) -> tuple[Read, ...]:
    """The values of all parts, by `read`. Raises one InvalidValue that names all wrong parts."""
    values, wrong = [], []
    for part in parts:
        try:
            values.append(read(part))
        except InvalidValue as error:
            wrong.append(str(error))
    if wrong:
        raise InvalidValue(", and ".join(dict.fromkeys(wrong)))
    return tuple(values)


def elements(raw: Any) -> Any:
    """The elements of a list, or of a text as `pieces` reads it; anything else as it is. Raises InvalidValue."""
    try:
        return pieces(raw) if isinstance(raw, str) else raw
    except ValueError as error:
        raise InvalidValue(str(error)) from error


def _integer(raw: Any) -> int:
    number = digits(raw) if isinstance(raw, str) and re.fullmatch(r"\s*-?[0-9]+\s*", raw) else raw
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidValue("is no whole number")
    if abs(number) > LARGEST_NUMBER:
        raise InvalidValue("is too large")
    return number


def _size(raw: Any) -> int:
    size = read_size(raw) if isinstance(raw, str) else raw
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InvalidValue("is no size")
    if size > LARGEST_SIZE:
        raise InvalidValue("is too large")
    return size


def _written_size(size: int) -> Toml:
    return written_size(size) if size else size


def _seconds(raw: Any) -> float:
    """The seconds of a number, or of a text with or without a unit."""
    seconds = read_time(raw) if isinstance(raw, str) else raw
    # `not seconds >= 0` is true for NaN too
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidValue("is no duration")
    # refuses infinity too, which neither the kernel nor the clock takes
    if seconds > LARGEST_SIZE:
        raise InvalidValue("is too long")
    return float(seconds)


def _written_seconds(seconds: float) -> Toml:
    written = written_time(seconds)
    # no unit stands behind an exponent
    return seconds if "e" in written else written


def _switch(raw: Any) -> bool:
    if isinstance(raw, str) and raw.strip().lower() in ("true", "false"):
        return raw.strip().lower() == "true"
    if not isinstance(raw, bool):
        raise InvalidValue("is neither true nor false")
    return raw


def text_within(max_bytes: int, raw: Any) -> str:
    """A text of `max_bytes` at most. Raises InvalidValue."""
    value = text(raw)
    if len(value.encode()) > max_bytes:
        raise InvalidValue(f"is longer than {max_bytes} bytes")
    return value


def _path(raw: Any) -> Path:
    return Path(text_within(LONGEST_PATH, raw))


def _file(raw: Any) -> Path:
    path = _path(raw)
    if path.name in ("", ".."):
        raise InvalidValue("is the path of a folder, not of a file")
    return path


def _password(raw: Any) -> str:
    """Any text, unchanged: blanks may be part of a password."""
    if not isinstance(raw, str):
        raise InvalidValue("is no text")
    return raw


def _above_zero(kind: Kind) -> Kind:
    def read(raw: Any) -> Any:
        value = kind.read(raw)
        if not value:
            raise InvalidValue("lets nothing through")
        return value

    return replace(kind, read=read)


def at_least(seconds: float) -> Kind:
    """The kind of times that are this long at least."""

    def read(raw: Any) -> Any:
        value = TIMEOUT.read(raw)
        if value < seconds:
            raise InvalidValue(f"is shorter than {seconds:g}s")
        return value

    return replace(TIMEOUT, read=read)


def _count(raw: Any) -> int:
    number = _integer(raw)
    if number < 1:
        raise InvalidValue("is not above 0")
    return number


INTEGER = Kind("a whole number", _integer, int, "NUMBER")
COUNT = Kind("a whole number above 0", _count, int, "COUNT")
SIZE = Kind('bytes, or text such as "64MiB"', _size, _written_size, "SIZE")
LIMIT = _above_zero(SIZE)
SECONDS = Kind('seconds, or text such as "500ms", "10s", "2m"', _seconds, _written_seconds, "SECONDS")
TIMEOUT = _above_zero(SECONDS)
# for what peers and networks do: a shorter time would be over before anything can happen
NETWORK_TIMEOUT = at_least(0.01)
SWITCH = Kind("true or false", _switch, bool)
PATH = Kind("a path", _path, str, "PATH")
FOLDER = replace(PATH, metavar="FOLDER")
FILE = Kind("the path of a file", _file, str, "FILE")
PASSWORD = Kind("a text", _password, str)


def choice(names: type[StrEnum]) -> Kind:
    """The kind whose values are those of an enum."""
    known = tuple(name.value for name in names)

    def read(raw: Any) -> StrEnum:
        if raw not in known:
            raise InvalidValue(f"is none of {', '.join(known)}")
        return names(raw)

    return Kind(" or ".join(f'"{name}"' for name in known), read, lambda value: str(value.value), choices=known)
