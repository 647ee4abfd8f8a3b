"""The limit on bytes of responses that all connections together hold to rewrite them (`connection/rewriting.py`).

A large frame waits to be admitted while the bytes of other frames fill the limit. Frames are admitted in the order of
their arrival: a small frame waits behind a larger one, because the larger one might never fit otherwise.

An admitted frame waits for its own broker and its own client only. So the queue moves on as long as clients read their
responses. While the queue is empty, a client that reads nothing may keep its bytes for ever. While a frame waits in the
queue, a connection with an admitted frame is ended once no byte has moved on it for `stalled_seconds`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

import trio

# frames up to this size are not counted: most are so small, and take less memory than their connection's buffers
COUNTED_ABOVE = 256 * 1024


class Holder(Protocol):
    """The connection of an admitted frame."""

    @property
    def progress(self) -> int | None:
        """A number that grows while bytes move; None while the connection waits for the recorder."""

    def end_as_stalled(self) -> None:
        """Ends the connection, because other connections' frames wait for the bytes that it holds."""


class _Waiter(NamedTuple):
    """A frame that waits to be admitted. `admitted`: set once the frame is."""

    size: int
    admitted: trio.Event


class HeldBytes:
    """The bytes of admitted frames, and the queue of waiting ones. A frame larger than the limit is admitted alone."""

    def __init__(self, limit: int, stalled_seconds: float) -> None:
        self._limit = limit
        self._stalled_seconds = stalled_seconds
        self._held = 0
        self._shares: set[Share] = set()
        # waiting frames, oldest first
        self._queue: OrderedDict[Share, _Waiter] = OrderedDict()
        # while a frame waits: each holder's progress at the last check, and the time of the next check
        self._last_progress: dict[Share, int | None] = {}
        self._check_at = 0.0

    async def reserve(self, share: Share, size: int) -> None:
        """Returns when the share may hold `size` bytes."""
        if not self._queue:
            if self._has_room(size):
                self._admit(share, size)
                return
            self._note_progress()
        waiter = self._queue[share] = _Waiter(size, trio.Event())
        try:
            await self._until_admitted(waiter)
        finally:
            if not waiter.admitted.is_set():
                del self._queue[share]
                # the frames behind a cancelled one may be smaller
                self._admit_waiting()

    @property
    def held_bytes(self) -> int:
        """The bytes of admitted frames. In any thread."""
        return self._held

    @property
    def waiting(self) -> int:
        """The number of frames that wait to be admitted. In any thread."""
        return len(self._queue)

    def release(self, share: Share) -> None:
        """Gives back the bytes of a share."""
        self._shares.remove(share)
        # the connection's next frame starts without a last progress
        self._last_progress.pop(share, None)
        self._held -= share.size
        share.size = 0
        self._admit_waiting()

    def _has_room(self, size: int) -> bool:
        return not self._held or self._held + size <= self._limit

    def _admit(self, share: Share, size: int) -> None:
        self._held += size
        share.size = size
        self._shares.add(share)

    def _admit_waiting(self) -> None:
        """Admits waiting frames, the oldest first, as long as they fit."""
        while self._queue:
            share, waiter = next(iter(self._queue.items()))
            if not self._has_room(waiter.size):
                return
            del self._queue[share]
            self._admit(share, waiter.size)
            waiter.admitted.set()

    async def _until_admitted(self, waiter: _Waiter) -> None:
        while not waiter.admitted.is_set():
            with trio.move_on_at(self._check_at):
                await waiter.admitted.wait()
            # the waiting task that wakes first checks the holders for all waiting tasks
            if self._check_at <= trio.current_time():
                self._end_stalled()
                self._note_progress()

    def _note_progress(self) -> None:
        """Notes each holder's progress, and sets the time of the next check."""
        self._last_progress = {share: share.holder.progress for share in self._shares}
        self._check_at = trio.current_time() + self._stalled_seconds

    def _end_stalled(self) -> None:
        for share, progress in [*self._last_progress.items()]:
            if share in self._shares and progress is not None and progress == share.holder.progress:
                share.holder.end_as_stalled()


class Share:
    """One connection's part of the limit. `size`: the counted bytes of its admitted frame; 0 if there is none."""

    def __init__(self, held: HeldBytes, holder: Holder) -> None:
        self.holder = holder
        self.size = 0
        self._held = held

    async def take(self, size: int) -> None:
        """Waits until the connection may hold `size` bytes. Returns at once if `size` is not counted."""
        if size > COUNTED_ABOVE:
            await self._held.reserve(self, size)

    def release(self) -> None:
        """Gives back the bytes, if there are any."""
        if self.size:
            self._held.release(self)
