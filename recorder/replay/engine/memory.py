"""Keeps what was read of the capture within `--memory`.

Below the limit, exchanges wait with their bytes. At the limit, reading stops until exchanges in play are settled. If
none is for a while, they may wait for something that stands further on in the capture, such as the other members of a
join. Reading then goes on beyond the limit: exchanges keep their place in the capture without their bytes, which are
loaded when the exchange may leave.
"""

from __future__ import annotations

from functools import partial

from recorder.replay.engine.channels import Load
from recorder.replay.engine.item import Item, State
from recorder.replay.engine.timers import Timers
from recorder.replay.plan import FramePlace, Origin
from recorder.replay.requests.apis import GROUP_APIS

# Memory of an item besides its bytes, and a factor for its bytes: frames, and once more their values or the target's
# answers. (Records have no values of their own: they are views of the frame.)
ITEM, TIMES = 2500, 2
# Memory that reading takes, a part of `--memory`: the narrow columns of a row group of 100,000 frames while they are
# sorted (48 MiB were measured), a window of frames, and frames that are read again.
READING = 64 << 20
# How long (ns) no exchange may become settled before reading goes on beyond the limit.
PATIENCE = 50 * 10**6
# How far beyond the limit reading goes on: some 25,000 exchanges without their bytes.
BEYOND = 64 << 20


class Memory:
    """Counts the bytes of one replay's exchanges. `limit`: `--memory`."""

    def __init__(self, limit: int, timers: Timers) -> None:
        self.used = 0
        self._limit, self._timers = max(limit - READING, limit // 4, 1), timers
        self._settled = 0
        self._reads_on = self._is_watched = False
        self._loading: dict[Origin, Item] = {}

    @property
    def has_room(self) -> bool:
        """True if more of the capture may be read."""
        return self.used < self._limit or (self._reads_on and self.used < self._limit + BEYOND)

    @property
    def _is_full(self) -> bool:
        return self.used >= self._limit

    def request_read(self, item: Item, now: int) -> None:
        """Counts a request that was read."""
        exchange = item.exchange
        # the groups room needs these bytes before they leave: it looks ahead at members' requests
        if self.used >= self._limit and exchange.place is not None and exchange.api_key not in GROUP_APIS:
            exchange.frame, item.lacks_bytes = None, True
        self._take(item, ITEM + TIMES * len(exchange.frame or b""), now)

    def answer_read(self, item: Item, place: FramePlace | None, now: int) -> None:
        """Counts the recorded answer of an item. Everything that other items need was learned from it."""
        exchange = item.exchange
        if item.lacks_bytes and place is not None and exchange.origin not in self._loading:
            exchange.answer_place = place
            exchange.drop_answer()
        self._take(item, TIMES * len(exchange.answer_frame or b""), now)

    def load(self, item: Item) -> Load | None:
        """The action that loads an item's bytes; None if they are being loaded."""
        exchange = item.exchange
        if exchange.origin in self._loading or exchange.place is None:
            return None
        self._loading[exchange.origin] = item
        return Load(exchange.origin, exchange.place, exchange.answer_place)

    def loaded(self, origin: Origin, frame: bytes | None, answer: bytes | None, now: int) -> Item | None:
        """Takes the bytes of an item; None for a frame that can't be read.

        Returns the item unless it was settled meanwhile.
        """
        item = self._loading.pop(origin, None)
        if item is None or item.state is State.SETTLED:
            return None
        item.lacks_bytes, item.exchange.frame = False, frame
        size = TIMES * len(frame or b"")
        if item.exchange.answer_place is not None:
            item.exchange.take_answer(item.exchange.answered_ns or 0, answer)
            size += TIMES * len(answer or b"")
        self._take(item, size, now)
        return item

    def settled(self, item: Item) -> None:
        """An item is settled. Its bytes count until its recorded answer was read."""
        self._settled += 1
        self._reads_on = False
        if item.is_recording_done:
            self.forget(item)

    def forget(self, item: Item) -> None:
        """Counts an item's bytes no longer."""
        self.used -= item.size
        item.size = 0

    def _take(self, item: Item, size: int, now: int) -> None:
        item.size += size
        self.used += size
        if self.used >= self._limit and not self._is_watched:
            self._watch(now)

    def _watch(self, now: int) -> None:
        self._is_watched = True
        self._timers.at(now + PATIENCE, partial(self._look, self._settled))

    def _look(self, settled: int, now: int) -> None:
        self._is_watched = False
        if self._is_full:
            self._reads_on = settled == self._settled
            self._watch(now)
