"""Sizes as people write them: "64MiB" <-> a number of bytes."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4
SIZES = {"TiB": TIB, "GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}
# no file is larger
LARGEST_SIZE = 2**63 - 1
# digits of the largest size; Python refuses to read thousands of digits
MAX_DIGITS = 19
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
