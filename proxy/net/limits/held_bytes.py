"""The limit on bytes that all connections together may hold.

Who wants to hold a large frame waits while the others hold too much. Those who wait are let in in the order in which
they came: a frame for which there would be room waits behind a larger one, which would never have its turn otherwise.

A frame that is held waits for its own broker and its own client only, never for another frame; so the queue moves on as
long as clients take what they are sent. A client that takes nothing could keep its share for ever. It may while nobody
waits. While somebody does, a connection that holds a frame, and on which no byte has moved for `stalled_seconds`, is
ended.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

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


class _Waiter(NamedTuple):
    """A frame that waits for room, and what it waits for."""

    size: int
    granted: trio.Event


class HeldBytes:
    """What is held, by whom, and who waits for room. A frame above the limit is let through alone."""

    def __init__(self, limit: int, stalled_seconds: float) -> None:
        self._limit = limit
        self._stalled_seconds = stalled_seconds
        self._held = 0
        self._shares: set[Share] = set()
        # in the order in which they came
        self._queue: OrderedDict[Share, _Waiter] = OrderedDict()
        # while somebody waits: how far each holder had come when it was last looked at, and when to look again
        self._seen: dict[Share, int | None] = {}
        self._look_at = 0.0

    async def reserve(self, share: Share, size: int) -> None:
        """Returns when the share may be of `size` bytes."""
        if not self._queue:
            if self._has_room(size):
                self._grant(share, size)
                return
            self._look()
        waiter = self._queue[share] = _Waiter(size, trio.Event())
        try:
            await self._until_granted(waiter)
        finally:
            if not waiter.granted.is_set():
                del self._queue[share]
                # those behind it may need less
                self._admit()

    def release(self, share: Share) -> None:
        """Gives back what was reserved."""
        self._shares.remove(share)
        self._held -= share.size
        share.size = 0
        self._admit()

    def _has_room(self, size: int) -> bool:
        return not self._held or self._held + size <= self._limit

    def _grant(self, share: Share, size: int) -> None:
        self._held += size
        share.size = size
        self._shares.add(share)

    def _admit(self) -> None:
        """Lets in who has waited longest, and who comes next, as long as there is room for them."""
        while self._queue:
            share, waiter = next(iter(self._queue.items()))
            if not self._has_room(waiter.size):
                return
            del self._queue[share]
            self._grant(share, waiter.size)
            waiter.granted.set()

    async def _until_granted(self, waiter: _Waiter) -> None:
        while not waiter.granted.is_set():
            with trio.move_on_at(self._look_at):
                await waiter.granted.wait()
            # of all who wait, the first to wake looks for all
            if self._look_at <= trio.current_time():
                self._end_stalled()
                self._look()

    def _look(self) -> None:
        """Notes how far each holder has come."""
        self._seen = {share: share.holder.progress for share in self._shares}
        self._look_at = trio.current_time() + self._stalled_seconds

    def _end_stalled(self) -> None:
        for share, progress in self._seen.items():
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
