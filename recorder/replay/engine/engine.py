"""Plays exchanges against a target, without sockets or a clock: happenings, answers and time in; actions out.

    feed, end            happenings of the recording, in its order, and its end
    opened, wrote,       results of actions
    received, closed
    wake                 time went by: `next_wake` says when to call
    actions              connections to open, bytes to write, connections to close, frames to read again

An exchange is an `Item` on the `Lane` of its recorded connection. The head of a lane's queue leaves when it is due,
when every exchange that it waits for is settled (`order`), and when all rooms agree. Its values are then routed,
written in a version that the target has, and sent to each node concerned on a channel of the lane (`sending`). When the
target and the recording have both answered, the rooms learn from the pair, the answers are compared (`answers`), and
items that waited for it may leave. Nothing is ever guessed: a request that can't be translated is withheld with its
reason.

Some requests are the replay's own (`Finishing`). A replay that has played everything drains: it polls for records that
consumers read in the recording and the target has not given yet. A replay that is stopped early drops what is in play,
except requests in flight that begin or end something: it awaits their answers, so that nothing begins behind its end.
Then both abort transactions and leave groups.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable

from recorder.replay.engine.answers import Answers
from recorder.replay.engine.channels import Action
from recorder.replay.engine.item import Item, Lane
from recorder.replay.engine.links import Told
from recorder.replay.engine.play import Phase, Play
from recorder.replay.engine.recorded_side import RecordedSide
from recorder.replay.engine.sending import Sending
from recorder.replay.engine.standstill import waited_for
from recorder.replay.engine.world import World
from recorder.replay.outcome import Ending, Progress
from recorder.replay.plan import MadeRequest, OfferedVersions, Origin, Reason, Withheld
from recorder.replay.requests import retries
from recorder.replay.requests.apis import OPENING
from recorder.replay.requests.layout import WantedElements
from recorder.replay.stream import Happening

# How long the end may take: aborting transactions, leaving groups. For half of that time it waits for answers in
# flight, so that nothing begins behind the request that ends it.
_FINISH_NS = 10 * 10**9
_CALM_NS = _FINISH_NS // 2


class Finishing:
    """The replay's own requests, from the first heartbeat to the last LeaveGroup."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._tick_at: int | None = None
        self._made_lanes: dict[Hashable, Lane] = {}
        self._calm_until = self._leaving = 0

    def is_due(self, now: int) -> bool:
        """True if `tick` has something to do, as far as is known without a look at the members."""
        return self._tick_at is None or now >= self._tick_at or self._play.members_changed

    def tick(self, now: int) -> None:
        """Sends heartbeats of silent members that are due."""
        play = self._play
        # with every member's request in flight no next time is known: an answer tells it
        if play.members_changed or (self._tick_at is None and play.world.has_touched_groups):
            play.members_changed, self._tick_at = False, 0
        if self._tick_at is None or now < self._tick_at or play.phase not in (Phase.PLAYING, Phase.DRAINING):
            return
        made, self._tick_at = play.world.tick(now)
        for each in made:
            play.own.make(each, self._lane_of(each), None, now, self._ticked)
        if self._tick_at is not None:
            play.timers.at(self._tick_at, lambda _: None)

    def _lane_of(self, made: MadeRequest) -> Lane:
        """The lane of a made request. One that names a lane has a connection of its own: see `MadeRequest`."""
        return self._play.own.lane if made.lane is None else self._made_lanes.setdefault(made.lane, Lane(None))

    def _ticked(self, _: int) -> None:
        # its member may have more to send
        self._play.members_changed = True
        self._play.held.all_changed()

    def drain(self, now: int) -> None:
        """Polls for records that consumers lack, for `--drain` at most; then finishes."""
        self._play.look_how_far()
        self._play.phase = Phase.DRAINING
        until = now + self._play.options.drain
        self._play.timers.at(until, self._finish)
        self._drain_more(until, now)

    def _drain_more(self, until: int, now: int) -> None:
        if self._play.phase is not Phase.DRAINING:
            return
        owed = self._play.world.owed() if now < until else []
        if not owed:
            self._finish(now)

        def drained(at: int) -> None:
            self._play.timers.at(at + retries.FIRST_PAUSE, lambda later: self._drain_more(until, later))

        self._play.own.make_all(owed, self._lane_of, now, drained)

    def stop(self, now: int) -> None:
        """Drops what is in play, except requests in flight that leave something open on the target; then finishes."""
        play = self._play
        for lane in [*play.lanes.values(), *play.awaiting_target]:
            waiting, lane.queue = lane.queue, deque()
            for item in waiting:
                play.withhold(item, Withheld(Reason.ENDED))
            for item in [*lane.in_play]:
                if item.is_in_flight and item.exchange.api_key in OPENING:
                    # its answer counts whatever the recording answered, and its connection stays open for it
                    item.is_recording_done, lane.closes_at = True, None
                else:
                    play.lose(item)
            play.links.hang_up(lane, only_unopened=bool(lane.in_play or lane.carries))
        self._finish(now)

    def _finish(self, now: int) -> None:
        play = self._play
        if play.phase in (Phase.FINISHING, Phase.FINISHED):
            return
        play.phase = Phase.FINISHING
        self._calm_until = now + _CALM_NS
        # at both times the engine calls `go_on`
        play.timers.at(self._calm_until, lambda _: None)
        play.timers.at(now + _FINISH_NS, self._finished)

    def go_on(self, now: int) -> None:
        """Ends what may be ended by now. Later calls end what requests in flight have begun."""
        play = self._play
        is_calm = not play.own.opening and not any(
            lane.in_play for lane in (*play.lanes.values(), *play.awaiting_target)
        )
        at_once = now >= self._calm_until
        left = play.world.finish(is_calm=is_calm, at_once=at_once)
        for made in left:
            self._leaving += 1
            play.own.make(made, self._lane_of(made), None, now, self._has_left)
        if (is_calm or at_once) and not self._leaving:
            self._finished(now)

    def _has_left(self, _: int) -> None:
        self._leaving -= 1

    def _finished(self, _: int) -> None:
        self._play.phase = Phase.FINISHED


