"""Tests of recordings that begin in the middle of groups, transactions, producers' sequences, fetch and share sessions.

Wherever the recording begins, a target that does all of it is found as recorded, and one that has lost something of the
recording is found to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.keys import (
    FETCH,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    SYNC_GROUP,
)
from proxy.wire.records import with_base_offset
from recorder.replay import partitions
from recorder.replay.cluster import GROUP
from recorder.replay.messages import answer_values
from recorder.replay.options import Options
from recorder.replay.outcome import BeforeKind, FromBefore, Result, Stream, Verdict
from recorder.replay.plan import Exchange, Reason
from recorder.replay.stream import AnswerRecorded, RequestRecorded
from tests.recorder.replay.engine.group_life import CommittingClient, Life, lived
from tests.recorder.replay.fake_kafka import (
    FETCH_BY_ID,
    FETCH_BY_NAME,
    Clients,
    Fetcher,
    Kafka,
    Looker,
    Member,
    Producer,
    Steps,
    recorded,
)
from tests.recorder.replay.fake_shares import Sharing, other_cluster
from tests.recorder.replay.fake_shares import recorded as shared
from tests.recorder.replay.group_clients import SESSION_MS
from tests.recorder.replay.group_coordinator import INITIAL_DELAY, SECOND
from tests.recorder.replay.mid_life import without_beginning
from tests.recorder.replay.simple import PRODUCE_VERSION, answered, batch, produce, produced
from tests.recorder.replay.simulation import MS, Answer, Got, Recording, Simulation, Values, one_node
from tests.recorder.replay.test_fakes import SEEDS, SPEEDS, play
from tests.sweeps import examples

STEPS = st.integers(20, 60)
CUTS = st.floats(0, 0.9)
# behind these, most recordings still have something that a target may lose
EARLY_CUTS = st.floats(0.1, 0.5)
# ns; of consumers whose topic ids are from before the target owes records that nobody can ask for
DRAIN = 200 * MS
# the coordinator's initial delay, and answers
CALM_NS = 5_000 * MS
# of clusters made for tests, and of others (`group.initial.rebalance.delay.ms`)
INITIAL_DELAYS = [0, INITIAL_DELAY]
# ns; less than a third of a session, after which members are kept alive
LONGEST_LATENESS = 9 * SECOND
# GROUP_MAX_SIZE_REACHED
GROUP_IS_FULL = 81
Place = tuple[str, int]


@dataclass
class Forgetful(Kafka):
    """A cluster that forgets a record, or commits, that it has acknowledged, or takes no member of a group."""

    lost_record: bytes | None = None
    lost_commits: tuple[str, Place] | None = None
    full_group: str | None = None

    def of_replay(self, got: Got) -> Values | None:
        if got.key == JOIN_GROUP and got.values["group_id"] == self.full_group:
            refused = {"generation_id": -1, "protocol_name": "", "leader": "", "member_id": "", "members": []}
            return refused | {"error_code": GROUP_IS_FULL}
        answer = super().of_replay(got)
        if got.key == PRODUCE and self.lost_record is not None:
            self._forget_record()
        if got.key == FETCH and answer is not None:
            # the offsets of markers stand in no batch here: a reader would never be at its log's end
            for part in partitions.in_answer(FETCH, answer):
                if not part.values["records"]:
                    part.values["high_watermark"] = part.values["last_stable_offset"] = 0
        if got.key == OFFSET_COMMIT and self.lost_commits is not None:
            group, place = self.lost_commits
            self._group(group).offsets.pop(place, None)
        return answer

    def _forget_record(self) -> None:
        for place, log in self.log.items():
            if log and self.lost_record in [each.value for each in records.read(log[-1][1])]:
                self.ends[place], _ = log.pop()


def cut(seed: int, steps: int, share: float, *, is_v2: bool, is_timed: bool) -> tuple[Recording, Random]:
    random = Random(seed)
    found = recorded(random, Kafka.like(is_v2=is_v2), steps, is_timed=is_timed)
    without_beginning(found, int(len(found.happenings) * share))
    return found, random


def result_of(recording: Recording, target: Kafka, speed: float | None) -> Result:
    """Plays a recording. It can be played again."""
    frames = {
        row.exchange.origin: row.exchange.frame for row in recording.happenings if isinstance(row, RequestRecorded)
    }
    try:
        return play(recording, target, speed, drain=DRAIN).world.result
    finally:
        for row in recording.happenings:
            if isinstance(row, RequestRecorded):
                row.exchange.frame = frames[row.exchange.origin]
                row.exchange.answered_ns = None
                row.exchange.drop_answer()
                row.exchange.dropped.clear()
                row.exchange.cut_ns = None


def check(result: Result) -> None:
    assert [(each.api, each.differences) for each in result.mismatches] == []
    assert [each for each in result.streams if each.differs] == []
    assert {*result.totals.withheld} <= {Reason.FROM_BEFORE}
    # what remains may be nothing but requests of members from before
    assert result.verdict is Verdict.EQUAL or not result.totals.sent


@pytest.mark.parametrize("is_v2", [True, False], ids=["transactions-v2", "transactions-v1"])
@pytest.mark.parametrize("assigns", ["like the recorded cluster", "otherwise"])
@examples(40, derandomize=True)
# an OffsetFetch finds a commit from before
@example(seed=5, steps=60, share=0.5606115254007318, speed=1.0)
@given(seed=SEEDS, steps=STEPS, share=CUTS, speed=SPEEDS)
def test_a_target_that_does_all_of_a_recording_is_found_as_recorded_wherever_it_begins(
    is_v2: bool, assigns: str, seed: int, steps: int, share: float, speed: float | None
) -> None:
    recording, random = cut(seed, steps, share, is_v2=is_v2, is_timed=speed is not None)
    assume(recording.happenings)
    target = Kafka.other(random, is_v2=is_v2) if assigns == "otherwise" else Kafka.like(is_v2=is_v2)
    check(result_of(recording, target, speed))


def answers(recording: Recording, api_key: int) -> Iterator[tuple[Exchange, Values]]:
    """The exchanges of an API with their recorded answers."""
    asked = {row.exchange.origin: row.exchange for row in recording.happenings if isinstance(row, RequestRecorded)}
    for row in recording.happenings:
        if isinstance(row, AnswerRecorded) and row.api_key == api_key and row.frame is not None:
            yield asked[row.origin], answer_values(api_key, row.version, row.frame)


def read_records(recording: Recording, result: Result) -> list[bytes]:
    """The values of records that the recording writes, that its consumers read, and that the target has given them."""
    whole = {(one.consumer, one.topic, one.partition) for one in result.streams if not one.unread and one.equal}
    topics: dict[str | bytes, str | bytes] = {b"A" * 16: "a", b"B" * 16: "b"}
    written = {
        each.value
        for row in recording.happenings
        if isinstance(row, RequestRecorded) and row.exchange.api_key == PRODUCE
        for part in partitions.in_request(PRODUCE, row.exchange.request)
        for each in records.read(part.values["records"])
    }
    return [
        each.value
        for exchange, answer in answers(recording, FETCH)
        for part in partitions.in_answer(FETCH, answer)
        if (str(exchange.peer), topics.get(part.topic, part.topic), part.partition) in whole
        for each in records.read(part.values["records"] or b"")
        if each.value is not None and each.value in written
    ]


@pytest.mark.real
@examples(30, derandomize=True)
@given(seed=SEEDS, share=EARLY_CUTS, speed=SPEEDS)
def test_a_recorded_record_that_the_target_loses_is_a_difference_wherever_the_recording_begins(
    seed: int, share: float, speed: float | None
) -> None:
    recording, random = cut(seed, 40, share, is_v2=True, is_timed=speed is not None)
    assume(recording.happenings)
    read = read_records(recording, result_of(recording, Kafka.like(is_v2=True), speed))
    assume(read)
    target = Forgetful.like(is_v2=True)
    target.lost_record = random.choice(read)
    result = result_of(recording, target, speed)
    assert result.verdict is Verdict.MISMATCHED
    assert sum(one.missing for one in result.streams)


@pytest.mark.real
@examples(30, derandomize=True)
@given(seed=SEEDS, share=EARLY_CUTS)
def test_a_recorded_commit_that_the_target_loses_is_a_difference_wherever_the_recording_begins(
    seed: int, share: float
) -> None:
    recording, random = cut(seed, 80, share, is_v2=True, is_timed=True)
    commits = {
        (exchange.request["group_id"], (part.topic, part.partition)): exchange.first_ns
        for exchange, _ in reversed([*answers(recording, OFFSET_COMMIT)])
        for part in partitions.in_request(OFFSET_COMMIT, exchange.request)
    }
    found: list[tuple[str, Place]] = [
        (exchange.request["group_id"], (part.topic, part.partition))
        for exchange, answer in answers(recording, OFFSET_FETCH)
        for part in partitions.in_answer(OFFSET_FETCH, answer)
        if isinstance(part.topic, str)
        and commits.get((exchange.request["group_id"], (part.topic, part.partition)), 2**63) < exchange.first_ns
    ]
    assume(found)
    target = Forgetful.like(is_v2=True)
    target.lost_commits = random.choice(found)
    result = result_of(recording, target, 1.0)
    assert result.verdict is Verdict.MISMATCHED
    assert result.apis["OffsetFetch"].mismatches


@examples(20, derandomize=True)
@given(seed=SEEDS, share=EARLY_CUTS)
def test_a_recorded_member_that_the_target_does_not_take_is_a_difference_wherever_the_recording_begins(
    seed: int, share: float
) -> None:
    recording, random = cut(seed, 60, share, is_v2=True, is_timed=True)
    joined = [exchange.request["group_id"] for exchange, _ in answers(recording, JOIN_GROUP)]
    assume(joined)
    target = Forgetful.like(is_v2=True)
    target.full_group = random.choice(joined)
    assert result_of(recording, target, 1.0).apis["JoinGroup"].mismatches


@examples(40, derandomize=True)
@given(seed=SEEDS, steps=STEPS, speed=SPEEDS, assigns_otherwise=st.booleans())
def test_without_a_produce_nothing_that_consumers_read_differs_on_an_empty_target(
    seed: int, steps: int, speed: float | None, assigns_otherwise: bool
) -> None:
    random = Random(seed)
    clients = Clients(Kafka.like(is_v2=True), random, is_timed=speed is not None)
    producers = [Producer(clients, 1, "plain"), Producer(clients, 2, "idempotent")]
    for _ in range(steps):
        random.choice(producers).step()
    written = len(clients.recording.happenings)
    consumers: list[Steps] = [
        Fetcher(clients, 5, FETCH_BY_NAME),
        Fetcher(clients, 6, FETCH_BY_ID),
        Member(clients, 7, "g"),
    ]
    everybody: list[Steps] = [*consumers, Looker(clients, 9)]
    for _ in range(steps):
        random.choice(everybody).step()
    without_beginning(clients.recording, written)
    result = result_of(
        clients.recording, Kafka.other(random, is_v2=True) if assigns_otherwise else Kafka.like(is_v2=True), speed
    )
    check(result)


@pytest.mark.real
@examples(60, derandomize=True)
# a session ends, of whose topic no answer tells the name
@example(seed=150, steps=30, share=0.5477324303842627, speed=3.0, written=20)
@given(seed=SEEDS, steps=STEPS, share=CUTS, speed=SPEEDS, written=st.sampled_from([0, 0, 20]))
def test_a_target_is_found_as_recorded_wherever_the_recording_of_a_share_group_begins(
    seed: int, steps: int, share: float, speed: float | None, written: int
) -> None:
    random = Random(seed)
    recording = shared(random, steps, written=written)
    without_beginning(recording, int(len(recording.happenings) * share))
    assume(recording.happenings)
    check(result_of(recording, random.choice([Sharing(), other_cluster(random)]), speed))


@pytest.mark.real
@examples(30, derandomize=True)
@given(seed=SEEDS, share=EARLY_CUTS)
def test_a_record_that_the_target_loses_is_a_difference_wherever_the_recording_of_a_share_group_begins(
    seed: int, share: float
) -> None:
    random = Random(seed)
    recording = shared(random, 60)
    without_beginning(recording, int(len(recording.happenings) * share))
    written = [
        each.value
        for row in recording.happenings
        if isinstance(row, RequestRecorded) and row.exchange.api_key == PRODUCE
        for part in partitions.in_request(PRODUCE, row.exchange.request)
        for each in records.read(part.values["records"])
    ]
    # without an answer that names the topic, nothing of it can be asked for
    assume(written and any(True for _ in answers(recording, METADATA)))
    target = other_cluster(random)
    target.lost_record = random.choice(written)
    result = result_of(recording, target, 1.0)
    assert result.verdict is Verdict.MISMATCHED
    assert sum(one.missing for one in result.streams)


@examples(20, derandomize=True)
@given(seed=SEEDS, share=EARLY_CUTS)
def test_a_member_that_the_target_does_not_take_is_a_difference_wherever_the_recording_of_a_share_group_begins(
    seed: int, share: float
) -> None:
    random = Random(seed)
    recording = shared(random, 60)
    without_beginning(recording, int(len(recording.happenings) * share))
    assume(any(not exchange.request["member_epoch"] for exchange, _ in answers(recording, SHARE_GROUP_HEARTBEAT)))
    target = other_cluster(random)
    target.is_full = True
    assert result_of(recording, target, 1.0).apis["ShareGroupHeartbeat"].mismatches


ACTIONS = ["start", "start", "leave", "crash", "rejoin", "rejoin"]


def any_group(seed: int, share: float) -> Recording:
    """A group's life, without its beginning."""
    random = Random(seed)
    # some actions at any time, the others together
    times = [lambda: random.randrange(200), lambda: 50]
    history = [
        (random.randint(0, 3), random.choice(ACTIONS), random.choice(times)()) for _ in range(random.randint(3, 9))
    ]
    recording = lived(history, seed=seed)
    without_beginning(recording, int(len(recording.happenings) * share))
    return recording


