"""Sizes as people write them: "64MiB" and the number of bytes that it stands for."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4
SIZES = {"TiB": TIB, "GiB": GIB, "MiB": MIB, "KiB": KIB, "B": 1}
# no file is larger
LARGEST_SIZE = 2**63 - 1
# digits of the largest of them; Python refuses to read thousands
MOST_DIGITS = 19
_SIZE = re.compile(r"\s*([0-9]+)\s*([A-Za-z]*)\s*")


def read_size(text: str) -> int | None:
    """Bytes; None for what is no size. A number alone counts them, and units may be written small.

    What is larger than LARGEST_SIZE is some size that is larger.
    """
    found = _SIZE.fullmatch(text)
    factors = {unit.upper(): factor for unit, factor in SIZES.items()} | {"": 1}
    if found is None or found[2].upper() not in factors:
        return None
    return digits(found[1]) * factors[found[2].upper()]


def digits(written: str) -> int:
    """A number, or one that is too large for anything."""
    written = written.strip()
    return int(written) if len(written) <= MOST_DIGITS else LARGEST_SIZE + 1


def written_size(size: int) -> str:
    """The same size with the largest unit that leaves no remainder: "64MiB"; a number alone for nothing."""
    return next((f"{size // factor}{unit}" for unit, factor in SIZES.items() if size and not size % factor), str(size))
