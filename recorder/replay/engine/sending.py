"""Sends the head of a lane's queue, once it is due and nothing holds it back.

The rooms translate a request, it is routed, and a channel of its lane carries it to each node concerned. A room may
need answers first (`AskFirst`), or hold an item back (`Hold`). An item that waits for longer than `--wait` is withheld.
"""

from __future__ import annotations

from proxy.wire.errors import WireError
from proxy.wire.keys import JOIN_GROUP, SYNC_GROUP
from recorder.replay.engine.answers import Answers
from recorder.replay.engine.channels import OutgoingRequest
from recorder.replay.engine.item import Item, ItemState, Lane, Piece
from recorder.replay.engine.play import Phase, Play
from recorder.replay.engine.recorded_side import RecordedSide
from recorder.replay.engine.world import refused_by_head
from recorder.replay.messages import SharedValues
from recorder.replay.outcome import Cause, Ending
from recorder.replay.plan import AnsweredBefore, AskFirst, Hold, NotSent, Reason, Values, Withheld
from recorder.replay.requests import refused_parts, retries, routing
from recorder.replay.requests.apis import GROUP_APIS, JOINING, STEPS_OF_PRODUCERS
from recorder.replay.requests.layout import WantedElements

# Rounds of made requests for one exchange before it is given up: a room may never be content with the answers.
_MAX_ROUNDS = 20
# How long before a request is due a lane without a channel dials its node. On a busy machine, TCP, versions and a login
# over TLS take 60 ms; no connection should be open much longer than in the recording.
DIAL_AHEAD_NS = 250 * 10**6
# A request that leaves later than this counts as late.
LATE_NS = 5 * 10**6