def without_assignment(recording: Recording) -> tuple[int, int]:
    """How many recorded SyncGroups were refused, and how many were never answered: the member got no assignment."""
    asked = sum(isinstance(row, RequestRecorded) and row.exchange.api_key == SYNC_GROUP for row in recording.happenings)
    errors = [answer["error_code"] for _, answer in answers(recording, SYNC_GROUP)]
    return sum(map(bool, errors)), asked - len(errors)


@pytest.mark.parametrize("elect", [min, max])
@examples(16, derandomize=True)
@example(seed=25, share=0.1)
# a follower's SyncGroup was refused, since its leader was gone
@example(seed=365, share=0.12250224381531072)
# the elected leader leaves by a recorded request while the others sync
@example(seed=1885, share=0.03286071812107255)
@given(seed=st.integers(0, 10_000), share=CUTS)
def test_of_any_group_only_what_is_from_before_is_withheld_at_max_and_nothing_waits_for_it(
    elect: Callable[[list[str]], str], seed: int, share: float
) -> None:
    recording = any_group(seed, share)
    assume(recording.happenings)
    refused, unanswered = without_assignment(recording)
    life = Life(recording, options=Options(speed=None), elect=elect)
    withheld = life.result.totals.withheld
    assert {*withheld} <= {Reason.FROM_BEFORE, Reason.REFUSED, Reason.NO_LEADER}
    # the target would give an assignment where the recording gave none
    assert withheld[Reason.REFUSED] <= refused
    assert withheld[Reason.NO_LEADER] <= unanswered
    assert not life.result.totals.lost
    # two sessions of a member time out one after the other, at most
    assert life.simulation.now <= 2 * SESSION_MS * MS + CALM_NS


