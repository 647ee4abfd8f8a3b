"""The kinds of settings' values: reading and writing them.

A kind reads what TOML has (a text, a number, a list) and what a flag or the environment has, which is always text; so
each takes its values as text too. `written` is the other way: the value as TOML has it, short and with its unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from proxy.schema.errors import Misread
from proxy.units import LARGEST_SIZE, digits, read_size, written_size

Read = TypeVar("Read")
Toml = str | int | float | bool | list[str]

# no node id, port or count is larger: Kafka's are int32
LARGEST_NUMBER = 2**31 - 1
# Linux' PATH_MAX, without the zero at the end
LONGEST_PATH = 4095
# characters of a wrong value that are shown of it
MAX_SHOWN = 60

TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MEASURE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value.

    Args:
        name: what is expected, as the reference page says it.
        read: what was written -> the value. Raises Misread.
        written: the value -> TOML.
        metavar: the placeholder for a value in `--help`.
        choices: all values there are, where they are few.
    """

    name: str
    read: Callable[[Any], Any]
    written: Callable[[Any], Toml]
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()


def shown(raw: Any) -> str:
    """The raw value for a sentence about it: in Python's notation, and cut off if it is long."""
    if isinstance(raw, list | dict):
        return "[...]" if isinstance(raw, list) else "{...}"
    if isinstance(raw, int) and abs(raw).bit_length() > MAX_SHOWN * 3:
        return "(a number of very many digits)"
    return cut(repr(raw))


def cut(line: str, max_length: int = MAX_SHOWN) -> str:
    """A text, or its beginning."""
    return line if len(line) <= max_length else line[: max_length - 3] + "..."


def text(raw: Any) -> str:
    """A visible text, without blanks around it. Raises Misread."""
    if not isinstance(raw, str):
        raise Misread("is no text")
    if not raw.strip() or not raw.isprintable():
        raise Misread("is empty" if not raw.strip() else "has characters that nobody can see")
    return raw.strip()


def each(parts: Iterable[Any], read: Callable[[Any], Read]) -> tuple[Read, ...]:
    """The values of all parts, by a kind's `read`. Raises Misread with all wrong parts."""
    found, wrong = [], []
    for part in parts:
        try:
            found.append(read(part))
        except Misread as error:
            wrong.append(str(error))
    if wrong:
        raise Misread(", and ".join(dict.fromkeys(wrong)))
    return tuple(found)


def _integer(raw: Any) -> int:
    number = digits(raw) if isinstance(raw, str) and re.fullmatch(r"\s*-?[0-9]+\s*", raw) else raw
    if isinstance(number, bool) or not isinstance(number, int):
        raise Misread("is no whole number")
    if abs(number) > LARGEST_NUMBER:
        raise Misread("is too large")
    return number


def _size(raw: Any) -> int:
    size = read_size(raw) if isinstance(raw, str) else raw
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise Misread("is no size")
    if size > LARGEST_SIZE:
        raise Misread("is too large")
    return size


def _written_size(size: int) -> Toml:
    return written_size(size) if size else size


def _seconds(raw: Any) -> float:
    """Plain numbers are seconds."""
    seconds = _measured(raw) if isinstance(raw, str) else raw
    # written so that "not a number" is wrong too
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise Misread("is no time to wait")
    # infinity is refused, too: the kernel and the clock need a number
    if seconds > LARGEST_SIZE:
        raise Misread("is too long")
    return float(seconds)


def _measured(raw: str) -> float:
    found, factors = _MEASURE.fullmatch(raw), TIMES | {"": 1.0}
    if found is None or found[2].lower() not in factors:
        raise Misread("is no time to wait")
    return float(found[1]) * factors[found[2].lower()]


def _written_seconds(seconds: float) -> Toml:
    for unit in ("h", "m", "s"):
        if seconds and not seconds % TIMES[unit]:
            return f"{int(seconds / TIMES[unit])}{unit}"
    return f"{seconds!r}s" if "e" not in repr(seconds) else seconds


def _switch(raw: Any) -> bool:
    if isinstance(raw, str) and raw.strip().lower() in ("true", "false"):
        return raw.strip().lower() == "true"
    if not isinstance(raw, bool):
        raise Misread("is neither true nor false")
    return raw


def within(max_bytes: int, raw: Any) -> str:
    """A text of so many bytes at most. Raises Misread."""
    found = text(raw)
    if len(found.encode()) > max_bytes:
        raise Misread(f"is longer than {max_bytes} bytes")
    return found


def _path(raw: Any) -> Path:
    return Path(within(LONGEST_PATH, raw))


def _file(raw: Any) -> Path:
    path = _path(raw)
    if path.name in ("", ".."):
        raise Misread("is the path of a folder, not of a file")
    return path


def _password(raw: Any) -> str:
    """Any text, as it is: blanks may be part of it."""
    if not isinstance(raw, str):
        raise Misread("is no text")
    return raw


def _above_zero(kind: Kind) -> Kind:
    def read(raw: Any) -> Any:
        value = kind.read(raw)
        if not value:
            raise Misread("lets nothing through")
        return value

    return replace(kind, read=read)


def _count(raw: Any) -> int:
    number = _integer(raw)
    if number < 1:
        raise Misread("is not above 0")
    return number


INTEGER = Kind("a whole number", _integer, int, "NUMBER")
COUNT = Kind("a whole number above 0", _count, int, "COUNT")
SIZE = Kind('bytes, or text such as "64MiB"', _size, _written_size, "SIZE")
LIMIT = _above_zero(SIZE)
SECONDS = Kind('seconds, or text such as "500ms", "10s", "2m"', _seconds, _written_seconds, "SECONDS")
TIMEOUT = _above_zero(SECONDS)
SWITCH = Kind("true or false", _switch, bool)
PATH = Kind("a path", _path, str, "PATH")
FOLDER = replace(PATH, metavar="FOLDER")
FILE = Kind("the path of a file", _file, str, "FILE")
PASSWORD = Kind("a text", _password, str)


def choice(names: type[StrEnum]) -> Kind:
    """One of an enum's values."""
    known = tuple(name.value for name in names)

    def read(raw: Any) -> StrEnum:
        if raw not in known:
            raise Misread(f"is none of {', '.join(known)}")
        return names(raw)

    return Kind(" or ".join(f'"{name}"' for name in known), read, lambda value: str(value.value), choices=known)
