"""The limit on bytes that all connections together may hold.

A large frame waits while other frames hold too much. Waiting frames are admitted in the order in which they came: a
frame that would fit waits behind a larger one, which would never have its turn otherwise.

A frame that is held waits for its own broker and its own client only, never for another frame. So the queue moves on as
long as clients take what they are sent. A client that takes nothing could keep its share for ever, and may while no
frame waits. While one does, a connection that holds a frame is ended once no byte has moved on it for
`stalled_seconds`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

import trio

# smaller frames are not counted: most frames are, and they take less memory than their connection's buffers
SMALL = 256 * 1024


class Holder(Protocol):
    """The connection that a held frame belongs to."""

    @property
    def progress(self) -> int | None:
        """A number that grows with every byte that moves; None while the connection waits for the proxy itself."""

    def stall(self) -> None:
        """Ends the connection: other frames wait for the bytes that it holds."""


class _Waiter(NamedTuple):
    """A frame that waits to be admitted. `granted`: set once it is."""

    size: int
    granted: trio.Event


class HeldBytes:
    """The bytes that are held, and the frames that wait. A frame larger than the limit is admitted alone."""

    def __init__(self, limit: int, stalled_seconds: float) -> None:
        self._limit = limit
        self._stalled_seconds = stalled_seconds
        self._held = 0
        self._shares: set[Share] = set()
        # in the order in which they came
        self._queue: OrderedDict[Share, _Waiter] = OrderedDict()
        # while a frame waits: each holder's progress when last checked, and when to check again
        self._seen: dict[Share, int | None] = {}
        self._look_at = 0.0

    async def reserve(self, share: Share, size: int) -> None:
        """Returns when the share may hold `size` bytes."""
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
        """Gives back the bytes of a share."""
        self._shares.remove(share)
        # the connection's next frame has all the time again
        self._seen.pop(share, None)
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
        """Admits waiting frames, the oldest first, as long as they fit."""
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
            # of all waiting tasks, the first to wake checks the holders for all
            if self._look_at <= trio.current_time():
                self._end_stalled()
                self._look()

    def _look(self) -> None:
        """Notes each holder's progress."""
        self._seen = {share: share.holder.progress for share in self._shares}
        self._look_at = trio.current_time() + self._stalled_seconds

    def _end_stalled(self) -> None:
        for share, progress in [*self._seen.items()]:
            if share in self._shares and progress is not None and progress == share.holder.progress:
                share.holder.stall()


class Share:
    """One connection's share of the bytes that may be held, for a frame at a time. Small frames take none."""

    def __init__(self, held: HeldBytes, holder: Holder) -> None:
        self.holder = holder
        self.size = 0
        self._held = held

    async def take(self, size: int) -> None:
        """Waits until `size` bytes may be held."""
        if size > SMALL:
            await self._held.reserve(self, size)

    def release(self) -> None:
        """Gives the bytes back; nothing happens the second time."""
        if self.size:
            self._held.release(self)
