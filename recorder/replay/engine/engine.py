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
"""

from __future__ import annotations

from collections import Counter

from recorder.replay.engine.answers import Answers
from recorder.replay.engine.channels import Action
from recorder.replay.engine.finishing import Finishing
from recorder.replay.engine.item import Item
from recorder.replay.engine.links import Told
from recorder.replay.engine.play import Phase, Play
from recorder.replay.engine.recorded import Recorded
from recorder.replay.engine.sending import Sending
from recorder.replay.engine.standstill import waited_for
from recorder.replay.engine.world import World
from recorder.replay.outcome import Ending, Progress
from recorder.replay.plan import OfferedVersions, Origin
from recorder.replay.requests.layout import WantedElements
from recorder.replay.stream import Happening

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
        self._recorded = Recorded(self._play, self._answers.complete)
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

    def feed(self, happening: Happening, now: int) -> None:
        """Takes the next happening. Behind the replay's end, happenings are ignored."""
        if self._play.phase is not Phase.PLAYING:
            return
        self._recorded.feed(happening, now)
        if self._sending.unread:
            self._sending.release_unread(now)
        # most recorded answers change nothing yet
        if self._play.ready or self._play.held.has_changed:
            self._run(now)

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
        self._run(now)

    def received(self, channel: int, frame: bytes, now: int) -> None:
        """A frame arrived. One that answers no request ends its channel."""
        self._play.links.received(channel, frame, now)
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

    def _run(self, now: int) -> None:
        """Lets every item leave that may."""
        play = self._play
        if self._finishing.is_due(now):
            self._finishing.tick(now)
        while True:
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
