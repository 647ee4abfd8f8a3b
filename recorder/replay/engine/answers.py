"""Answers of the target, and requests whose answer does not come.

When the target and the recording have both answered a request, the rooms learn from the pair and the answers are
compared. Instead the request is sent once more after an error that passes, an answer that a room can mend, or a broken
connection.
"""

from __future__ import annotations

from collections.abc import Callable

from recorder.replay.engine.item import Item, ItemState, Lane, Piece
from recorder.replay.engine.play import Play
from recorder.replay.outcome import Ending
from recorder.replay.plan import Values
from recorder.replay.requests import retries, routing
from recorder.replay.requests.apis import GROUP_APIS
from recorder.replay.requests.layout import WantedElements

# Sends an item once more: only these partitions, or all of it (None).
SendAgain = Callable[[Item, WantedElements | None, int], None]
# Between questions for the leaders of new topics. Brokers learn new topics within some 100 ms, or seconds on a busy
# machine, and all that uses the topics waits.
_LONGEST_LEADERS_PAUSE = 100 * 10**6


class Answers:
    """The target's answers to the items of a play."""

    def __init__(self, play: Play, send_again: SendAgain) -> None:
        self._play, self._send_again = play, send_again

    def take(self, piece: Piece, answer: Values | None, frame: bytes | None, now: int) -> None:
        """Takes the answer to one request of an item. None: it needs no answer, or its connection broke."""
        item = piece.item
        if item.state is not ItemState.HANDED_OVER or piece not in item.pieces:
            return
        exchange, world = item.exchange, self._play.world
        piece.missing -= 1
        if answer is None:
            item.lost_connection |= exchange.awaits or item.is_unsent
        else:
            # a connection answers requests in their order
            piece.answers.append(answer)
            if not piece.missing:
                item.answers.append(world.read(item, piece))
                item.frame, item.version = frame, piece.version
        if piece.missing:
            return
        item.parts_in_flight -= 1
        if item.parts_in_flight:
            return
        if item.lost_connection:
            self._cut(item, now)
        elif exchange.awaits:
            self._answered(item, now)
        else:
            counts, has_left = item.route.counts, item.left_at is not None
            counts.silent += has_left
            counts.lost += not has_left
            self._play.settle(item)

    def take_unsent(self, piece: Piece, now: int) -> None:
        """The connection broke before any byte of the request was written."""
        item = piece.item
        if item.state is ItemState.HANDED_OVER and piece in item.pieces:
            item.is_unsent = True
            self.take(piece, None, None, now)

    def watch(self, lane: Lane, when: int) -> None:
        """Looks at a lane's items at `when`, and gives up those whose answers the target still owes."""
        if not lane.is_watched:
            lane.is_watched = True
            self._play.timers.at(when, lambda now: self._miss(lane, now))

    def _miss(self, lane: Lane, now: int) -> None:
        """Gives up items whose answers are late by `--wait`, compared with the recorded answer's time."""
        lane.is_watched = False
        wait = self._play.options.wait
        later: list[int] = []
        for item in [each for each in lane.in_play if each.state is ItemState.HANDED_OVER]:
            exchange = item.exchange
            took = (exchange.answered_ns or exchange.at_ns) - exchange.at_ns
            until = item.sent_at + wait + took
            if now < until or not item.is_recording_done:
                later.append(until if item.is_recording_done else now + wait)
                continue
            if self._play.is_over(item):
                self._play.lose(item)
            else:
                self._play.miss_answer(item)
        if later:
            self.watch(lane, min(later))

    def _cut(self, item: Item, now: int) -> None:
        """The connection broke before the answer. A request that may be repeated is sent again."""
        may_repeat = item.is_unsent or self._play.world.may_repeat(item.exchange)
        item.lost_connection = item.is_unsent = False
        if self._play.is_over(item):
            self._play.lose(item)
        elif may_repeat and now < (item.deadline or 0):
            self._retry(item, None, now)
        else:
            self._play.miss_answer(item)

    def _answered(self, item: Item, now: int) -> None:
        assert item.values is not None
        if len(item.answers) != 1:
            item.answers = [routing.joined_answer(item.exchange.api_key, item.values, item.answers)]
        item.answered_at, item.state = now, ItemState.ANSWERED
        self._play.answered_at = now
        if item.is_recording_done:
            self.complete(item, now)

    def complete(self, item: Item, now: int) -> None:
        """Both sides have answered: the rooms learn and the answers are compared, or the item is sent once more."""
        if item.values is None or item.state is not ItemState.ANSWERED:
            return
        world, exchange, answer = self._play.world, item.exchange, item.answers[0]
        if self._play.is_over(item):
            # rooms still learn what the item began on the target, so that it can be ended
            again = world.answered(item, item.values, answer, now)
            (self._play.settle if again is None else self._play.lose)(item)
            return
        is_equal, makes_topics = answer is exchange.answer, item.route.makes_topics
        # where the pause would outlast --wait, the answer counts as it is
        if (makes_topics or not is_equal) and now + retries.next_pause(item.pause) < (item.deadline or 0):
            passing = () if is_equal else retries.passing(exchange, answer, world.names, world.has_new_topics)
            if passing:
                world.forget_moved_coordinators(exchange, item.values, answer)
                only = None if None in passing else frozenset(each for each in passing if each)
                self._retry(item, only, now, refreshes=True)
                return
            if makes_topics and world.awaits_topics(exchange, item.values, answer):
                self._ask_for_leaders(item, retries.FIRST_PAUSE, now)
                return
        self._learn(item, now)

    def _ask_for_leaders(self, item: Item, pause: int, now: int) -> None:
        """Completes an item that made topics once their leaders and ids are known: other requests use them.

        `pause`: before the next question, if this one's answer does not tell all of them.
        """

        def told(at: int) -> None:
            if item.values is None or item.state is not ItemState.ANSWERED:
                return
            lacks = self._play.world.awaits_topics(item.exchange, item.values, item.answers[0])
            if not lacks or at + pause >= (item.deadline or 0):
                self._learn(item, at)
                return
            longer = min(2 * pause, _LONGEST_LEADERS_PAUSE)
            self._play.timers.at(at + pause, lambda later: self._ask_for_leaders(item, longer, later))

        self._play.own.refresh(now, told)

    def _learn(self, item: Item, now: int) -> None:
        """The rooms learn from both answers, and the answers are compared, or a room sends the item once more."""
        assert item.values is not None
        answer = item.answers[0]
        again = self._play.world.answered(item, item.values, answer, now)
        if again is not None and now < (item.deadline or 0):
            self._play.members_changed |= item.exchange.api_key in GROUP_APIS
            self._play.need(item, again.needs, now)
            self._retry(item, again.partitions, now)
            return
        self._compare(item, answer)

    def _compare(self, item: Item, answer: Values) -> None:
        play = self._play
        play.progress.answered += 1
        play.progress.mismatches += play.world.compare(item, answer)
        play.settle(item)
        most = play.options.stop_after
        if most is not None and play.progress.mismatches > most:
            play.end(Ending.TOO_MANY)

    def _retry(self, item: Item, only: WantedElements | None, now: int, *, refreshes: bool = False) -> None:
        """Sends an item once more after a pause.

        Args:
            only: these partitions; None: all.
            refreshes: not before the leaders are known anew, and with them whether this is still the target.
        """
        item.pause = retries.next_pause(item.pause)
        if only is None:
            item.answers = []
        item.route.counts.retried += 1
        item.state = ItemState.RETRYING
        earliest = now + item.pause

        def send(at: int) -> None:
            self._play.timers.at(max(earliest, at), lambda due: self._send_again(item, only, due))

        if refreshes:
            self._play.own.refresh(now, send)
        else:
            send(now)
