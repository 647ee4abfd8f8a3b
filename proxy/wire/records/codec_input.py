"""Helpers for all codecs: they import a library on its first use, and feed the input in pieces."""

from importlib import import_module
from typing import Any

from proxy.wire.errors import Malformed

# Small, because a codec copies the input behind a member's end, and there may be many small members.
PIECE = 8 << 10
# The output asked for at a time: some codecs allocate all of it before they know whether they need it.
STEP = 128 << 10

PACKAGES = {"snappy": "python-snappy", "lz4.frame": "lz4", "zstandard": "zstandard"}


def library(name: str) -> Any:
    """The module `name`; ModuleNotFoundError names the missing package."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"records of this codec need the package {PACKAGES[name]}", name=name) from error


def inside(data: memoryview, at: int, what: str) -> int:
    """Returns `at` unless it is behind the end. Errors: Malformed."""
    if at > len(data):
        raise Malformed(f"a {what} that does not end")
    return at


def next_piece(data: memoryview, at: int, what: str) -> tuple[memoryview, int]:
    """The next bytes to feed and the offset behind them; Malformed if there are none."""
    piece = data[at : at + PIECE]
    if not piece:
        raise Malformed(f"a {what} that does not end")
    return piece, at + len(piece)
