"""The recording's side of a play: turns requests into items, gives items their recorded answers, ends lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from proxy.wire.errors import WireError
from proxy.wire.keys import INIT_PRODUCER_ID, PRODUCE
from recorder.replay.engine.item import Item, ItemState, Lane
from recorder.replay.engine.play import Play
from recorder.replay.plan import Exchange, FramePlace, Reason, Withheld
from recorder.replay.requests.apis import STEPS_OF_PRODUCERS
from recorder.replay.requests.order import Order, keys_of_answer
from recorder.replay.stream import AnswerRecorded, ConnectionClosed, Happening, RequestRecorded

# How far ahead of the play the capture is read: a long poll should know its recorded answer when it is due.
AHEAD_NS = 5 * 10**9


class RecordedSide:
    """The recording's side of a play. `complete`: called for an item that both sides have answered."""

    def __init__(self, play: Play, complete: Callable[[Item, int], None]) -> None:
        self._play, self._complete = play, complete
        self._order = Order(play.world.names.topic)
        self._read_ns = play.first_ns

    def wants(self, now: int) -> bool:
        """True if happenings should be fed: memory has room, and those fed are not far ahead of the play."""
        play = self._play
        if play.is_read or not play.memory.has_room:
            return False
        return play.options.speed is None or play.due(self._read_ns) < now + AHEAD_NS

    def feed(self, happenings: Iterable[Happening], now: int) -> None:
        """Takes the next happenings, as long as they are wanted."""
        for happening in happenings:
            self._read_ns = happening.ns
            if isinstance(happening, RequestRecorded):
                self._ask(happening.exchange, now)
            elif isinstance(happening, AnswerRecorded):
                self._answer(happening, now)
            elif isinstance(happening, ConnectionClosed):
                self._close(self._play.lane(happening.connection), happening.ns, now)
            if not self.wants(now):
                break

    def end(self, now: int) -> None:
        """The recording is over: requests without an answer have none."""
        self._play.is_read = True
        for lane in [*self._play.lanes.values()]:
            self._close(lane, self._read_ns, now)

    def _ask(self, exchange: Exchange, now: int) -> None:
        play = self._play
        world, route = play.world, play.world.route(exchange)
        if exchange.at_ns > world.last_ns or route.is_regenerated or not world.is_chosen(exchange):
            if world.is_made_anew(exchange):
                world.counts(exchange).recorded += 1
                world.withhold(exchange, Withheld(Reason.MADE_ANEW))
            return
        lane = play.lane(exchange.connection)
        if exchange.api_key == PRODUCE:
            exchange.awaits = _awaits(exchange)
        due = play.started if play.options.speed is None else play.due(exchange.first_ns)
        item = Item(exchange, route, self._order.keys(exchange), lane, due)
        # the order needed the values; large ones are decoded again when the item is sent
        exchange.forget_large_values()
        play.memory.request_read(item, now)
        play.waiting.request_read(item)
        # a request that needs no answer has no recorded one
        item.is_recording_done = not exchange.awaits
        if exchange.awaits:
            if (same := lane.unread.pop(exchange.origin.exchange, None)) is not None:
                # two requests have the number of one exchange: the answer is the later one's
                self._know(same, now)
            lane.unread[exchange.origin.exchange] = item
        else:
            play.waiting.answer_read(item)
        route.counts.recorded += 1
        if route.is_noted_when_due:
            world.was_read(exchange)
            play.timers.at(item.due, lambda _: self._is_due(item))
        if not lane.queue:
            # those behind the head leave after it
            play.ready[lane] = None
        lane.queue.append(item)

    def _is_due(self, item: Item) -> None:
        """The groups room may use what the request tells, and make requests that do not wait as it does.

        A request that is read late may have left by now, so that nothing waits for it.
        """
        if item.state is ItemState.QUEUED:
            self._play.world.due(item.exchange)
            self._play.members_changed = True

    def _answer(self, answer: AnswerRecorded, now: int) -> None:
        lane = self._play.lanes.get((answer.origin.session, answer.origin.connection))
        item = lane.unread.pop(answer.origin.exchange, None) if lane is not None else None
        if item is not None:
            item.exchange.take_answer(answer.ns, answer.frame)
            self._know(item, now, answer.place)

    def _know(self, item: Item, now: int, place: FramePlace | None = None) -> None:
        """The recorded answer was read, or there is none. `place`: of its frame in the capture."""
        play = self._play
        item.is_recording_done = True
        if item.state is ItemState.SETTLED:
            # it was settled before its recorded answer was read: its bytes are no longer kept
            play.memory.forget(item)
            return
        if item.exchange.answered_ns is not None:
            if item.exchange.api_key == INIT_PRODUCER_ID and (more := keys_of_answer(item.exchange)):
                item.keys = item.keys.with_blocks(more)
            play.waiting.answer_read(item)
        play.memory.answer_read(item, place, now)
        if item.state is ItemState.ANSWERED:
            self._complete(item, now)
        lane = item.lane
        if not lane.queue:
            is_awaited = lane.closes_at is not None
        else:
            is_awaited = lane.queue[0] is item and (item.hold is not None or item.route.awaits_recording)
        if is_awaited:
            # it may have waited for this: held by a room, to leave with it known, or as the last one of its connection
            play.ready[lane] = None

    def _close(self, lane: Lane, ns: int, now: int) -> None:
        if lane.closes_at is not None:
            return
        lane.closes_at = self._play.due(ns)
        self._play.timers.at(lane.closes_at, lambda _: self._play.ready.__setitem__(lane, None))
        unread, lane.unread = lane.unread, {}
        for item in unread.values():
            if not self._play.is_read:
                item.exchange.cut_ns = ns
                if item.exchange.api_key in STEPS_OF_PRODUCERS:
                    # what a client asks on its next connection must not overtake what it asked on this one
                    self._play.waiting.answer_read(item)
            self._know(item, now)
        self._play.ready[lane] = None


def _awaits(produce: Exchange) -> bool:
    """True for a Produce that Kafka answers. One that can't be read is as its row says."""
    try:
        return bool(produce.request["acks"] != 0)
    except WireError:
        return produce.awaits
