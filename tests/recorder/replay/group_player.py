"""A small engine in virtual time for the translator of groups: it plays a capture to a simulated coordinator.

A request leaves after the responses of its connection and its group that the recording had before the request's first
byte. Membership requests leave in recorded order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy import wire
from proxy.wire.keys import SYNC_GROUP
from recorder.replay.cluster import Cluster
from recorder.replay.groups.groups import Groups
from recorder.replay.mapping import Pairs
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.plan import AnsweredBefore, Exchange, Hold, MadeRequest, Reason, Resend, Values, Withheld
from recorder.replay.requests.apis import MEMBERSHIP
from tests.recorder.replay.group_clients import like_recorded
from tests.recorder.replay.group_coordinator import MILLISECOND, SECOND, Clock

# the engine gives up a request after this time; nothing waits for more than a few such requests in turn
WAIT = 60 * SECOND
MAX_LATE = 10 * WAIT
POLL = 20 * MILLISECOND


def through_codec(api_key: int, version: int, values: Values) -> Values:
    """Returns the values that a broker reads of a request of this version."""
    codec = wire.codec("request", api_key, version)
    assert codec
    return codec.decode(codec.encode(values))[0]


@dataclass(eq=False)
class Playing:
    """An exchange in flight."""

    exchange: Exchange
    due: int
    read: bool = False
    left: bool = False
    flying: bool = False
    done: bool = False
    held: int | None = None


def syncs(other: Playing, exchange: Exchange) -> bool:
    """True if a SyncGroup in flight may wait for the SyncGroup of the member that the target elected."""
    elsewhere = other.exchange.connection != exchange.connection
    return other.flying and elsewhere and other.exchange.api_key == SYNC_GROUP


@dataclass
class Player:
    """Plays `exchanges` on `clock` against `handle`, at this `speed`; None: `max`."""

    clock: Clock
    handle: Callable[..., None]
    exchanges: list[Exchange]
    closed: list[tuple[int, tuple[str, int]]] = field(default_factory=list)
    speed: float | None = 1.0
    names: Names = field(default_factory=lambda: Names("", {}, Cluster()))
    versions: dict[int, int] = field(default_factory=dict)
    withheld: list[tuple[Exchange, Withheld]] = field(default_factory=list)
    answers: dict[Exchange, Values] = field(default_factory=dict)
    before: list[Exchange] = field(default_factory=list)
    made: list[MadeRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pairs = Pairs()
        self.groups = Groups(self.pairs, self.names, Options(speed=self.speed))
        self.waiting = [Playing(exchange, self._due(exchange.first_ns)) for exchange in self.exchanges]
        self._ends = sorted((self._due(at), at, connection) for at, connection in self.closed)
        self._polls: set[int] = set()

    def _due(self, at: int) -> int:
        return 0 if self.speed is None else int(at / self.speed)

    def run(self, rest: int = 0) -> None:
        """Plays all exchanges, and lets `rest` pass."""
        for due in {playing.due for playing in self.waiting}:
            self.clock.at(due, self.pump)
        self.pump()
        last = self.clock.now + max((playing.due for playing in self.waiting), default=0) + MAX_LATE
        while self.waiting:
            assert self.clock.step(), "nothing is to come, yet requests wait"
            assert self.clock.now < last, "requests wait for ever"
        self._until(self.clock.now + rest)

    def _until(self, end: int) -> None:
        self.pump()
        self.clock.run(end)

    def finish(self) -> None:
        for made in self.groups.finish(at_once=True):
            self._send_made(made)
        self.clock.run(self.clock.now + SECOND)

    # -- one round --------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        self._close()
        moved = True
        while moved:
            moved = False
            for playing in list(self.waiting):
                moved |= self._may_be_asked(playing) and self._advance(playing)
            self.waiting = [playing for playing in self.waiting if not playing.done]
            self._close()
        made, wake = self.groups.tick(self.clock.now)
        for one in made:
            self._send_made(one)
        if wake is not None:
            assert wake > self.clock.now or made, "the engine would ask for ever"
            self._poll(wake)
        if any(playing.held is not None for playing in self.waiting):
            self._poll(self.clock.now + POLL)

    def _poll(self, at: int) -> None:
        at = max(at, self.clock.now + 1)
        if at not in self._polls:
            self._polls.add(at)

            def poll() -> None:
                self._polls.discard(at)
                self.pump()

            self.clock.at(at, poll)

    def _close(self) -> None:
        while self._ends and self._ends[0][0] <= self.clock.now and not self._before(self._ends[0][1]):
            self._end(self._ends.pop(0)[2])

    def _end(self, connection: tuple[str, int]) -> None:
        """Ends a recorded connection: the replay does not wait for responses that its end left out."""
        for playing in self.waiting:
            exchange = playing.exchange
            if playing.flying and exchange.connection == connection and exchange.answered_ns is None:
                playing.done, playing.flying = True, False
                self.groups.lost(exchange, None)
        self.groups.closed(connection)

    def _before(self, recorded_at: int) -> bool:
        """True if the engine has yet to send or receive something that the recording had before that time."""
        return any(
            playing.exchange.first_ns <= recorded_at and not (playing.done or self._unanswered(playing))
            for playing in self.waiting
        )

    @staticmethod
    def _unanswered(playing: Playing) -> bool:
        return playing.flying and playing.exchange.answered_ns is None

    def _may_be_asked(self, playing: Playing) -> bool:
        if playing.due > self.clock.now or playing.done or playing.flying:
            return False
        if not playing.read:
            playing.read = True
            self.groups.due(playing.exchange)
        return not any(self._precedes(other, playing.exchange) for other in self._ahead(playing))

    def _ahead(self, playing: Playing) -> list[Playing]:
        return self.waiting[: self.waiting.index(playing)]

    @staticmethod
    def _precedes(other: Playing, exchange: Exchange) -> bool:
        answered = other.exchange.answered_ns
        if not other.done and answered is not None and answered <= exchange.first_ns and not syncs(other, exchange):
            return True
        if other.exchange.connection == exchange.connection:
            return not other.left and not other.done
        both = {other.exchange.api_key, exchange.api_key}
        # a SyncGroup overtakes those that are held back: the member that the target elected needs the recorded leader's
        passes = both == {SYNC_GROUP} and other.held is not None
        return both <= MEMBERSHIP and not passes and not other.left and not other.done

    def _advance(self, playing: Playing) -> bool:
        exchange, now = playing.exchange, self.clock.now
        values = exchange.decoded()
        refusal = self.groups.request(exchange, values, now)
        if isinstance(refusal, Hold):
            playing.held = now if playing.held is None else playing.held
            if now - playing.held < WAIT:
                return False
            refusal = Withheld(Reason.GAVE_UP, refusal.reason)
        playing.held = None
        if refusal is None:
            self._send(playing, values)
        elif isinstance(refusal, AnsweredBefore):
            self.before.append(exchange)
            self._answered(playing, values, refusal.answer)
        else:
            assert isinstance(refusal, Withheld)
            self.withheld.append((exchange, refusal))
            playing.done = True
            self.groups.lost(exchange, values)
        return True

    # -- to the coordinator and back --------------------------------------------------------------------------------

    def _send(self, playing: Playing, values: Values) -> None:
        exchange = playing.exchange
        playing.left = playing.flying = True
        self._translate_names(values)
        self.groups.sent(exchange, values, self.clock.now)
        self._ask(exchange.api_key, exchange.version, values, lambda answer: self._arrived(playing, values, answer))

    def _translate_names(self, values: Values) -> None:
        """Renames as the translator of names does, which runs last."""
        for entry in values.get("topic_partitions") or ():
            entry["topic_id"] = self.names.target_id(entry["topic_id"])

    def _ask(self, api_key: int, version: int, values: Values, done: Callable[[Values], None]) -> None:
        version = self.versions.get(api_key, version)
        read = through_codec(api_key, version, values)

        def answered(answer: Values) -> None:
            self.clock.after(MILLISECOND, lambda: done(answer))

        self.clock.after(MILLISECOND, lambda: self.handle(api_key, version, read, answered))

    def _arrived(self, playing: Playing, values: Values, answer: Values) -> None:
        if playing.done:
            return
        playing.flying = False
        self._answered(playing, values, like_recorded(playing.exchange, answer))
        self.pump()

    def _answered(self, playing: Playing, values: Values, answer: Values) -> None:
        again = self.groups.answered(playing.exchange, values, answer, self.clock.now)
        assert again is None or isinstance(again, Resend)
        if again is None:
            playing.done = True
            self.answers[playing.exchange] = answer

    def _send_made(self, made: MadeRequest) -> None:
        self.made.append(made)
        known = wire.versions(made.api_key)

        def done(answer: Values) -> None:
            made.done(answer)
            self.pump()

        self._ask(made.api_key, known[-1], made.values, done)