@pytest.mark.parametrize("elect", [min, max])
@pytest.mark.parametrize(
    ("seed", "share"),
    [
        # the only member commits in a generation whose leader is from before
        (365, 0.12250224381531072),
        # members commit while the group rebalances, because the leader was gone before its SyncGroup
        (2188, 0.021261372588409922),
        (2925, 0.17746594106179134),
        # a member from before left while its join was in flight, which was refused
        (798, 0.047225269831230286),
        (2592, 0.040828720056882206),
    ],
)
def test_a_group_whose_leader_never_assigned_goes_on_as_recorded_at_max(
    seed: int, share: float, elect: Callable[[list[str]], str]
) -> None:
    life = Life(any_group(seed, share), options=Options(speed=None), elect=elect)
    assert life.result.mismatches == []


class PatientClient(CommittingClient):
    """A consumer with the timeouts of kafkajs."""

    session_ms, rebalance_ms = 30_000, 60_000


def older_group(random: Random) -> Recording:
    """Members that are there when the recording begins, and newcomers, rejoins and departures, one after the other."""
    older = random.randint(1, 3)
    history = [(number, "start", random.randrange(3)) for number in range(older)]
    for tenths in range(100, 100 + 100 * random.randint(1, 3), 100):
        number = random.randrange(4)
        action = "start" if number >= older else random.choice(["rejoin", "rejoin", "leave"])
        history.append((number, action, tenths + random.randrange(40)))
    recording = lived(
        history,
        seed=random.randrange(1000),
        client=PatientClient,
        static=random.choice([0, 0, 2]),
        initial_delay=random.choice(INITIAL_DELAYS),
    )
    begins = random.uniform(8, 9.9) * SECOND
    without_beginning(recording, next(at for at, row in enumerate(recording.happenings) if row.ns >= begins))
    return recording


