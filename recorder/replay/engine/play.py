"""The state of one replay that all parts of the engine share, and the ends of an exchange.

A lane is *ready* when something happened that may let its head leave: the engine looks at it next. A lane whose head a
room holds back is looked at again when an item was settled that may have changed the room's mind, or time went by.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from recorder.replay.engine.item import Item, Lane, State
from recorder.replay.engine.links import Links, Told
from recorder.replay.engine.memory import Memory
from recorder.replay.engine.own import OwnRequests
from recorder.replay.engine.timers import Timers
from recorder.replay.engine.world import World
from recorder.replay.outcome import Ending, Progress
from recorder.replay.plan import MadeRequest, Reason, Withheld
from recorder.replay.stream import Connection


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
        awaiting_joins: lanes that are played except for joins without a recorded answer. The target's answers tell
            which members have to leave.
        is_read: nothing more will be read of the capture.
        farthest_ns: recorded time of the latest request that has left.
        answered_at: when the target last answered a recorded request.
        members_changed: a membership request was settled, or a request waits for a member that joins again: members may
            have something to send.
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
        self.awaiting_joins: dict[Lane, None] = {}
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
        if self.phase is Phase.PLAYING and not self.awaiting_joins:
            return False
        return self.is_ending or item.lane in self.awaiting_joins

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
            # nothing came of it in the recording either: the rooms have nothing to note
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
        item.state, lane = State.SETTLED, item.lane
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
