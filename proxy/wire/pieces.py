"""Bytes in several buffers, so that large parts of a message need not be copied.

A request of a megabyte may get a new head and keep its records; copying the records would take longer than all other
work on the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.wire.primitives import Buffer

# Fewer bytes than these are copied: a list of small pieces costs more than their bytes.
LARGE = 16 << 10


class Pieces:
    """Buffers of bytes, one behind the other. `bytes()` joins them in a copy; `len()` is the number of all bytes."""

    __slots__ = ("_size", "buffers")

    def __init__(self, buffers: Sequence[Buffer | Pieces]) -> None:
        """Small neighbours become one buffer."""
        self.buffers: Sequence[Buffer]
        if len(buffers) == 1 and isinstance(buffers[0], bytes):
            self.buffers, self._size = (buffers[0],), len(buffers[0])
            return
        self._size = sum(map(len, buffers))
        if self._size < LARGE:
            try:
                self.buffers = (b"".join(buffers),)  # type: ignore[arg-type]  # most have none of these
            except TypeError:
                self.buffers = (b"".join([bytes(one) if isinstance(one, Pieces) else one for one in buffers]),)
        else:
            self.buffers = _gathered(buffers)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.buffers)

    def __repr__(self) -> str:
        return f"<Pieces of {', '.join(str(len(one)) for one in self.buffers)} bytes>"


def _gathered(buffers: Sequence[Buffer | Pieces]) -> list[Buffer]:
    found: list[Buffer] = []
    small: list[Buffer] = []
    for one in buffers:
        for piece in one.buffers if isinstance(one, Pieces) else (one,):
            if len(piece) < LARGE:
                small.append(piece)
                continue
            if small:
                found.append(b"".join(small))
                small = []
            found.append(piece)
    if small:
        found.append(b"".join(small))
    return found
