"""Errors of bytes that are no valid message: one family, so that a caller catches one name.

The peer is at fault, never the caller. The caller catches `WireError` and decides: forward the frame opaque, or close
the connection. Each error names the message, its version and the offset in the buffer as far as they are known.
"""

from types import TracebackType
from typing import Any


class WireError(ValueError):
    """Bytes and message don't fit. `offset`: in the buffer that was read; None if unknown, or if encoding failed."""

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
    """The message would take more memory or text than a `Budget` or a limit allows.

    `values`: the part of a body that had been decoded by then, if any.
    """

    values: dict[str, Any] | None = None


def in_bytes(size: int) -> str:
    """A size as people read it: "1 byte", "2 bytes"."""
    return f"{size} byte" if size == 1 else f"{size} bytes"


class naming:  # noqa: N801  # a context, as those of contextlib are named
    """A context that adds the message's name and version to each WireError raised within that lacks them.

    `offset`: for errors without one. This is a class because every batch of records is read within such a context: a
    generator with `contextmanager` takes four times as long.
    """

    __slots__ = ("_api", "_offset", "_version")

    def __init__(self, api: str, version: int | None = None, offset: int | None = None) -> None:
        self._api, self._version, self._offset = api, version, offset

    def __enter__(self) -> None:
        """Does nothing; `__exit__` handles the errors."""

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(fault, WireError):
            return
        if fault.api is None:
            fault.api, fault.version = self._api, self._version
        if fault.offset is None:
            fault.offset = self._offset