# made SyncGroups waited for recorded ones behind the same member's requests; a commit of no member raced with a join
WAITED = (580, 599, 764, 1225)


@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "1x"])
@pytest.mark.parametrize(
    "seeds",
    [[*range(20), *WAITED], pytest.param([*range(20, 500)], marks=pytest.mark.long)],
    ids=["some", "many"],
)
def test_no_member_waits_for_one_whose_joining_is_not_in_the_recording(seeds: list[int], speed: float | None) -> None:
    # --wait ends long before a session or a rebalance does
    options = Options(speed=speed, wait=10 * SECOND if speed is None else Options().wait)
    wrong: list[tuple[int, object]] = []
    for seed in seeds:
        random = Random(seed)
        recording = older_group(random)
        elect, initial_delay = random.choice([min, max]), random.choice(INITIAL_DELAYS)
        result = Life(recording, options=options, elect=elect, initial_delay=initial_delay).result
        lacks = {*result.totals.withheld} - {Reason.FROM_BEFORE}
        if result.totals.lost or lacks or result.mismatches or result.late.most_ns > LONGEST_LATENESS:
            wrong.append((seed, [result.totals.lost, lacks, result.mismatches, result.late.most_ns]))
    assert wrong == []


@pytest.mark.parametrize("initial_delay", INITIAL_DELAYS)
@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "1x"])
@pytest.mark.parametrize("leaves", [102, 104], ids=["behind its join", "while its join waits"])
@pytest.mark.parametrize("number", [0, 1], ids=["leader", "follower"])
def test_a_member_leaves_on_the_target_before_or_behind_its_joins_answer_as_in_the_recording(
    number: int, leaves: int, speed: float | None, initial_delay: int
) -> None:
    history = [(0, "start", 0), (1, "start", 1), (number, "rejoin", 102), (number, "leave", leaves)]
    recording = lived(history, seed=leaves, client=PatientClient, initial_delay=0)
    without_beginning(recording, next(at for at, row in enumerate(recording.happenings) if row.ns >= 10 * SECOND))
    result = Life(recording, options=Options(speed=speed), initial_delay=initial_delay).result
    assert [(each.api, each.differences) for each in result.mismatches] == []
    # the target does not wait for the end of a session
    assert result.late.most_ns <= LONGEST_LATENESS


