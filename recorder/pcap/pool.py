"""The memory that all connections of an import share: bytes that wait for others."""

from __future__ import annotations

# bytes that wait, of all connections, and of one
_ALL = 256 * 1024 * 1024
_EACH = 4 * 1024 * 1024
_LEAST = 64 * 1024


class Pool:
    """`used`: the bytes that wait now, of all connections."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = 0

    @property
    def share(self) -> int:
        """How many bytes of one connection may wait: few once most of the memory is used."""
        return _EACH if self.used < _ALL // 2 else _LEAST if self.used < _ALL else 0
