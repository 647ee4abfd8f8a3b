"""What all codecs begin with: their library, imported when it is first needed, and their input, in pieces."""

from importlib import import_module
from typing import Any

from proxy.wire.errors import Malformed

# Input is fed in pieces: what stands behind a member's end is copied by the codecs, with many small members each time.
PIECE = 8 << 10
# Some codecs allocate what they are asked for before they know whether they need it.
STEP = 128 << 10

PACKAGES = {"snappy": "python-snappy", "lz4.frame": "lz4", "zstandard": "zstandard"}


def library(name: str) -> Any:
    """The module `name`; ModuleNotFoundError says which package lacks."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"records of this codec need the package {PACKAGES[name]}", name=name) from error


def inside(data: memoryview, at: int, what: str) -> int:
    """`at` itself, if that is no place behind the end. Errors: Malformed."""
    if at > len(data):
        raise Malformed(f"a {what} that does not end")
    return at


def next_piece(data: memoryview, at: int, what: str) -> tuple[memoryview, int]:
    """The next bytes to feed and the offset behind them; Malformed where there are none."""
    piece = data[at : at + PIECE]
    if not piece:
        raise Malformed(f"a {what} that does not end")
    return piece, at + len(piece)
