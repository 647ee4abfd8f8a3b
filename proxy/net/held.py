"""The limit on bytes that all connections together may hold."""

from __future__ import annotations

import trio

# smaller frames are let by: they are most, and what they hold is less than their connection's buffers
SMALL = 256 * 1024


class HeldBytes:
    """Who wants to hold a large frame waits here while the others hold too much.

    A frame that is held waits for its own broker and its own client only; but a client that does not take it keeps its
    share for as long as its connection lives. A frame above the limit is let through alone.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._freed = trio.Event()

    async def reserve(self, size: int) -> None:
        """Returns when a frame of `size` bytes may be held; small ones need not wait."""
        if size <= SMALL:
            return
        while self._held and self._held + size > self._limit:
            await self._freed.wait()
        self._held += size

    def release(self, size: int) -> None:
        """Gives back what was reserved, with the same size."""
        if size <= SMALL:
            return
        self._held -= size
        self._freed.set()
        self._freed = trio.Event()