_OF_PHASE = {
    Phase.DRAINING: "records that the recording has read (--drain)",
    Phase.FINISHING: "transactions to abort and groups to leave",
}


class Engine:
    """One replay.

    Args:
        world: its rooms.
        now: the player's clock (ns) when the first request is due.
        told: called with node, API key and values of each answer that may tell the cluster's id. Its errors leave
            `received`.
    """

    def __init__(self, world: World, now: int, told: Told = lambda node, api_key, values: None) -> None:
        self.world = world
        self._play = Play(world, now, told)
        self._answers = Answers(self._play, self._send_again)
        self._recorded = RecordedSide(self._play, self._answers.complete)
        self._sending = Sending(self._play, self._recorded, self._answers)
        self._finishing = Finishing(self._play)

    # questions of the player

    def actions(self) -> list[Action]:
        """The actions to take, in this order. Each is returned once."""
        return self._play.links.actions()

    @property
    def next_wake(self) -> int | None:
        """The latest time to call `wake`; None: not before something else happens."""
        return self._play.timers.next_at

    @property
    def finished(self) -> bool:
        """True once nothing is left to do."""
        return self._play.phase is Phase.FINISHED

    @property
    def phase(self) -> Phase:
        """How far the replay is."""
        return self._play.phase

    @property
    def progress(self) -> Progress:
        """How far the replay is, for the line on the terminal."""
        self._play.look_how_far()
        return self._play.progress

    @property
    def memory(self) -> int:
        """Bytes of exchanges that were read and are not settled, as `--memory` counts them."""
        return self._play.memory.used

    def wants(self, now: int) -> bool:
        """True if happenings should be fed: memory has room, and those fed are not far ahead of the play."""
        return self._recorded.wants(now)

    def waited_for(self, now: int) -> Counter[str]:
        """What the replay waits for, as texts for people, counted."""
        ending = _OF_PHASE.get(self.phase)
        return waited_for(self._play.lanes.values(), now) if ending is None else Counter({ending: 1})

    # happenings of the recording

    def feed(self, happenings: Iterable[Happening], now: int) -> None:
        """Takes the next happenings, as long as they are wanted. Behind the replay's end, happenings are ignored."""
        if self._play.phase is not Phase.PLAYING:
            return
        self._recorded.feed(happenings, now)
        if self._sending.unread:
            self._sending.release_unread(now)
        self._run_if_changed(now)

    def end(self, now: int) -> None:
        """The recording is over: requests without an answer have none."""
        if self._play.phase is Phase.PLAYING:
            self._recorded.end(now)
            self._run(now)

    # results of actions

    def loaded(self, origin: Origin, frame: bytes | None, answer: bytes | None, now: int) -> None:
        """Frames were read again. None: a frame that can't be read, or that was not asked for."""
        item = self._play.memory.loaded(origin, frame, answer, now)
        if item is not None:
            self._play.ready[item.lane] = None
        self._run(now)

    def opened(self, channel: int, offered: OfferedVersions, now: int) -> None:
        """A channel is open and logged in; its node has said which versions it has."""
        lane = self._play.links.opened(channel, offered, now)
        if lane is not None:
            for node in [*lane.channels]:
                self._play.own.opened(lane, node, now)
            self._play.ready[lane] = None
            self._play.held.all_changed()
        self._run(now)

    def wrote(self, channel: int, count: int, now: int) -> None:
        """The first bytes of `count` more requests of a channel have left."""
        self._play.links.wrote(channel, count, now)
        self._run_if_changed(now)

    def received(self, channel: int, frames: Iterable[bytes], now: int) -> None:
        """Frames arrived. One that answers no request ends its channel."""
        self._play.links.received(channel, frames, now)
        self._run(now)

    def closed(self, channel: int, now: int) -> None:
        """A channel was closed, or could not be opened."""
        lane = self._play.links.closed(channel, now)
        if lane is not None:
            self._play.own.closed(lane, now)
            self._play.ready[lane] = None
            for _, at in lane.dials.values():
                self._play.look_again(lane, at)
            # its node may be gone for good, and others lead its partitions
            self._play.own.refresh(now)
        self._run(now)

    def wake(self, now: int) -> None:
        """Time went by."""
        self._play.timers.run(now)
        self._play.held.all_changed()
        self._run(now)

    def stop(self, ending: Ending, now: int) -> None:
        """Ends the replay early: withholds what has not left, aborts transactions, leaves groups."""
        self._play.end(ending)
        self._run(now)

    # consequences

    def _run_if_changed(self, now: int) -> None:
        """Runs after what mostly changes nothing: a recorded answer, or a request's first byte."""
        play = self._play
        if play.ready or play.held.has_changed or play.phase is not Phase.PLAYING:
            self._run(now)

    def _run(self, now: int) -> None:
        """Lets every item leave that may."""
        play = self._play
        while True:
            play.free(play.held.freed())
            # recorded requests leave before requests are made in their place
            if not play.ready and self._finishing.is_due(now):
                self._finishing.tick(now)
                play.free(play.held.freed())
            if not play.ready:
                break
            ready, play.ready = play.ready, {}
            for lane in ready:
                self._sending.advance(lane, now)
        if play.phase is Phase.STOPPING:
            self._finishing.stop(now)
        if play.phase is Phase.PLAYING and play.is_read and not play.lanes:
            self._finishing.drain(now)
        if play.phase is Phase.FINISHING:
            self._finishing.go_on(now)

    def _send_again(self, item: Item, only: WantedElements | None, now: int) -> None:
        self._sending.send_again(item, only, now)
