"""Sizes and times as people write them: "64MiB" <-> a number of bytes, "10m" <-> seconds."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4
SIZES = {"TiB": TIB, "GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}
# no file is larger
LARGEST_SIZE = 2**63 - 1
# digits of the largest size; Python refuses to read thousands of digits
MAX_DIGITS = 19
# the units of a time, each with the letters and the words for it; without a unit, a time is in seconds
TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WORDS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
_UNITS = TIMES | _WORDS | {f"{word}s": seconds for word, seconds in _WORDS.items()} | {"": 1.0}
_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_SIZE = re.compile(r"\s*([0-9]+)\s*([A-Za-z]*)\s*")


def read_size(text: str) -> int | None:
    """The number of bytes; None if the text is no size. The unit is optional, and may be in small letters.

    Any size above LARGEST_SIZE gives some number above it.
    """
    found = _SIZE.fullmatch(text)
    factors = {unit.upper(): factor for unit, factor in SIZES.items()} | {"": 1}
    if found is None or found[2].upper() not in factors:
        return None
    return digits(found[1]) * factors[found[2].upper()]


def digits(written: str) -> int:
    """The number that the digits write; if they are too many, some number above LARGEST_SIZE."""
    written = written.strip()
    return int(written) if len(written) <= MAX_DIGITS else LARGEST_SIZE + 1


def written_size(size: int) -> str:
    """The size with the largest unit that leaves no remainder: "64MiB"; "0" without a unit."""
    return next((f"{size // factor}{unit}" for unit, factor in SIZES.items() if size and not size % factor), str(size))


def rounded_size(size: int) -> str:
    """The size with the largest unit that it fills, to one decimal place: "251.9GiB"."""
    unit, factor = next(((unit, factor) for unit, factor in SIZES.items() if size >= factor), ("B", 1))
    return f"{size / factor:.1f}".removesuffix(".0") + unit


def read_time(text: str) -> float | None:
    """The seconds of a time such as "500ms", "1.5h" or "10 minutes"; None if the text is none. Units are in any case.

    A time of very many digits is infinite.
    """
    found = _TIME.fullmatch(text)
    if found is None or found[2].lower() not in _UNITS:
        return None
    return float(found[1]) * _UNITS[found[2].lower()]


def written_time(seconds: float) -> str:
    """The time with the largest unit, up to days, that leaves no remainder: "2h"; else in seconds: "0.25s"."""
    for unit in ("d", "h", "m", "s"):
        if seconds and not seconds % TIMES[unit]:
            return f"{int(seconds / TIMES[unit])}{unit}"
    return f"{seconds!r}s"