@pytest.mark.parametrize("initial_delay", INITIAL_DELAYS)
@pytest.mark.parametrize("elect", [min, max])
def test_a_made_sync_assigns_to_a_member_whose_join_is_answered_in_the_same_moment(
    elect: Callable[[list[str]], str], initial_delay: int
) -> None:
    # the recorded answers come after more than the five seconds that are read ahead
    recording = lived([(0, "start", 0), (1, "start", 0)], seed=2, client=PatientClient, static=2)
    life = Life(recording, options=Options(speed=1.0), elect=elect, initial_delay=initial_delay)
    assert life.result.mismatches == []


def test_static_members_keep_their_prefix_where_an_earlier_answer_counts_for_their_join() -> None:
    # the target's present generation answers a recorded rejoin, which is not sent; a made join follows
    history = [(0, "start", 0), (1, "start", 2), (1, "rejoin", 106), (0, "rejoin", 205), (2, "rejoin", 304)]
    recording = lived(history, seed=24, client=PatientClient, static=2)
    life = Life(recording, options=Options(speed=None, prefix="p-"))
    named = {got.values.get("group_instance_id") for got in life.simulation.got}
    assert named <= {None, "p-i0", "p-i1"}
    assert life.result.mismatches == []


RECORDED_ID, TARGET_ID = b"r" * 16, b"t" * 16


