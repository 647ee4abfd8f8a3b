"""The state of one replay that all parts of the engine share, and the ends of an exchange.

A lane is *ready* when something happened that may let its head leave: the engine looks at it next. A lane whose head a
room holds back is looked at again when an item was settled that may have changed the room's mind, or time went by.

What was read of the capture is kept within `--memory`. Below the limit, exchanges wait with their bytes. At the limit,
reading stops until exchanges in play are settled. If none is for a while, they may wait for something that stands
further on in the capture, such as the other members of a join. Reading then goes on beyond the limit: exchanges keep
their place in the capture without their bytes, which are loaded when the exchange may leave.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from functools import partial

from recorder.replay.engine.channels import Load
from recorder.replay.engine.item import Item, ItemState, Lane
from recorder.replay.engine.links import Links, Told
from recorder.replay.engine.own import OwnRequests
from recorder.replay.engine.timers import Timers
from recorder.replay.engine.world import World
from recorder.replay.outcome import Ending, Progress
from recorder.replay.plan import FramePlace, MadeRequest, Origin, Reason, Withheld
from recorder.replay.requests.apis import GROUP_APIS
from recorder.replay.stream import Connection

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
        if item is None or item.state is ItemState.SETTLED:
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


class Phase(Enum):
    """How far the replay is."""

    PLAYING = auto()
    DRAINING = auto()
    STOPPING = auto()
    FINISHING = auto()
    FINISHED = auto()


class HeldLanes:
    """Lanes whose heads a room holds back, and which of them may go on.

    Only members' requests and commits of its group change what a room says of a member's request. Any settled item may
    free the others.
    """

    def __init__(self) -> None:
        self._lanes: dict[str | None, dict[Lane, None]] = {}
        self._changed: set[str | None] = set()
        self._all_changed = False

    def hold(self, item: Item) -> None:
        """A room holds an item back."""
        self._lanes.setdefault(item.keys.member_of, {})[item.lane] = None

    def settled(self, item: Item) -> None:
        """An item was settled."""
        if self._lanes:
            self._changed.update((None, item.keys.member_of, item.keys.commits_to))

    def all_changed(self) -> None:
        """Something else happened: time went by, or a request that the replay made was answered."""
        self._all_changed = bool(self._lanes)

    @property
    def has_changed(self) -> bool:
        """True if lanes may go on."""
        return self._all_changed or bool(self._changed)

    def freed(self) -> list[Lane]:
        """The lanes that may go on. Each is returned once, unless it is held back again."""
        if not self.has_changed:
            return []
        groups = [*self._lanes] if self._all_changed else [group for group in self._changed if group in self._lanes]
        self._changed, self._all_changed = set(), False
        return [lane for group in groups for lane in self._lanes.pop(group)]


class Play:
    """The state that the parts of one engine share.

    Attributes:
        progress: how far the replay is, for the line on the terminal.
        lanes: recorded connections that are not played to their end.
        ready: lanes to look at.
        held: lanes whose head a room holds back.
        carrying: lanes that are played, whose channels still carry requests of others.
        awaiting_target: lanes that are played except for joins and steps of producers without a recorded answer. The
            target's answers tell which members have to leave, and let the producers' next steps leave.
        is_read: nothing more will be read of the capture.
        farthest_ns: recorded time of the latest request that has left.
        answered_at: when the target last answered a recorded request.
        members_changed: a membership request was settled, a made one answered, a JoinGroup or SyncGroup is due or left,
            or a request waits for a member that joins again: members may have something to send.
    """

    def __init__(self, world: World, now: int, told: Told) -> None:
        options = world.options
        self.world, self.options = world, options
        self.phase = Phase.PLAYING
        self.progress = Progress(span_ns=world.last_ns - world.first_ns)
        self.started, self.first_ns = now, world.first_ns
        self.is_read = False
        self.farthest_ns = self.first_ns
        self.answered_at = now
        self.timers = Timers()
        self.links = Links(world.cluster, self._gone, told)
        self.own = OwnRequests(
            world.cluster, self.links, self.timers, options.wait, world.target_topics, world.count_made
        )
        self.waiting = world.waiting
        self.memory = Memory(options.memory, self.timers)
        self.lanes: dict[Connection, Lane] = {}
        self.ready: dict[Lane, None] = {}
        self.held = HeldLanes()
        self.carrying: dict[Lane, None] = {}
        self.awaiting_target: dict[Lane, None] = {}
        self.members_changed = False

    def _gone(self, lane: Lane, node: int) -> None:
        if lane.connection is not None:
            self.world.channel_closed(lane.connection, node)

    def lane(self, connection: Connection) -> Lane:
        """The lane of a recorded connection."""
        found = self.lanes.get(connection)
        if found is None:
            found = self.lanes[connection] = Lane(connection)
        return found

    def due(self, ns: int) -> int:
        """The time when something is due that was recorded at `ns`."""
        speed = self.options.speed
        return self.started if speed is None else self.started + round((ns - self.first_ns) / speed)

    def look_how_far(self) -> None:
        """Sets the position: up to there all requests have left. At `max` some lanes are far ahead of others."""
        if self.phase in (Phase.PLAYING, Phase.DRAINING):
            heads = (lane.queue[0].exchange.at_ns for lane in self.lanes.values() if lane.queue)
            self.progress.position_ns = max(min([self.farthest_ns, *heads]) - self.first_ns, 0)

    def end(self, ending: Ending) -> None:
        """Ends the replay. The caller is in the middle of something, so the engine does the rest later."""
        if self.phase in (Phase.PLAYING, Phase.DRAINING):
            self.look_how_far()
            self.world.result.ending = ending
            self.is_read, self.phase = True, Phase.STOPPING

    @property
    def is_ending(self) -> bool:
        """True once nothing recorded is sent any more."""
        return self.phase in (Phase.STOPPING, Phase.FINISHING)

    def is_over(self, item: Item) -> bool:
        """True if the item's answer matters only for what the item began on the target."""
        if self.phase is Phase.PLAYING and not self.awaiting_target:
            return False
        return self.is_ending or item.lane in self.awaiting_target

    # lanes to look at

    def free(self, lanes: Iterable[Lane]) -> None:
        """The heads of these lanes may leave now."""
        for lane in lanes:
            self.ready[lane] = None

    def look_again(self, lane: Lane, when: int) -> None:
        """Looks at a lane at `when`, or earlier: each look sets the next timer, so one for each lane is enough."""
        if lane.look_timer is not None and lane.look_timer.call is not None:
            if lane.look_timer.when <= when:
                return
            self.timers.cancel(lane.look_timer)
        lane.look_timer = self.timers.at(when, lambda _: self.ready.__setitem__(lane, None))

    def need(self, item: Item, needed: tuple[MadeRequest, ...], now: int) -> None:
        """Makes the requests that have to be answered before an item goes on."""

        def answered(_: int) -> None:
            item.needed -= 1
            self.ready[item.lane] = None
            self.held.all_changed()

        item.needed += len(needed)
        for made in needed:
            self.own.make(made, item.lane, item.exchange.principal, now, answered)

    # ends of an exchange

    def withhold(self, item: Item, withheld: Withheld) -> None:
        """Does not send an item."""
        self.world.withhold(item.exchange, withheld)
        self.progress.withheld += 1
        if withheld.reason is Reason.REFUSED:
            # nothing came of it in the recording either: the rooms have nothing to note, but that it will not come
            if item.route.is_noted_when_due:
                self.world.will_not_leave(item.exchange)
            self.settle(item)
        else:
            self.lose(item)

    def miss_answer(self, item: Item) -> None:
        """Gives up an answer that the target owes, and counts it as lost."""
        item.route.counts.lost += 1
        self.lose(item)

    def lose(self, item: Item) -> None:
        """Settles an item without an answer."""
        self.world.lost(item)
        self.settle(item)

    def settle(self, item: Item) -> None:
        """Settles an item: no other item waits for it any more."""
        item.state, lane = ItemState.SETTLED, item.lane
        self.held.settled(item)
        lane.in_play.pop(item, None)
        # a lane without requests is looked at when the next one is read
        if lane.queue or lane.closes_at is not None:
            self.ready[lane] = None
        for carrier in item.carriers:
            carrier.carries.pop(item, None)
            self.ready[carrier] = None
        self.memory.settled(item)
        for freed in self.waiting.settled(item):
            self.ready[freed] = None
        if item.keys.member_of is not None:
            self.members_changed = True
        item.forget()
