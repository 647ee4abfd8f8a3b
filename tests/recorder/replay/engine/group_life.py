"""Records lives of a classic group with commits in virtual time, and lets the engine play them to a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

from proxy.wire import encode_response
from proxy.wire.error_codes import REBALANCE_IN_PROGRESS
from proxy.wire.keys import OFFSET_COMMIT
from recorder.replay.options import Options
from recorder.replay.plan import Exchange
from recorder.replay.stream import AnswerRecorded, ConnectionClosed, RequestRecorded
from tests.recorder.replay.group_clients import GROUP, Capture, ClassicClient
from tests.recorder.replay.group_coordinator import INITIAL_DELAY, SECOND, Clock, Coordinator, Values
from tests.recorder.replay.simple import answered as like_one_node
from tests.recorder.replay.simulation import MS, Answer, Got, Recording, Simulation, one_node

COMMIT_VERSION = 7
LONGEST = 40 * SECOND
# time after the last action of a member, in which session timeouts and rebalances end
CALM = 60 * SECOND


class CommittingClient(ClassicClient):
    """A Java consumer that commits when its partitions are revoked: when it must rejoin, it commits first."""

    def refused(self, error: int) -> bool:
        if error == REBALANCE_IN_PROGRESS:
            self._commit(lambda _: self._join())
            return True
        return super().refused(error)

    def _commit(self, done: Callable[[Values], None]) -> None:
        self.beats = 0
        self._ask(OFFSET_COMMIT, COMMIT_VERSION, self._committed(), done)

    def _committed(self) -> Values:
        partition = {"partition_index": 0, "committed_offset": self.generation, "committed_metadata": ""}
        return {
            "group_id": GROUP,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "topics": [{"name": "a", "partitions": [partition]}],
        }


class TwoConnectionsClient(CommittingClient):
    """A consumer that commits as soon as it has its partitions, on a connection of its own."""

    def _synced(self, answer: Values) -> None:
        super()._synced(answer)
        if not answer["error_code"]:
            other = self.capture.open()
            self.capture.ask(other, OFFSET_COMMIT, COMMIT_VERSION, self._committed(), lambda _: None)


class CooperativeClient(CommittingClient):
    """A consumer that takes partitions step by step (KIP-429): a leader with a newcomer joins again once it has synced.

    A follower sends its SyncGroup only once it has looked after its partitions (`busy`, ns).
    """

    busy = 20 * MS
    members: frozenset[str] = frozenset()
    gives_up = False

    def _joined(self, answer: Values) -> None:
        if not answer["error_code"]:
            members = frozenset(member["member_id"] for member in answer["members"])
            self.gives_up = bool(self.members) and not members <= self.members
            self.members = members
        super()._joined(answer)

    def _sync(self, assignments: list[Values]) -> None:
        self.capture.clock.after(
            0 if assignments else self.busy, lambda: super(CooperativeClient, self)._sync(assignments)
        )

    def _synced(self, answer: Values) -> None:
        super()._synced(answer)
        if not answer["error_code"] and self.gives_up:
            self.rejoin()


class SlowFollower(CooperativeClient):
    """A consumer whose leader sends a heartbeat before the followers have synced."""

    busy = 5 * SECOND

    def rejoin(self) -> None:
        """Keeps its partitions."""


def lived(
    actions: list[tuple[int, str, int]],
    *,
    seed: int = 0,
    client: type[ClassicClient] = CommittingClient,
    static: int = 0,
    initial_delay: int = INITIAL_DELAY,
) -> Recording:
    """Records clients that act at these times (in tenths of a second). `static`: how many have an instance id."""
    clock = Clock()
    coordinator = Coordinator(clock, (f"recorded-{n}" for n in count()), initial_delay=initial_delay)
    capture = Capture(clock, coordinator.handle, Random(seed))
    clients = [client(capture, number, f"i{number}" if number < static else None) for number in range(4)]
    for number, action, tenths in actions:
        clock.at(tenths * SECOND // 10, getattr(clients[number], action))
    clock.run(LONGEST + CALM)
    return recording(capture.exchanges, capture.closed)


def recording(exchanges: list[Exchange], closed: list[tuple[int, tuple[str, int]]]) -> Recording:
    """Returns a recorder's capture of these exchanges."""
    found = Recording()
    for each in exchanges:
        found.happenings.append(RequestRecorded(each.first_ns, each, "main"))
        if each.answered_ns is not None:
            answer = AnswerRecorded(each.answered_ns, each.origin, each.api_key, each.version, each.answer_frame, False)
            found.happenings.append(answer)
            each.answer_frame = each.answered_ns = None
            each.forget_values()
    found.happenings += [ConnectionClosed(at, connection) for at, connection in closed]
    found.happenings.sort(key=lambda happening: happening.ns)
    return found


class Life:
    """The same history on a target that assigns other ids, and elects leaders by `elect`.

    `answered`: when the target answered each request (ms). `way`: the time that an answer takes from there; `reads`: as
    a simulation's.
    """

    def __init__(
        self,
        recorded: Recording,
        *,
        options: Options,
        elect: Callable[[list[str]], str] = min,
        initial_delay: int = INITIAL_DELAY,
        way: float = 1,
        reads: float = 0,
    ) -> None:
        self.answered: list[tuple[float, Got, Values]] = []
        self._way = way
        self.simulation = Simulation(recorded, self._answer, options, cluster=one_node(("a", 1)), reads=reads)
        ids = (f"target-{97 * n % 1009:03d}" for n in count(1))
        self.coordinator = Coordinator(_SimulatedClock(self.simulation), ids, elect, initial_delay)
        self.result = self.simulation.run()

    def _answer(self, got: Got) -> Answer:
        if "group_id" not in got.values:
            return like_one_node(got)

        def answered(values: Values) -> None:
            simulation, frame = self.simulation, encode_response(got.key, got.version, got.correlation_id, values)
            self.answered.append((simulation.now / MS, got, values))
            simulation.at(simulation.now / MS + self._way, lambda: simulation.receive(got.channel, frame))

        self.coordinator.handle(got.key, got.version, got.values, answered)
        return None


class _SimulatedClock(Clock):
    """The simulation's time."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    @property
    def now(self) -> int:  # type: ignore[override]
        return self._simulation.now

    def at(self, when: int, call: Callable[[], Any]) -> None:
        self._simulation.at(max(when, self.now) / MS, call)