class Sending:
    """Sends the items of a play.

    Args:
        recorded: tells whether more will be read.
        answers: takes the answers.

    Attributes:
        unread: lanes whose head waits for its recorded answer to be read.
    """

    def __init__(self, play: Play, recorded: RecordedSide, answers: Answers) -> None:
        self._play, self._recorded, self._answers = play, recorded, answers
        self.unread: dict[Lane, None] = {}

    def advance(self, lane: Lane, now: int) -> None:
        """Sends the head of a lane and those behind it, as far as they may leave. Hangs up a lane that has ended."""
        while lane.queue and self._play.phase is Phase.PLAYING:
            item = lane.queue[0]
            if item.state is ItemState.QUEUED and not self._leaves_or_ends(item, now):
                return
            lane.queue.popleft()
            if lane.queue and lane.queue[0].due < now:
                # what has kept this one has kept those behind it
                lane.queue[0].cause = item.cause
        if lane.closes_at is None or now < lane.closes_at:
            return
        for item in [each for each in lane.in_play if each.exchange.awaits and each.exchange.answered_ns is None]:
            # the recorded client hung up before the answer, but had sent the request
            if item.left_at is not None and not _is_awaited(item):
                self._play.lose(item)
        if not lane.carries and all(item.left_at is not None and _is_awaited(item) for item in lane.in_play):
            self._hang_up(lane)

    def release_unread(self, now: int) -> None:
        """Lets requests leave without their recorded answers if the capture is not read any further now."""
        if not self._recorded.wants(now):
            unread, self.unread = self.unread, {}
            self._play.free(unread)

    def send_again(self, item: Item, only: WantedElements | None, now: int) -> None:
        """Sends an item once more. `only`: these partitions; None: all."""
        if item.state is not ItemState.RETRYING:
            return
        if now >= (item.deadline or 0):
            self._play.miss_answer(item)
        elif item.needed or not self._send(item, now, only):
            pause = item.pause or retries.FIRST_PAUSE
            self._play.timers.at(now + pause, lambda at: self.send_again(item, only, at))

    def _hang_up(self, lane: Lane) -> None:
        """Ends a lane whose recorded connection is played."""
        play = self._play
        if lane.connection is not None and play.world.carries_others(lane.connection):
            play.carrying[lane] = None
            return
        if lane.in_play:
            play.awaiting_target[lane] = None
        else:
            play.awaiting_target.pop(lane, None)
            play.links.hang_up(lane)
        if lane.connection in play.lanes:
            del play.lanes[lane.connection]
            play.world.connection_closed(lane.connection)
            # lanes that were kept for this one may end
            play.ready.update(play.carrying)
            play.carrying.clear()

    # when an item leaves

    def _leaves_or_ends(self, item: Item, now: int) -> bool:
        """Tries to send the head of a lane. True if it has left, or never will."""
        play = self._play
        if now < item.due:
            play.look_again(item.lane, self._dial_ahead(item, now))
            return False
        deadline = self._renew_deadline(item, now)
        if now >= deadline:
            play.withhold(item, Withheld(item.hold.reason if item.hold else Reason.GAVE_UP))
            return True
        if item.needed or item.is_held_back or not self._knows_answer(item, now):
            play.look_again(item.lane, deadline)
            return False
        if item.lacks_bytes:
            play.links.load(play.memory.load(item))
            play.look_again(item.lane, deadline)
            return False
        if item.ready_at is None:
            item.ready_at = now
        return self._send(item, now)

    def _renew_deadline(self, item: Item, now: int) -> int:
        """Returns when a due item is given up. Items that hold it back move its deadline."""
        play = self._play
        was_held_back, item.is_held_back = item.is_held_back, play.waiting.holds_back(item)
        if item.deadline is None or (was_held_back and not item.is_held_back):
            # from now on it waits for itself alone: for a connection, a coordinator, or what a room needs
            item.deadline = now + play.options.wait
        elif item.is_held_back:
            # those that hold it back go on as long as the target answers
            item.deadline = max(item.deadline, play.answered_at + play.options.wait)
        return item.deadline

    def _dial_ahead(self, item: Item, now: int) -> int:
        """Dials the nodes of a request that is due soon. Returns when to look at the request again."""
        dial_at = item.due - DIAL_AHEAD_NS
        if item.lane.channels or item.is_dialled:
            return item.due
        if now < dial_at:
            return dial_at
        item.is_dialled = True
        for node in self._play.world.nodes_ahead(item.exchange):
            self._play.links.channel(item.lane, node, item.exchange.principal, now)
        return item.due

    def _knows_answer(self, item: Item, now: int) -> bool:
        """False for a request that leaves with its recorded answer known, if that will be read now."""
        if item.is_recording_done or not item.route.awaits_recording or not self._recorded.wants(now):
            return True
        self.unread[item.lane] = None
        return False

    # how an item leaves

    def _send(self, item: Item, now: int, only: WantedElements | None = None) -> bool:
        """Translates, routes and sends an item. False: not yet."""
        exchange, world = item.exchange, self._play.world
        if exchange.dropped:
            exchange.dropped.clear()
        not_sent: NotSent | None = None
        whose = item.route, exchange.peer.client_id, exchange.principal
        if exchange.fault is not None or whose not in item.lane.admitted:
            not_sent = refused_by_head(exchange, item.route.refusal, world.options)
            if not_sent is None and exchange.fault is None:
                item.lane.admitted.add(whose)
        try:
            if not_sent is None:
                values = exchange.decoded()
                if item.route.may_be_refused:
                    not_sent = world.refused_values(exchange, values)
                left = None if not_sent else self._remaining(item, values)
                if left is None:
                    return self._is_settled_instead(item, not_sent or Withheld(Reason.REFUSED), now)
                not_sent = world.translated(item, left, now, now - item.due)
                if not_sent is None:
                    return self._route(item, left, only, now)
                if isinstance(not_sent, AnsweredBefore):
                    self._take_before(item, left, not_sent.answer, now)
                    return True
        except WireError as error:
            not_sent = Withheld(Reason.OPAQUE, str(error))
        return self._is_settled_instead(item, not_sent, now)

    @staticmethod
    def _remaining(item: Item, values: Values) -> Values | None:
        """The values without what the recording refused; None if that is all. What is sent once is sent again."""
        if item.refused is None:
            answer = item.exchange.answer if item.route.writes and item.is_recording_done else None
            # most answers have come before, and had no errors
            has_errors = isinstance(answer, SharedValues) and (answer.errors is None or bool(answer.errors))
            item.refused = refused_parts.refused_parts(item.exchange) if has_errors else refused_parts.NOTHING
        return refused_parts.remaining(item.exchange, values, item.refused) if item.refused else values

    def _is_settled_instead(self, item: Item, not_sent: NotSent, now: int) -> bool:
        """Keeps an item back, or settles it without sending it: True if its lane may go on."""
        item.ready_at, item.cause = None, Cause.OTHER_ANSWERS
        if isinstance(not_sent, Hold):
            item.hold = not_sent
            self._play.held.hold(item)
            # made requests may lead to what it waits for
            self._play.members_changed |= item.exchange.api_key in GROUP_APIS
            # a SyncGroup waits for an earlier one only as long as that one may leave first
            self._play.free(self._play.waiting.left(item))
            self._play.look_again(item.lane, min(item.deadline or now, not_sent.until or item.deadline or now))
            return False
        if isinstance(not_sent, AskFirst) and item.rounds < _MAX_ROUNDS:
            item.rounds += 1
            self._play.need(item, not_sent.made, now)
            return False
        self._play.withhold(item, not_sent if isinstance(not_sent, Withheld) else Withheld(Reason.GAVE_UP))
        return True

    def _route(self, item: Item, values: Values, only: WantedElements | None, now: int) -> bool:
        exchange, play, world = item.exchange, self._play, self._play.world
        wanted = values if only is None else routing.narrowed(exchange.api_key, values, only)
        parts = world.parts(exchange, wanted, item.route)
        if not isinstance(parts, list):
            return self._is_settled_instead(item, parts, now)
        pieces: list[Piece] = []
        for part in parts:
            lane = item.lane
            if item.route.is_of_sessions:
                lane = play.lanes.get(world.carrier(exchange, part.node), lane)
            channel = lane.channels.get(part.node) or play.links.channel(lane, part.node, exchange.principal, now)
            if channel is None and play.links.is_gone(part.node, now, play.options.wait):
                # each that waits on its own would wait for --wait, one behind the other
                return self._is_settled_instead(item, Withheld(Reason.NO_NODE), now)
            if channel is None or part.node not in world.cluster.offered:
                return self._is_settled_instead(item, Hold(Reason.NO_NODE), now)
            found = world.written(item, channel, part.values)
            if isinstance(found, Withheld):
                return self._is_settled_instead(item, found, now)
            pieces.append(Piece(item, self, channel, *found, len(found.requests)))
            if lane is not item.lane:
                item.carriers.append(lane)
        self._leave(item, values, pieces, now)
        return True

    def _leave(self, item: Item, values: Values, pieces: list[Piece], now: int) -> None:
        exchange, play = item.exchange, self._play
        for note in item.route.sents:
            note(exchange, values, now)
        item.state, item.values, item.hold = ItemState.HANDED_OVER, values, None
        item.pieces, item.parts_in_flight = pieces, len(pieces)
        item.lane.in_play[item] = None
        for lane in item.carriers:
            lane.carries[item] = None
        item.sent_at = now
        # the target may let it wait for members that have joined before, or for the elected leader's assignments
        play.members_changed |= exchange.api_key in (JOIN_GROUP, SYNC_GROUP)
        if not item.is_counted:
            # however long it had to wait, it may be tried again as long as any other
            item.deadline = now + play.options.wait
        if not item.lane.is_watched:
            self._answers.watch(item.lane, now + play.options.wait)
        self._count_once(item)
        client_id, awaits, origin, remembered = (
            exchange.peer.client_id,
            exchange.awaits,
            exchange.origin,
            exchange.remembered,
        )
        for piece in pieces:
            for request in piece.requests:
                out = OutgoingRequest(
                    exchange.api_key, piece.version, request, client_id, awaits, piece, origin, remembered
                )
                play.links.write(piece.channel, out, now)

    def _count_once(self, item: Item) -> None:
        play = self._play
        if not item.is_counted:
            item.is_counted = True
            counts = item.route.counts
            counts.sent += 1
            for dropped in item.exchange.dropped:
                counts.partitions[play.world.before.reason_of_part(dropped).value] += 1
            play.progress.sent += 1
        if item.followers:
            play.free(play.waiting.left(item))

    def _take_before(self, item: Item, values: Values, answer: Values, now: int) -> None:
        """Takes an earlier answer of the target for an item, which is not sent."""
        item.values, item.answers, item.answered_at, item.state = values, [answer], now, ItemState.ANSWERED
        item.lane.in_play[item] = None
        self._count_once(item)
        if item.is_recording_done:
            self._answers.complete(item, now)

    # what becomes of requests: see `item.Ends`

    def take(self, piece: Piece, answer: Values | None, frame: bytes | None, now: int) -> None:
        """Takes the answer to one request of an item."""
        self._answers.take(piece, answer, frame, now)

    def take_unsent(self, piece: Piece, now: int) -> None:
        """The connection broke before any byte of the request was written."""
        self._answers.take_unsent(piece, now)

    def left(self, item: Item, given: int, began: int) -> None:
        """The first byte of an item's request was written at `began`. `given`: since when the socket has had it."""
        if item.left_at is not None:
            return
        play, exchange = self._play, item.exchange
        item.left_at = began
        if item.lane.closes_at is not None and not item.lane.queue:
            play.ready[item.lane] = None
        if exchange.at_ns > play.farthest_ns:
            play.farthest_ns = exchange.at_ns
        late = began - item.due if play.options.speed is not None else 0
        if not late:
            play.world.result.late.add(0)
            play.progress.behind_ns = 0
            return
        play.world.result.add_late(late, _causes(item, given, began))
        progress = play.progress
        progress.late += late > LATE_NS
        progress.behind_ns = max(late, 0)
        most = play.options.max_late
        if most is not None and late > most:
            play.end(Ending.TOO_LATE)


def _is_awaited(item: Item) -> bool:
    """True for a request in flight that the recorded client did not see answered, and that others have to follow."""
    is_followed = item.exchange.api_key in JOINING or item.exchange.api_key in STEPS_OF_PRODUCERS
    return is_followed and item.is_in_flight and item.exchange.answered_ns is None


def _causes(item: Item, given: int, began: int) -> dict[Cause, int]:
    """How much each cause made an item late."""
    ready = max(item.ready_at or item.due, item.due)
    parts = {item.cause: ready - item.due, Cause.FULL_SOCKET: began - given}
    parts[Cause.REPLAY] = parts.get(Cause.REPLAY, 0) + given - ready
    return parts
