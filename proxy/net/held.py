"""The limit on bytes that all connections together may hold.

Who wants to hold a large frame waits while the others hold too much. A frame that is held waits for its own broker and
its own client only; so a client that takes nothing could keep its share for ever. It may while nobody wants it: who
waits, though, looks at those who hold, and ends the connections on which no byte has moved for `stalled_seconds`.
"""

from __future__ import annotations

from typing import Protocol

import trio

# smaller frames are let by: they are most, and what they hold is less than their connection's buffers
SMALL = 256 * 1024


class Holder(Protocol):
    """The connection that a held frame belongs to."""

    @property
    def progress(self) -> int | None:
        """A number that grows with every byte that moves on it; None while it waits for the proxy itself."""

    def stall(self) -> None:
        """Ends it: others wait for what it holds."""


class HeldBytes:
    """What is held, by whom. A frame above the limit is let through alone."""

    def __init__(self, limit: int, stalled_seconds: float) -> None:
        self._limit = limit
        self._stalled_seconds = stalled_seconds
        self._held = 0
        self._shares: set[Share] = set()
        self._freed = trio.Event()

    async def reserve(self, share: Share, size: int) -> None:
        """Returns when the share may be of `size` bytes."""
        seen, deadline = self._look()
        while self._held and self._held + size > self._limit:
            with trio.move_on_at(deadline) as patience:
                await self._freed.wait()
            if patience.cancelled_caught:
                self._end_stalled(seen)
                seen, deadline = self._look()
        self._held += size
        share.size = size
        self._shares.add(share)

    def release(self, share: Share) -> None:
        """Gives back what was reserved."""
        self._shares.remove(share)
        self._held -= share.size
        share.size = 0
        self._freed.set()
        self._freed = trio.Event()

    def _look(self) -> tuple[dict[Share, int | None], float]:
        """How far each holder has come, and when to look again."""
        return {share: share.holder.progress for share in self._shares}, trio.current_time() + self._stalled_seconds

    def _end_stalled(self, seen: dict[Share, int | None]) -> None:
        for share, progress in seen.items():
            if share in self._shares and progress is not None and progress == share.holder.progress:
                share.holder.stall()


class Share:
    """One frame's part of what may be held. Small frames have none: they need not wait."""

    def __init__(self, held: HeldBytes, holder: Holder) -> None:
        self.holder = holder
        self.size = 0
        self._held = held

    async def take(self, size: int) -> None:
        """Waits until `size` bytes may be held."""
        if size > SMALL:
            await self._held.reserve(self, size)

    def release(self) -> None:
        """Gives it back; nothing happens the second time."""
        if self.size:
            self._held.release(self)