def share_group() -> Recording:
    """A member whose session began before reads two records from before, and one that is written meanwhile."""
    found = Recording()
    topic = {"error_code": 0, "name": "a", "topic_id": RECORDED_ID, "partitions": []}
    told = {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "topics": [topic]}
    found.exchanges(0, 9, METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}, told)
    values = {"group_id": "g", "member_id": "m", "max_wait_ms": 500, "topics": [], "forgotten_topics_data": []}
    for at, epoch, told_records in ((10, 4, [(5, b"old"), (6, b"older")]), (40, 5, [(7, b"new")]), (60, 6, [])):
        exchange = found.asks(at, 1, SHARE_FETCH, 1, values | {"share_session_epoch": epoch})
        found.answers(at + 5, exchange, given_records(RECORDED_ID, told_records))
    found.exchanges(20, 2, PRODUCE, PRODUCE_VERSION, produce(data=batch(b"new")), produced(base=7))
    found.happenings.sort(key=lambda happening: happening.ns)
    return found


def given_records(topic_id: bytes, told: list[tuple[int, bytes]]) -> Values:
    acquired = [{"first_offset": offset, "last_offset": offset, "delivery_count": 1} for offset, _ in told]
    data = b"".join(with_base_offset(batch(value), offset) for offset, value in told)
    partition = {"partition_index": 0, "error_code": 0, "records": data, "acquired_records": acquired}
    return {"error_code": 0, "responses": [{"topic_id": topic_id, "partitions": [partition] if told else []}]}


@pytest.mark.parametrize("has_lost", [False, True], ids=["as recorded", "with a loss"])
def test_a_share_session_from_before_gives_its_recorded_record(has_lost: bool) -> None:
    left = [] if has_lost else [(0, b"new")]

    def answer(got: Got) -> Answer:
        if got.key == SHARE_FETCH:
            is_asked = any(topic["partitions"] for topic in got.values["topics"]) or got.values["share_session_epoch"]
            return given_records(TARGET_ID, [left.pop()] if left and is_asked and simulation.asked(PRODUCE) else [])
        return answered(got)

    cluster = one_node(("a", 1))
    cluster.name_topic("a", TARGET_ID)
    cluster.coordinators[GROUP, "g"] = 1
    simulation = Simulation(share_group(), answer, Options(), cluster=cluster)
    result = simulation.run()
    simulation.world.close(simulation.engine.progress, 0)
    assert result.streams == [Stream("share group g", "a", 0, equal=not has_lost, missing=has_lost, before=2)]
    assert result.before == (FromBefore(BeforeKind.RECORDS, "a", 2),)
    assert result.verdict is (Verdict.MISMATCHED if has_lost else Verdict.EQUAL)
