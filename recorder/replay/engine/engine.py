"""Plays exchanges against a target, without sockets or a clock: happenings, answers and time in; actions out.

    feed, end            what happened in the recording, in its order, and that nothing more did
    opened, wrote,       what became of the actions
    received, closed
    wake                 time went by: `next_wake` says when to call
    actions              connections to open, bytes to write, connections to close

An exchange is an `Item` on the `Lane` of its recorded connection. The head of a lane's queue leaves when it is due,
when everything that it waits for is settled (`order`), and when all rooms agree; then its values are routed, written in
a version that the target has, and sent on the lane's channel to each node concerned. When the target and the recording
have both answered, the rooms learn from the pair, the answers are compared, and those who waited are told.

A room may need answers first (`Needs`: made requests), or hold an item back (`Hold`). Whatever is kept for longer than
`--wait` is withheld. Nothing is ever guessed: what can't be translated is withheld with its reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from enum import Enum, auto

from proxy.wire.errors import WireError
from recorder.replay.engine.channels import Action, Out
from recorder.replay.engine.item import Item, Lane, Piece, State
from recorder.replay.engine.links import Links
from recorder.replay.engine.memory import Memory
from recorder.replay.engine.own import OwnRequests
from recorder.replay.engine.timers import Timers
from recorder.replay.engine.waiting import Waiting
from recorder.replay.engine.world import World
from recorder.replay.outcome import Cause, Ending, Progress
from recorder.replay.plan import (
    AnsweredBefore,
    Exchange,
    Hold,
    Made,
    Needs,
    Offered,
    Origin,
    Place,
    Reason,
    Refusal,
    Values,
    Withheld,
)
from recorder.replay.requests import retries, routing
from recorder.replay.requests.apis import GROUP_APIS, LONG_POLLS
from recorder.replay.requests.order import given, keys
from recorder.replay.stream import Answered, Asked, Closed, Connection, Happening

# How far ahead of the play rows are read: a long poll should know its recorded answer when it is due.
AHEAD_NS = 5 * 10**9
# Rounds of made requests for one exchange before it is given up: a target may never be content.
_MAX_ROUNDS = 20
# How long the end may take: aborting transactions, leaving groups.
_FINISH_NS = 10 * 10**9
# A request that leaves later than this counts as late.
LATE_NS = 5 * 10**6


class Phase(Enum):
    """How far the replay is."""

    PLAYING = auto()
    DRAINING = auto()
    STOPPING = auto()
    FINISHING = auto()
    FINISHED = auto()


class Engine:
    """One replay. `world`: its rooms; `now`: the player's clock, ns, at which the first row is due."""

    def __init__(self, world: World, now: int) -> None:
        self.world = world
        self.phase = Phase.PLAYING
        self.progress = Progress(span_ns=world.last_ns - world.first_ns)
        self._start, self._first_ns, self._read_ns = now, world.first_ns, world.first_ns
        self._is_read = False
        self._timers = Timers()
        self._links = Links(world.cluster, self._gone)
        options = world.options
        self._own = OwnRequests(
            world.cluster, self._links, self._timers, options.wait, world.target_topics, world.count_made
        )
        self._lanes: dict[Connection, Lane] = {}
        self._waiting = Waiting()
        self._ready: dict[Lane, None] = {}
        self._held: dict[Lane, None] = {}
        self._kept: dict[Lane, None] = {}
        self._polls: dict[Lane, None] = {}
        self._news = False
        self._memory = Memory(options.memory, self._timers)
        self._tick_at: int | None = None
        self._made_lanes: dict[Hashable, Lane] = {}

    # what the player asks

    def actions(self) -> list[Action]:
        """What is to be done, in this order; each is given out once."""
        return self._links.actions()

    @property
    def next_wake(self) -> int | None:
        """When `wake` should be called at the latest; None: not before something else happens."""
        return self._timers.next_at

    @property
    def finished(self) -> bool:
        """True once nothing is left to be done."""
        return self.phase is Phase.FINISHED

    def wants(self, now: int) -> bool:
        """True if rows should be fed: few wait, and those fed are not far ahead of the play."""
        if self._is_read or not self._memory.has_room:
            return False
        return self.world.options.speed is None or self._due(self._read_ns) < now + AHEAD_NS

    @property
    def memory(self) -> int:
        """Bytes of what was read and is not settled, as `--memory` counts them."""
        return self._memory.used

    # what happened in the recording

    def feed(self, happening: Happening, now: int) -> None:
        """The next of what happened; what comes behind a `stop` is left out."""
        if self.phase is not Phase.PLAYING:
            return
        self._read_ns = happening.ns
        if isinstance(happening, Asked):
            self._ask(happening.exchange, now)
        elif isinstance(happening, Answered):
            self._answer(happening, now)
        elif isinstance(happening, Closed):
            self._close(self._lane(happening.connection), happening.ns, now)
        if self._polls and not self.wants(now):
            polls, self._polls = self._polls, {}
            self._free(polls)
        self._run(now)

    def end(self, now: int) -> None:
        """Nothing more happened: what has no answer yet has none."""
        if self.phase is not Phase.PLAYING:
            return
        self._is_read = True
        for lane in [*self._lanes.values()]:
            self._close(lane, self._read_ns, now)
        self._run(now)

    def _lane(self, connection: Connection) -> Lane:
        found = self._lanes.get(connection)
        if found is None:
            found = self._lanes[connection] = Lane(connection)
        return found

    def _due(self, ns: int) -> int:
        speed = self.world.options.speed
        return self._start if speed is None else self._start + round((ns - self._first_ns) / speed)

    def _ask(self, exchange: Exchange, now: int) -> None:
        if not self.world.plays(exchange):
            return
        lane = self._lane(exchange.connection)
        item = Item(exchange, keys(exchange, self.world.names.topic), lane, self._due(exchange.first_ns))
        # the order has looked at the values; they are made again when it is sent
        exchange.forget_values()
        self._memory.asked(item, now)
        self._waiting.asked(item)
        # what awaits nothing has no answer to be read
        item.is_known = not exchange.awaits
        if exchange.awaits:
            lane.unread[exchange.origin.exchange] = item
        else:
            self._waiting.told(item)
        self.world.counts(exchange).recorded += 1
        if exchange.api_key in GROUP_APIS:
            self._timers.at(item.due, lambda _: self.world.due(exchange))
        lane.queue.append(item)
        self._ready[lane] = None

    def _answer(self, answer: Answered, now: int) -> None:
        lane = self._lanes.get((answer.origin.session, answer.origin.connection))
        item = lane.unread.pop(answer.origin.exchange, None) if lane is not None else None
        if item is not None:
            item.exchange.take_answer(answer.ns, answer.frame)
            self._know(item, now, answer.place)

    def _know(self, item: Item, now: int, place: Place | None = None) -> None:
        """The recorded answer was read, or there is none. `place`: where it stands."""
        item.is_known = True
        if item.state is State.SETTLED:
            # it was settled without its answer: what it took is no longer kept
            self._memory.forget(item)
            return
        if item.exchange.answered_ns is not None:
            item.keys.tells += given(item.exchange)
            self._waiting.told(item)
        self._memory.answered(item, place, now)
        if item.state is State.ANSWERED:
            self._complete(item, now)
        self._ready[item.lane] = None

    def _close(self, lane: Lane, ns: int, now: int) -> None:
        if lane.closes_at is not None:
            return
        lane.closes_at = self._due(ns)
        self._timers.at(lane.closes_at, lambda _: self._ready.__setitem__(lane, None))
        unread, lane.unread = lane.unread, {}
        for item in unread.values():
            self._know(item, now)
        self._ready[lane] = None

    # what became of the actions

    def loaded(self, origin: Origin, frame: bytes | None, answer: bytes | None, now: int) -> None:
        """Frames were read again; None: they can't be, or were not asked for."""
        item = self._memory.loaded(origin, frame, answer, now)
        if item is not None:
            self._ready[item.lane] = None
        self._run(now)

    def opened(self, channel: int, offered: Offered, now: int) -> None:
        """A channel is open and logged in; its node has said which versions it has."""
        lane = self._links.opened(channel, offered, now)
        if lane is not None:
            for node in [*lane.channels]:
                self._own.opened(lane, node, now)
            self._ready[lane] = None
            self._news = True
        self._run(now)

    def wrote(self, channel: int, began: int, now: int) -> None:
        """Everything sent on a channel so far is on its way; `began`: when the first byte of it left."""
        self._links.wrote(channel, began, now)
        self._run(now)

    def received(self, channel: int, frame: bytes, now: int) -> None:
        """A frame arrived. One that answers nothing ends its channel."""
        self._links.received(channel, frame, now)
        self._run(now)

    def closed(self, channel: int, now: int) -> None:
        """A channel is gone, or never came to be."""
        lane = self._links.closed(channel, now)
        if lane is not None:
            self._own.closed(lane, now)
            self._ready[lane] = None
            for _, at in lane.dials.values():
                self._look_again(lane, at)
            # its node may have gone for good: who leads its partitions now?
            self._own.refresh(now)
        self._run(now)

    def _gone(self, lane: Lane, node: int) -> None:
        if lane.connection is not None:
            self.world.channel_closed(lane.connection, node)

    def wake(self, now: int) -> None:
        """Time went by."""
        self._timers.run(now)
        self._news = True
        self._run(now)

    def stop(self, ending: Ending, now: int) -> None:
        """Ends the replay in order: what has not left is withheld, transactions are aborted, groups left."""
        self._end(ending)
        self._run(now)

    def _end(self, ending: Ending) -> None:
        """Whoever calls is in the middle of something: what is left to do is done by `_run`."""
        if self.phase in (Phase.PLAYING, Phase.DRAINING):
            self.world.result.ending = ending
            self._is_read, self.phase = True, Phase.STOPPING

    def _stop(self, now: int) -> None:
        for lane in self._lanes.values():
            waiting, lane.queue = lane.queue, deque()
            for item in waiting:
                self._withhold(item, Withheld(Reason.ENDED), now)
            for item in [*lane.in_play]:
                self._lose(item, now)
            self._links.hang_up(lane)
        self._finish(now)

    # what leaves

    def _run(self, now: int) -> None:
        """Lets everything leave that may."""
        self._tick(now)
        while self._ready or (self._held and self._news):
            if self._news:
                self._news = False
                self._ready.update(self._held)
                self._held.clear()
            ready, self._ready = self._ready, {}
            for lane in ready:
                self._advance(lane, now)
        if self.phase is Phase.STOPPING:
            self._stop(now)
        if self.phase is Phase.PLAYING and self._is_read and not self._lanes:
            self._drain(now)

    def _advance(self, lane: Lane, now: int) -> None:
        while lane.queue and self.phase is Phase.PLAYING:
            item = lane.queue[0]
            if item.state is State.QUEUED and not self._leaves(item, now):
                return
            lane.queue.popleft()
        if lane.closes_at is None or now < lane.closes_at:
            return
        for item in [each for each in lane.in_play if each.exchange.awaits and each.exchange.answered_ns is None]:
            # the recorded client did not wait for its answer; it did send the request
            if item.left_at is not None:
                self._lose(item, now)
        if not lane.in_play and not lane.carries:
            self._hang_up(lane)

    def _hang_up(self, lane: Lane) -> None:
        """All of a recorded connection is played."""
        if lane.connection is not None and self.world.carries_others(lane.connection):
            self._kept[lane] = None
            return
        self._links.hang_up(lane)
        if lane.connection is not None:
            self._lanes.pop(lane.connection, None)
            self.world.connection_closed(lane.connection)
            # one that was kept for this one's sake may go
            self._ready.update(self._kept)
            self._kept.clear()

    def _leaves(self, item: Item, now: int) -> bool:
        """True if the head of a lane has left, or never will."""
        if now < item.due:
            self._look_again(item.lane, item.due)
            return False
        if item.deadline is None:
            item.deadline = now + self.world.options.wait
        if now >= item.deadline:
            self._withhold(item, Withheld(item.hold.reason if item.hold else Reason.GAVE_UP), now)
            return True
        if item.needed or self._waiting.holds_back(item) or not self._may_poll(item, now):
            self._look_again(item.lane, item.deadline)
            return False
        if item.lacks_bytes:
            self._links.load(self._memory.load(item))
            self._look_again(item.lane, item.deadline)
            return False
        if item.ready_at is None:
            item.ready_at = now
        return self._send(item, now)

    def _look_again(self, lane: Lane, when: int) -> None:
        """At `when`, or before: one timer for a lane is enough, for whoever is looked at asks again."""
        if lane.asked_at is None or when < lane.asked_at:
            lane.asked_at = when
            self._timers.at(when, lambda _: self._looks(lane, when))

    def _looks(self, lane: Lane, when: int) -> None:
        if lane.asked_at == when:
            lane.asked_at = None
        self._ready[lane] = None

    def _may_poll(self, item: Item, now: int) -> bool:
        """A long poll leaves once its recorded answer was read, unless that is too far ahead to be read."""
        if item.is_known or item.exchange.api_key not in LONG_POLLS or not self.wants(now):
            return True
        self._polls[item.lane] = None
        return False

    def _send(self, item: Item, now: int, only: frozenset[tuple[str | bytes, int]] | None = None) -> bool:
        """Translates, routes and sends an item. False: not yet."""
        exchange = item.exchange
        exchange.dropped.clear()
        refused: Refusal | None = self.world.refused(exchange)
        try:
            if refused is None:
                values = exchange.decoded()
                refused = self.world.refused_values(exchange, values)
                refused = refused or self.world.translated(exchange, values, now)
                if refused is None:
                    return self._route(item, values, only, now)
                if isinstance(refused, AnsweredBefore):
                    self._take_before(item, values, refused.answer, now)
                    return True
        except WireError as error:
            refused = Withheld(Reason.OPAQUE, str(error))
        return self._is_refused(item, refused, now)

    def _is_refused(self, item: Item, refused: Refusal, now: int) -> bool:
        item.ready_at, item.cause = None, Cause.OTHER_ANSWERS
        if isinstance(refused, Hold):
            item.hold = refused
            self._held[item.lane] = None
            self._look_again(item.lane, item.deadline or now)
            return False
        if isinstance(refused, Needs) and item.rounds < _MAX_ROUNDS:
            item.rounds += 1
            self._need(item, refused.made, now)
            return False
        self._withhold(item, refused if isinstance(refused, Withheld) else Withheld(Reason.GAVE_UP), now)
        return True

    def _need(self, item: Item, needed: tuple[Made, ...], now: int) -> None:
        def answered(_: int) -> None:
            item.needed -= 1
            self._ready[item.lane] = None
            self._news = True

        item.needed += len(needed)
        for made in needed:
            self._own.make(made, item.lane, item.exchange.principal, now, answered)

    def _route(self, item: Item, values: Values, only: frozenset[tuple[str | bytes, int]] | None, now: int) -> bool:
        exchange, world = item.exchange, self.world
        wanted = values if only is None else routing.narrowed(exchange.api_key, values, only)
        parts = world.parts(exchange, wanted, now)
        if not isinstance(parts, list):
            return self._is_refused(item, parts, now)
        pieces: list[Piece] = []
        for part in parts:
            lane = self._lanes.get(world.carrier(exchange, part.node), item.lane)
            channel = self._links.channel(lane, part.node, exchange.principal, now)
            if channel is None or part.node not in world.cluster.offered:
                return self._is_refused(item, Hold(Reason.NO_NODE), now)
            piece = world.written(exchange, channel, part.values)
            if isinstance(piece, Withheld):
                return self._is_refused(item, piece, now)
            pieces.append(piece)
            if lane is not item.lane:
                item.carriers.append(lane)
        self._leave(item, values, pieces, now)
        return True

    def _leave(self, item: Item, values: Values, pieces: list[Piece], now: int) -> None:
        self.world.sent(item.exchange, values, now)
        item.state, item.values, item.hold = State.LEFT, values, None
        item.pieces, item.out = pieces, len(pieces)
        item.lane.in_play[item] = None
        for lane in item.carriers:
            lane.carries[item] = None
        item.sent_at = now
        self._watch(item.lane, now + self.world.options.wait)
        self._has_left(item)
        for piece in pieces:
            for request in piece.requests:
                self._links.write(piece.channel, self._out(item, piece, request), now)

    def _watch(self, lane: Lane, when: int) -> None:
        """Has somebody look for answers of the target that don't come."""
        if not lane.watched:
            lane.watched = True
            self._timers.at(when, lambda now: self._miss(lane, now))

    def _miss(self, lane: Lane, now: int) -> None:
        """Loses what the target has not answered within `--wait` and the time that the recording took."""
        lane.watched = False
        later: list[int] = []
        for item in [each for each in lane.in_play if each.state is State.LEFT]:
            exchange = item.exchange
            took = (exchange.answered_ns or exchange.at_ns) - exchange.at_ns
            until = item.sent_at + self.world.options.wait + took
            if now < until or not item.is_known:
                later.append(until if item.is_known else now + self.world.options.wait)
                continue
            self._miss_answer(item, now)
        if later:
            self._watch(lane, min(later))

    def _has_left(self, item: Item) -> None:
        if not item.has_left:
            item.has_left = True
            self.world.count_sent(item.exchange)
            self.progress = self.progress._replace(sent=self.progress.sent + 1)
        self._free(self._waiting.left(item))

    def _take_before(self, item: Item, values: Values, answer: Values, now: int) -> None:
        """The target has answered an item before it was sent: it is not sent any more."""
        item.values, item.answers, item.answered_at, item.state = values, [answer], now, State.ANSWERED
        item.lane.in_play[item] = None
        self._has_left(item)
        if item.is_known:
            self._complete(item, now)

    def _out(self, item: Item, piece: Piece, request: Values) -> Out:
        exchange = item.exchange

        def answered(answer: Values | None, frame: bytes | None, now: int) -> None:
            if item.state is State.LEFT and piece in item.pieces:
                self._part(item, piece, answer, frame, now)

        def leaves(given: int, began: int) -> None:
            if item.left_at is None:
                self._left(item, given, began)

        def unsent(now: int) -> None:
            if item.state is State.LEFT and piece in item.pieces:
                item.is_unsent = True
                self._part(item, piece, None, None, now)

        client_id, awaits = exchange.peer.client_id, exchange.awaits
        told = answered, leaves, unsent
        return Out(exchange.api_key, piece.version, request, client_id, awaits, *told, origin=exchange.origin)

    def _left(self, item: Item, given: int, began: int) -> None:
        """`given`: since when the socket has it; `began`: when it has taken the first byte."""
        item.left_at = began
        self._ready[item.lane] = None
        late = began - item.due if self.world.options.speed is not None else 0
        ready = max(item.ready_at or item.due, item.due)
        parts = {item.cause: ready - item.due, Cause.FULL_SOCKET: began - given}
        parts[Cause.REPLAY] = parts.get(Cause.REPLAY, 0) + given - ready
        self.world.result.add_late(late, parts if late else {})
        self.progress = self.progress._replace(
            late=self.progress.late + (late > LATE_NS),
            behind_ns=max(late, 0),
            position_ns=item.exchange.at_ns - self._first_ns,
        )
        most = self.world.options.max_late
        if most is not None and late > most:
            self._end(Ending.TOO_LATE)

    # what comes back

    def _part(self, item: Item, piece: Piece, answer: Values | None, frame: bytes | None, now: int) -> None:
        """A request of an item was answered, needs no answer, or has lost its connection."""
        exchange = item.exchange
        if answer is None:
            item.is_cut |= exchange.awaits or item.is_unsent
            piece.missing -= 1
        elif piece.take(answer):
            item.answers.append(self.world.read(exchange, piece))
            item.frame, item.version = frame, piece.version
        if piece.missing:
            return
        item.out -= 1
        if item.out:
            return
        if item.is_cut:
            self._cut(item, now)
        elif exchange.awaits:
            self._answered(item, now)
        else:
            self.world.counts(exchange).lost += item.left_at is None
            self._settle(item)

    def _cut(self, item: Item, now: int) -> None:
        """The connection broke before the answer: what may be sent twice goes again."""
        may_repeat = item.is_unsent or self.world.may_repeat(item.exchange)
        item.is_cut = item.is_unsent = False
        if may_repeat and now < (item.deadline or 0):
            self._retry(item, None, now)
        else:
            self._miss_answer(item, now)

    def _answered(self, item: Item, now: int) -> None:
        assert item.values is not None
        item.answers = [routing.joined(item.exchange.api_key, item.values, item.answers)]
        item.answered_at, item.state = now, State.ANSWERED
        if item.is_known:
            self._complete(item, now)

    def _complete(self, item: Item, now: int) -> None:
        """Both sides have answered: the rooms learn, the answers are compared; or it is sent once more."""
        if item.values is None or item.state is not State.ANSWERED:
            return
        exchange, answer = item.exchange, item.answers[0]
        # a pause longer than what is left of --wait: this is the answer then
        if now + retries.longer(item.pause) < (item.deadline or 0):
            passing = retries.passing(exchange, answer, self.world.has_new_topics)
            if passing:
                self.world.moved(exchange, item.values, answer)
                self._own.refresh(now)
                self._retry(item, None if None in passing else frozenset(each for each in passing if each), now)
                return
            if self.world.awaits_topics(exchange, item.values, answer):
                self._complete_later(item, now)
                return
        again = self.world.answered(exchange, item.values, answer, now)
        if again is not None and now < (item.deadline or 0):
            self._need(item, again.needs, now)
            self._retry(item, again.partitions, now)
            return
        mismatches = self.progress.mismatches + self.world.compare(item, answer)
        self.progress = self.progress._replace(answered=self.progress.answered + 1, mismatches=mismatches)
        self._settle(item)
        most = self.world.options.stop_after
        if most is not None and mismatches > most:
            self._end(Ending.TOO_MANY)

    def _complete_later(self, item: Item, now: int) -> None:
        """Others use the topics that were made: their leaders and ids are asked for first."""

        def told(at: int) -> None:
            item.pause = retries.longer(item.pause)
            self._timers.at(at + item.pause, lambda later: self._complete(item, later))

        self._own.refresh(now, told)

    def _retry(self, item: Item, only: frozenset[tuple[str | bytes, int]] | None, now: int) -> None:
        """Sends an item once more after a pause, unless it is given up meanwhile. `only`: these partitions."""
        item.pause = retries.longer(item.pause)
        if only is None:
            item.answers = []
        self.world.counts(item.exchange).retried += 1
        item.state = State.RETRYING
        self._timers.at(now + item.pause, lambda at: self._again(item, only, at))

    def _again(self, item: Item, only: frozenset[tuple[str | bytes, int]] | None, now: int) -> None:
        if item.state is not State.RETRYING:
            return
        if now >= (item.deadline or 0):
            self._miss_answer(item, now)
        elif item.needed or not self._send(item, now, only):
            self._timers.at(now + (item.pause or retries.FIRST_PAUSE), lambda at: self._again(item, only, at))

    def _withhold(self, item: Item, withheld: Withheld, now: int) -> None:
        self.world.withhold(item.exchange, withheld)
        self.progress = self.progress._replace(withheld=self.progress.withheld + 1)
        self._lose(item, now)

    def _miss_answer(self, item: Item, now: int) -> None:
        """The target owes an answer, and won't give it: that is counted."""
        self.world.counts(item.exchange).lost += 1
        self._lose(item, now)

    def _lose(self, item: Item, now: int) -> None:
        """No answer will come."""
        self.world.lost(item.exchange, item.values)
        self._settle(item)

    def _settle(self, item: Item) -> None:
        """Nobody waits for an item any more."""
        item.state = State.SETTLED
        self._news = True
        self._ready[item.lane] = None
        item.lane.in_play.pop(item, None)
        for lane in item.carriers:
            lane.carries.pop(item, None)
            self._ready[lane] = None
        self._memory.settled(item)
        self._free(self._waiting.settled(item))
        if item.keys.member_of is not None:
            self._tick_at = 0
        item.forget()

    def _free(self, lanes: Iterable[Lane]) -> None:
        for lane in lanes:
            self._ready[lane] = None

    # what the replay does of its own

    def _tick(self, now: int) -> None:
        """Sends what is due of its own: heartbeats of silent members."""
        if self._tick_at is None or now < self._tick_at or self.phase not in (Phase.PLAYING, Phase.DRAINING):
            return
        made, self._tick_at = self.world.tick(now)
        for each in made:
            self._own.make(each, self._lane_of(each), None, now, self._ticked)
        if self._tick_at is not None:
            self._timers.at(self._tick_at, lambda _: None)

    def _lane_of(self, made: Made) -> Lane:
        """A connection of its own for each lane of made requests: a JoinGroup keeps those behind it waiting."""
        return self._own.lane if made.lane is None else self._made_lanes.setdefault(made.lane, Lane(None))

    def _ticked(self, _: int) -> None:
        self._news = True

    def _drain(self, now: int) -> None:
        """All is played: what consumers read in the recording and not yet from the target is polled for."""
        self.phase = Phase.DRAINING
        until = now + self.world.options.drain
        self._timers.at(until, self._finish)
        self._drain_more(until, now)

    def _drain_more(self, until: int, now: int) -> None:
        if self.phase is not Phase.DRAINING:
            return
        owed = self.world.owed() if now < until else []
        if not owed:
            self._finish(now)

        def drained(at: int) -> None:
            self._timers.at(at + retries.FIRST_PAUSE, lambda later: self._drain_more(until, later))

        self._own.make_all(owed, self._lane_of, now, drained)

    def _finish(self, now: int) -> None:
        """Transactions are aborted, groups left."""
        if self.phase in (Phase.FINISHING, Phase.FINISHED):
            return
        self.phase = Phase.FINISHING
        left = self.world.finish()
        self._own.make_all(left, self._lane_of, now, self._finished)
        if not left:
            self._finished(now)
        self._timers.at(now + _FINISH_NS, self._finished)

    def _finished(self, _: int) -> None:
        self.phase = Phase.FINISHED
