"""Plays exchanges against a target, without sockets or a clock: happenings, answers and time in; actions out.

    feed, end            what happened in the recording, in its order, and that nothing more did
    opened, wrote,       what became of the actions
    received, closed
    wake                 time went by: `next_wake` says when to call
    actions              connections to open, bytes to write, connections to close

An exchange is an `Item` on the `Lane` of its recorded connection. The head of a lane's queue leaves when it is due,
when everything that it waits for is settled (`order`), and when all rooms agree; then its values are routed, written in
a version that the target has, and sent on the lane's channel to each node concerned (`sending`). When the target and
the recording have both answered, the rooms learn from the pair, the answers are compared (`answers`), and those who
waited are told. Nothing is ever guessed: what can't be translated is withheld with its reason.
"""

from __future__ import annotations

from collections import Counter

from recorder.replay.engine.answers import Answers
from recorder.replay.engine.channels import Action
from recorder.replay.engine.finishing import Finishing
from recorder.replay.engine.item import Item
from recorder.replay.engine.play import Phase, Play
from recorder.replay.engine.recorded import Recorded
from recorder.replay.engine.sending import Sending
from recorder.replay.engine.standstill import waited_for
from recorder.replay.engine.world import World
from recorder.replay.outcome import Ending, Progress
from recorder.replay.plan import Offered, Origin
from recorder.replay.requests.layout import Only
from recorder.replay.stream import Happening

_OF_PHASE = {
    Phase.DRAINING: "records that the recording has read (--drain)",
    Phase.FINISHING: "transactions to abort and groups to leave",
}


class Engine:
    """One replay. `world`: its rooms; `now`: the player's clock, ns, at which the first row is due."""

    def __init__(self, world: World, now: int) -> None:
        self.world = world
        self._play = Play(world, now)
        self._answers = Answers(self._play, self._send_again)
        self._recorded = Recorded(self._play, self._answers.complete)
        self._sending = Sending(self._play, self._recorded, self._answers)
        self._finishing = Finishing(self._play)

    # what the player asks

    def actions(self) -> list[Action]:
        """What is to be done, in this order; each is given out once."""
        return self._play.links.actions()

    @property
    def next_wake(self) -> int | None:
        """When `wake` should be called at the latest; None: not before something else happens."""
        return self._play.timers.next_at

    @property
    def finished(self) -> bool:
        """True once nothing is left to be done."""
        return self._play.phase is Phase.FINISHED

    @property
    def phase(self) -> Phase:
        """How far the replay is."""
        return self._play.phase

    @property
    def progress(self) -> Progress:
        """How far it is, for the line that is shown meanwhile."""
        return self._play.progress

    @property
    def memory(self) -> int:
        """Bytes of what was read and is not settled, as `--memory` counts them."""
        return self._play.memory.used

    def wants(self, now: int) -> bool:
        """True if rows should be fed: few wait, and those fed are not far ahead of the play."""
        return self._recorded.wants(now)

    def waited_for(self, now: int) -> Counter[str]:
        """What keeps the replay from going on, for people, counted."""
        ending = _OF_PHASE.get(self.phase)
        return waited_for(self._play.lanes.values(), now) if ending is None else Counter({ending: 1})

    # what happened in the recording

    def feed(self, happening: Happening, now: int) -> None:
        """The next of what happened; what comes behind a `stop` is left out."""
        if self._play.phase is not Phase.PLAYING:
            return
        self._recorded.feed(happening, now)
        self._sending.poll(now)
        # most recorded answers change nothing yet
        if self._play.ready or self._play.has_news:
            self._run(now)

    def end(self, now: int) -> None:
        """Nothing more happened: what has no answer yet has none."""
        if self._play.phase is Phase.PLAYING:
            self._recorded.end(now)
            self._run(now)

    # what became of the actions

    def loaded(self, origin: Origin, frame: bytes | None, answer: bytes | None, now: int) -> None:
        """Frames were read again; None: they can't be, or were not asked for."""
        item = self._play.memory.loaded(origin, frame, answer, now)
        if item is not None:
            self._play.ready[item.lane] = None
        self._run(now)

    def opened(self, channel: int, offered: Offered, now: int) -> None:
        """A channel is open and logged in; its node has said which versions it has."""
        lane = self._play.links.opened(channel, offered, now)
        if lane is not None:
            for node in [*lane.channels]:
                self._play.own.opened(lane, node, now)
            self._play.ready[lane] = None
            self._play.has_news = True
        self._run(now)

    def wrote(self, channel: int, count: int, now: int) -> None:
        """So many more requests of a channel are on their way: the first byte of each has left."""
        self._play.links.wrote(channel, count, now)
        self._run(now)

    def received(self, channel: int, frame: bytes, now: int) -> None:
        """A frame arrived. One that answers nothing ends its channel."""
        self._play.links.received(channel, frame, now)
        self._run(now)

    def closed(self, channel: int, now: int) -> None:
        """A channel is gone, or never came to be."""
        lane = self._play.links.closed(channel, now)
        if lane is not None:
            self._play.own.closed(lane, now)
            self._play.ready[lane] = None
            for _, at in lane.dials.values():
                self._play.look_again(lane, at)
            # its node may have gone for good: who leads its partitions now?
            self._play.own.refresh(now)
        self._run(now)

    def wake(self, now: int) -> None:
        """Time went by."""
        self._play.timers.run(now)
        self._play.has_news = True
        self._run(now)

    def stop(self, ending: Ending, now: int) -> None:
        """Ends the replay in order: what has not left is withheld, transactions are aborted, groups left."""
        self._play.end(ending)
        self._run(now)

    # what follows

    def _run(self, now: int) -> None:
        """Lets everything leave that may."""
        play = self._play
        self._finishing.tick(now)
        while play.ready or (play.held and play.has_news):
            if play.has_news:
                play.has_news = False
                play.ready.update(play.held)
                play.held.clear()
            ready, play.ready = play.ready, {}
            for lane in ready:
                self._sending.advance(lane, now)
        if play.phase is Phase.STOPPING:
            self._finishing.stop(now)
        if play.phase is Phase.PLAYING and play.is_read and not play.lanes:
            self._finishing.drain(now)
        if play.phase is Phase.FINISHING:
            self._finishing.go_on(now)

    def _send_again(self, item: Item, only: Only | None, now: int) -> None:
        self._sending.again(item, only, now)
