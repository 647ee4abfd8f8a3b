"""What can be wrong with bytes: one family, so that a caller catches one name.

The peer is at fault, never the caller: whoever reads a frame catches `WireError` and decides (forward it opaque,
close the connection). Each error names the message, its version and the offset in the buffer as far as they are
known.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class WireError(ValueError):
    """Bytes and message don't fit. `offset` counts from the start of the buffer that was read; None where encoding
    failed.
    """

    def __init__(self, reason: str, *, api: str | None = None, version: int | None = None, offset: int | None = None):
        super().__init__(reason)
        self.reason = reason
        self.api = api
        self.version = version
        self.offset = offset

    def __str__(self) -> str:
        where = [self.api] if self.api else []
        where += [f"v{self.version}"] if self.version is not None else []
        where += [f"at byte {self.offset}"] if self.offset is not None else []
        return f"{' '.join(where)}: {self.reason}" if where else self.reason


class Truncated(WireError):
    """The bytes end before the message does."""


class Malformed(WireError):
    """The bytes, or the values to encode, can't be that message."""


class OverBudget(WireError):
    """The bytes may well be that message, but what they come to is more than a `Budget` allows, or a limit.

    `values`: what of a body had been decoded by then; None where that is nothing, or no body.
    """

    values: dict[str, Any] | None = None


def in_bytes(size: int) -> str:
    """A size as people read it: "1 byte", "2 bytes"."""
    return f"{size} byte" if size == 1 else f"{size} bytes"


@contextmanager
def naming(api: str, version: int | None = None, offset: int | None = None) -> Iterator[None]:
    """Errors raised within, by what knows bytes and no messages, get the message's name and version.

    `offset`: for those that don't know where they are.
    """
    try:
        yield
    except WireError as fault:
        if fault.api is None:
            fault.api, fault.version = api, version
        if fault.offset is None:
            fault.offset = offset
        raise
