"""Records that only the recording refused, and their retries: what the target gets, and where the replay finds it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.keys import CREATE_TOPICS, DELETE_TOPICS, FETCH, INIT_PRODUCER_ID, METADATA, OFFSET_COMMIT, PRODUCE
from proxy.wire.pieces import LARGE
from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.replay.consumers.differences import RECENT
from recorder.replay.engine.world import World
from recorder.replay.options import Deletes, Options
from recorder.replay.prepare import Prepared
from recorder.replay.producers.repeats import MOST_RECORDS
from tests.recorder.replay.simple import FETCH_VERSION, PRODUCE_VERSION, fetch, fetched, produced
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, Values, one_node

A0 = ("a", 0)
# where the recorded log and the target's begin
RECORDED_FROM, TARGET_FROM = 1000, 50
REFUSED, TOO_LARGE = 6, 10
COMMIT_VERSION, CREATE_VERSION, DELETE_VERSION = 2, 4, 3
DELETED: Values = {"responses": [{"name": "a", "error_code": 0}]}
CREATED: Values = {"topics": [{"name": "a", "error_code": 0}]}


def batch(*values: bytes, codec: Compression = Compression.NONE) -> bytes:
    return write_batch([Record(place, 5, None, value) for place, value in enumerate(values)], codec=codec)


def message_set(*values: bytes, codec: Compression = Compression.NONE) -> bytes:
    return write_message_set([Record(place, 5, None, value) for place, value in enumerate(values)], codec=codec)


def stored(values: list[bytes], base: int) -> bytes:
    """The values as records of a log; no bytes if there are none."""
    return write_batch([Record(base + place, 5, None, value) for place, value in enumerate(values)]) if values else b""


def request(*batches: bytes) -> Values:
    """A Produce to the partitions a-0, a-1 and so on."""
    data = [{"index": index, "records": each} for index, each in enumerate(batches)]
    topics = [{"name": "a", "partition_data": data}]
    return {"transactional_id": None, "acks": -1, "timeout_ms": 1, "topic_data": topics}


@dataclass
class Recorded:
    """Producers without ids and their cluster, recorded. `log`: the values in a-0."""

    recording: Recording = field(default_factory=Recording)
    log: list[bytes] = field(default_factory=list)
    at: float = 0

    def produces(
        self, *values: bytes, code: int = 0, connection: int = 1, data: bytes | None = None, version: int = 9
    ) -> None:
        """A Produce to a-0, answered before the next one. `data`: the values' records, if not a plain batch."""
        asked = request(batch(*values) if data is None else data)
        base = -1 if code else RECORDED_FROM + len(self.log)
        self.recording.exchanges(self.at, connection, PRODUCE, version, asked, produced(base=base, code=code))
        self.log += () if code else values
        self.at += 10

    def reads(self, *bounds: int) -> None:
        """A consumer's Fetches of a-0, from each bound up to the next one."""
        for start, stop in pairwise(bounds):
            found = fetched(0, stored(self.log[start:stop], RECORDED_FROM + start))
            asked = fetch(0, RECORDED_FROM + start)
            self.recording.exchanges(self.at, 9, FETCH, FETCH_VERSION, asked, found)
            self.at += 10

    def makes_the_topic_anew(self) -> None:
        """A DeleteTopics and a CreateTopics."""
        deleted = {"topic_names": ["a"], "timeout_ms": 1}
        self.recording.exchanges(self.at, 5, DELETE_TOPICS, DELETE_VERSION, deleted, DELETED)
        topic = {"name": "a", "num_partitions": 3, "replication_factor": 1, "assignments": [], "configs": []}
        asked = {"topics": [topic], "timeout_ms": 1, "validate_only": False}
        self.recording.exchanges(self.at + 10, 5, CREATE_TOPICS, CREATE_VERSION, asked, CREATED)
        self.log.clear()
        self.at += 20

    def commits(self, offset: int) -> None:
        """An OffsetCommit of a-0 without a group's members."""
        entry = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
        values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1}
        values |= {"topics": [{"name": "a", "partitions": [entry]}]}
        told = {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
        self.recording.exchanges(self.at, 9, OFFSET_COMMIT, COMMIT_VERSION, values, told)
        self.at += 10


@dataclass
class Target:
    """One node, which takes all records.

    Attributes:
        logs: the values by partition.
        slow: the last value of a Produce that is answered late.
    """

    slow: bytes | None = None
    logs: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    committed: list[int] = field(default_factory=list)

    def __call__(self, got: Got) -> Answer:
        if got.key == OFFSET_COMMIT:
            return self._commit(got.values)
        if got.key == FETCH:
            (at,) = [each["fetch_offset"] for topic in got.values["topics"] for each in topic["partitions"]]
            return fetched(0, stored(self.log[at - TARGET_FROM :], at))
        if got.key == INIT_PRODUCER_ID:
            return begun(7)[1]
        if got.key == DELETE_TOPICS:
            self.logs.clear()
            return DELETED
        if got.key == CREATE_TOPICS:
            return CREATED
        if got.key == METADATA:
            leaders = [{"error_code": 0, "partition_index": index, "leader_id": 1} for index in range(3)]
            topics = [{"error_code": 0, "name": "a", "partitions": leaders}]
            return {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "controller_id": 1, "topics": topics}
        return self._take(got.values) if got.key == PRODUCE else {}

    def _commit(self, values: Values) -> Values:
        (topic,) = values["topics"]
        self.committed += [each["committed_offset"] for each in topic["partitions"]]
        told = [{"partition_index": each["partition_index"], "error_code": 0} for each in topic["partitions"]]
        return {"topics": [{"name": "a", "partitions": told}]}

    def _take(self, values: Values) -> Values:
        (topic,) = values["topic_data"]
        told = []
        for each in topic["partition_data"]:
            log = self.logs[each["index"]]
            told.append({"index": each["index"], "error_code": 0, "base_offset": TARGET_FROM + len(log)})
            log += [record.value or b"" for record in records.read(bytes(each["records"]))]
        return {"responses": [{"name": "a", "partition_responses": told}]}

    def delay(self, got: Got) -> float:
        """Milliseconds until a request is answered."""
        return 300 if got.key == PRODUCE and self.log[-1:] == [self.slow] else 1

    @property
    def log(self) -> list[bytes]:
        """The values in a-0."""
        return self.logs[0]


def replayed(
    recorded: Recorded, target: Target, most: int = MOST_RECORDS, speed: float | None = None, differences: int = 0
) -> World:
    """The rooms behind a replay that found so many differences. `most`: refused records that are remembered."""
    prepared = Prepared(starts={A0: TARGET_FROM}, ends={A0: TARGET_FROM})
    cluster, options = one_node(("a", 3)), Options(speed=speed, admin=True, deletes=Deletes.ALL)
    simulation = Simulation(recorded.recording, target, options, cluster=cluster, prepared=prepared, delay=target.delay)
    simulation.world._producers._produces._repeats._most = most
    simulation.run()
    simulation.world.close(simulation.engine.progress, 0)
    assert simulation.engine.finished
    assert simulation.world.result.differences == differences
    return simulation.world


# once on the target


def test_the_new_one_of_two_equal_refused_records_is_owed() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", code=REFUSED)
    recorded.produces(b"1", b"1", code=REFUSED)
    recorded.produces(b"1", b"1")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"1"]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=str)
def test_only_the_new_records_of_a_repeating_message_set_are_sent(codec: Compression) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", code=REFUSED, data=message_set(b"1", b"2", codec=codec), version=2)
    recorded.produces(b"1", b"2", b"3", data=message_set(b"1", b"2", b"3", codec=codec), version=2)
    world = replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"2", b"3"]
    assert world._offsets._ends[A0] == TARGET_FROM + 3


@pytest.mark.parametrize(("most", "twice"), [(3, 0), (2, 1)])
def test_a_replay_says_how_many_records_the_target_may_have_twice(most: int, twice: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", b"3", code=REFUSED)
    recorded.produces(b"1", b"2", b"3")
    assert replayed(recorded, target, most).result.possibly_twice == twice
    assert target.log == [b"1", b"2", b"3", b"3"][: 3 + twice]


def test_a_record_is_once_on_the_target_however_long_its_client_retries() -> None:
    recorded, target = Recorded(), Target()
    for _ in range(30):
        recorded.produces(b"1", code=REFUSED)
        recorded.at += 60_000
    recorded.produces(b"1")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1"]


@pytest.mark.parametrize("code", [7, 20], ids=["timed out", "too few replicas"])
def test_a_record_that_the_recorded_log_has_twice_is_twice_on_the_target(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", code=code)
    recorded.log += [b"1"]
    recorded.produces(b"1")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"1"]


@pytest.mark.parametrize("code", [7, 20], ids=["timed out", "too few replicas"])
def test_a_retry_that_the_recorded_log_has_twice_has_its_new_records_twice_on_the_target(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", code=REFUSED)
    recorded.produces(b"1", b"2", code=code)
    recorded.log += [b"1", b"2"]
    recorded.produces(b"1", b"2")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"2", b"1", b"2"]


# Steps of producers: which of two, how many of its refused records it sends again, how many new ones, and whether the
# recorded cluster refuses them.
STEPS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=9
)


def history(
    steps: list[tuple[int, int, int, bool]], values: Iterator[bytes], commits: list[int] | None = None
) -> tuple[Recorded, list[bytes]]:
    """What producers say, which send all refused records again before new ones; and all their records, each once.

    `commits`: gets the ends of the log, which a consumer commits after each step.
    """
    recorded, made = Recorded(), list[bytes]()
    owed: dict[int, list[bytes]] = defaultdict(list)
    for producer, retries, new, is_refused in steps:
        again, rest = owed[producer][:retries], owed[producer][retries:]
        fresh = [next(values) for _ in range(0 if rest else new)]
        if again or fresh:
            recorded.produces(*again, *fresh, code=REFUSED if is_refused else 0, connection=producer)
            made += fresh
            owed[producer] = again + fresh + rest if is_refused else rest
        if commits is not None:
            commits.append(RECORDED_FROM + len(recorded.log))
            recorded.commits(commits[-1])
    return recorded, made


@given(STEPS, st.integers(0, 10**9))
def test_each_record_is_once_on_the_target_however_often_the_recording_refused_it(
    steps: list[tuple[int, int, int, bool]], seed: int
) -> None:
    random, target = Random(seed), Target()
    recorded, made = history(steps, (b"%d" % random.randint(0, 3) for _ in count()))
    replayed(recorded, target)
    assert Counter(target.log) == Counter(made)


@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "as recorded"])
def test_a_retry_goes_into_a_topic_that_was_deleted_and_created_again(speed: float | None) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"before")
    recorded.produces(b"1", code=REFUSED)
    recorded.makes_the_topic_anew()
    recorded.produces(b"1")
    recorded.produces(b"after")
    recorded.commits(RECORDED_FROM + 2)
    replayed(recorded, target, speed=speed)
    assert target.log == recorded.log == [b"1", b"after"]
    assert target.committed == [TARGET_FROM + 2]


def test_a_consumer_of_a_topic_that_was_deleted_and_created_again_continues_in_the_new_log() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"o0", b"o1")
    recorded.reads(0, 2)
    recorded.makes_the_topic_anew()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"n0", b"n1", b"n2", connection=2)
    recorded.reads(2, 3)
    (only,) = replayed(recorded, target).result.streams
    assert target.log == [b"r", b"n0", b"n1", b"n2"]
    assert (only.equal, only.missing, only.unread, only.extra) == (3, 0, 0, 0)


# where it is


def places(recorded: Recorded, target: Target) -> dict[int, int]:
    """Recorded offset -> the target's, of each record that the recording has; values are unique."""
    where = {value: TARGET_FROM + place for place, value in enumerate(target.log)}
    return {RECORDED_FROM + place: where[value] for place, value in enumerate(recorded.log)}


@given(STEPS)
def test_a_record_is_found_where_it_was_first_taken_and_nothing_behind_a_boundary_is_before_it(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    target = Target()
    recorded, _ = history(steps, (b"%d" % number for number in count()))
    offsets = replayed(recorded, target)._offsets
    found = places(recorded, target)
    assert {offset: offsets.of_record("a", 0, offset) for offset in found} == found
    for offset in found:
        behind = min(found[later] for later in found if later >= offset)
        # records that only the target has may be the first ones
        assert offsets.expected("a", 0, offset) == (behind if offset > RECORDED_FROM else TARGET_FROM)
    end = TARGET_FROM + len(target.log)
    if found:
        assert max(found.values()) < offsets.expected("a", 0, max(found) + 1) <= end
    assert offsets._ends[A0] == end


@given(STEPS)
def test_behind_a_commit_the_target_has_all_that_the_recording_has(steps: list[tuple[int, int, int, bool]]) -> None:
    target, ends = Target(), list[int]()
    recorded, _ = history(steps, (b"%d" % number for number in count()), ends)
    replayed(recorded, target, speed=1.0)
    found = places(recorded, target)
    for end, committed in zip(ends, target.committed, strict=True):
        assert all(committed <= at for offset, at in found.items() if offset >= end)


def test_behind_a_retry_that_was_filled_up_the_new_records_have_their_own_offsets() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r1", b"r2", code=REFUSED)
    recorded.produces(*[b"%d" % number for number in range(8)], connection=2)
    recorded.produces(b"r1", b"r2", b"n1", b"n2")
    for offset in range(8, 13):
        recorded.commits(RECORDED_FROM + offset)
    replayed(recorded, target)
    assert target.log[:2] + target.log[-2:] == [b"r1", b"r2", b"n1", b"n2"]
    assert target.committed == [TARGET_FROM + offset for offset in (0, 1, 10, 11, 12)]


def test_a_retry_that_is_not_sent_at_all_tells_where_its_records_are() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r1", b"r2", code=REFUSED)
    recorded.produces(*[b"%d" % number for number in range(8)], connection=2)
    recorded.produces(b"r1", b"r2")
    recorded.commits(RECORDED_FROM + 8)
    recorded.commits(RECORDED_FROM + 9)
    replayed(recorded, target)
    assert target.committed == [TARGET_FROM, TARGET_FROM + 1]


def test_a_commit_far_before_a_late_retry_is_not_behind_its_record_on_the_target() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    for number in range(2 * RECENT):
        recorded.produces(b"%d" % number, connection=2)
        # records that the target alone has move the later ones
        recorded.produces(b"q%d" % number, code=REFUSED, connection=3)
    recorded.produces(b"r")
    recorded.commits(RECORDED_FROM + 3)
    replayed(recorded, target)
    assert target.log[0] == b"r"
    assert target.committed == [TARGET_FROM]


def test_a_commit_is_not_behind_a_refused_record_whose_retry_may_still_come() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", connection=2)
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"2", connection=2)
    recorded.commits(RECORDED_FROM + 2)
    recorded.produces(b"r")
    recorded.commits(RECORDED_FROM + 2)
    recorded.commits(RECORDED_FROM + 3)
    replayed(recorded, target, speed=1.0)
    assert target.log == [b"1", b"r", b"2"]
    assert target.committed == [TARGET_FROM + 1, TARGET_FROM + 1, TARGET_FROM + 3]


def test_a_commit_is_not_behind_a_record_whose_retry_is_in_flight() -> None:
    recorded, target = Recorded(), Target(slow=b"n")
    recorded.produces(b"1", connection=2)
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"2", connection=2)
    filled_up, following = (
        recorded.recording.asks(at, 1, PRODUCE, PRODUCE_VERSION, request(batch(*values)))
        for at, values in ((30, (b"r", b"n")), (40, (b"3",)))
    )
    recorded.at = 60
    recorded.commits(RECORDED_FROM + 2)
    recorded.recording.answers(130, filled_up, produced(base=RECORDED_FROM + 2))
    recorded.recording.answers(140, following, produced(base=RECORDED_FROM + 4))
    replayed(recorded, target, speed=1.0)
    assert target.log == [b"1", b"r", b"2", b"n", b"3"]
    assert target.committed == [TARGET_FROM + 1]


def test_a_refused_record_that_is_never_retried_keeps_no_commit_back_for_longer_than_clients_retry() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"1", connection=2)
    recorded.at += 301_000
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target)
    assert target.committed == [TARGET_FROM + 2]


def test_a_refused_record_keeps_commits_back_as_long_as_its_client_retries() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"1", connection=2)
    for _ in range(2):
        recorded.at += 200_000
        recorded.commits(RECORDED_FROM + 1)
        recorded.produces(b"r", code=REFUSED)
    recorded.at += 301_000
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target, speed=1.0)
    assert target.committed == [TARGET_FROM, TARGET_FROM, TARGET_FROM + 2]


@pytest.mark.parametrize("code", [-1, 29, 32, 45, 87])
def test_a_commit_is_behind_a_record_after_whose_error_no_client_retries(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"refused", code=code)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 1)
    world = replayed(recorded, target, most=0)
    assert target.committed == [TARGET_FROM + 2]
    assert world.result.possibly_twice == 0


def test_a_commit_is_behind_a_record_whose_retry_was_refused_for_good() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"refused", code=REFUSED)
    recorded.produces(b"refused", code=29)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target)
    assert target.log == [b"refused", b"1"]
    assert target.committed == [TARGET_FROM + 2]


def test_a_commit_is_behind_a_batch_of_one_record_that_is_too_large() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"large", code=TOO_LARGE)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 1)
    world = replayed(recorded, target, most=0)
    assert target.committed == [TARGET_FROM + 2]
    assert world.result.possibly_twice == 0


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=str)
def test_a_commit_is_behind_the_part_of_a_split_batch_that_is_still_too_large(codec: Compression) -> None:
    recorded, target = Recorded(), Target()
    whole, part = (message_set(*values, codec=codec) for values in ((b"s", b"large"), (b"large",)))
    recorded.produces(b"s", b"large", code=TOO_LARGE, data=whole, version=2)
    recorded.produces(b"s")
    recorded.produces(b"large", code=TOO_LARGE, data=part, version=2)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 2)
    replayed(recorded, target, speed=1.0)
    assert target.log == [b"s", b"large", b"1"]
    assert target.committed == [TARGET_FROM + 3]


@pytest.mark.parametrize("code", [2, 3, 10, 19])
def test_a_record_is_once_on_the_target_after_each_error_after_which_clients_retry(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", code=code)
    recorded.produces(b"1")
    recorded.produces(b"2")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"2"]


def wait_seconds(recorded: Recorded, number: int) -> None:
    """Another producer says something each second: the replay reads only five seconds ahead."""
    for second in range(number):
        recorded.at += 1000
        recorded.produces(b"second %d" % second, connection=2)


def late_retries(number: int) -> Recorded:
    """Producers whose records are refused, and 50 other records; the retries are answered seven seconds later."""
    recorded, producers = Recorded(), range(100, 100 + number)
    for producer in producers:
        recorded.produces(b"r%d" % producer, code=REFUSED, connection=producer)
    recorded.produces(*[b"x%d" % number for number in range(50)], connection=2)
    retries = [
        recorded.recording.asks(recorded.at, producer, PRODUCE, PRODUCE_VERSION, request(batch(b"r%d" % producer)))
        for producer in producers
    ]
    wait_seconds(recorded, 7)
    for producer, retry in zip(producers, retries, strict=True):
        recorded.recording.answers(recorded.at, retry, produced(base=RECORDED_FROM + len(recorded.log)))
        recorded.log += [b"r%d" % producer]
    recorded.at += 10
    return recorded


def test_a_taken_retry_whose_recorded_answer_is_read_late_keeps_no_commit_back() -> None:
    recorded, target = late_retries(1), Target()
    recorded.commits(RECORDED_FROM + len(recorded.log))
    replayed(recorded, target, speed=1.0)
    assert target.committed == [TARGET_FROM + len(recorded.log)]


def test_each_of_many_retries_with_late_recorded_answers_maps_its_offset() -> None:
    recorded, target = late_retries(2 * RECENT), Target()
    for producer in range(100, 100 + 2 * RECENT):
        recorded.produces(b"next %d" % producer, connection=producer)
    recorded.commits(RECORDED_FROM + 50)
    offsets = replayed(recorded, target, speed=1.0)._offsets
    assert target.committed == [TARGET_FROM]
    found = places(recorded, target)
    assert {offset: offsets.of_record("a", 0, offset) for offset in found} == found


def test_a_retry_whose_answer_is_not_recorded_leaves_its_record_owed() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"1", connection=2)
    recorded.recording.asks(recorded.at, 1, PRODUCE, PRODUCE_VERSION, request(batch(b"r")))
    wait_seconds(recorded, 7)
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target, speed=1.0)
    assert target.log[:2] == [b"r", b"1"]
    assert target.committed == [TARGET_FROM]


def test_a_retrys_offsets_are_learned_before_later_pairs_are_summed_up() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r1", b"r2", code=REFUSED)
    recorded.produces(b"x1", b"x2", b"x3", connection=2)
    recorded.produces(b"r1", b"r2")
    # takes the room of the retry on the target: the difference is the same before and behind it
    recorded.produces(b"q1", b"q2", code=REFUSED, connection=3)
    recorded.produces(b"y1", b"y2", b"y3", connection=2)
    for number in range(2 * RECENT):
        recorded.produces(b"%d" % number, connection=2)
    offsets = replayed(recorded, target)._offsets
    found = places(recorded, target)
    assert {offset: offsets.of_record("a", 0, offset) for offset in found} == found


def test_the_offsets_after_a_compressed_message_set_count_its_messages() -> None:
    data = message_set(b"1", b"2", b"3", codec=Compression.GZIP)
    recorded, target = Recorded(), Target()
    # librdkafka leaves the offset in the wrapper's head 0
    recorded.produces(b"1", b"2", b"3", data=bytes(8) + data[8:], version=2)
    assert replayed(recorded, target)._offsets._ends[A0] == TARGET_FROM + 3


def test_the_rest_of_a_retry_counts_as_it_is_beside_a_partition_that_is_too_large_to_be_copied() -> None:
    target = Target()
    recorded = Recorded()
    recorded.produces(b"1", b"2", code=REFUSED)
    recorded.recording.exchanges(5, 1, INIT_PRODUCER_ID, 4, *begun(500))
    numbered = write_batch([Record(0, 5, None, bytes(LARGE))], producer_id=500, producer_epoch=0, base_sequence=0)
    asked = request(batch(b"1", b"2", b"3"), numbered)
    both = [{"index": index, "error_code": 0, "base_offset": RECORDED_FROM} for index in range(2)]
    told = {"responses": [{"name": "a", "partition_responses": both}]}
    recorded.recording.exchanges(10, 1, PRODUCE, PRODUCE_VERSION, asked, told)
    offsets = replayed(recorded, target)._offsets
    assert target.log == [b"1", b"2", b"3"]
    assert offsets._ends[A0] == TARGET_FROM + 3


def begun(producer_id: int) -> tuple[Values, Values]:
    """An InitProducerId without transactional id, and its answer."""
    asked = {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": -1}
    return asked, {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}


def test_a_consumer_that_begins_before_a_late_retry_finds_it_and_no_extra_records() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.produces(b"X")
    recorded.reads(15, 18, 21)
    (only,) = replayed(recorded, target).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (6, 0, 0, 0)


@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "as recorded"])
def test_a_consumer_that_begins_between_a_refusal_and_its_retry_finds_the_record_and_no_extra_ones(
    speed: float | None,
) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.reads(15, 20)
    recorded.produces(b"X")
    recorded.reads(20, 21)
    (only,) = replayed(recorded, target, speed=speed).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (6, 0, 0, 0)


def test_records_before_the_one_that_a_consumer_begins_with_are_not_extra_if_the_target_is_late_with_them() -> None:
    recorded, target = Recorded(), Target(slow=b"2")
    recorded.produces(b"0")
    slow = recorded.recording.asks(recorded.at, 2, PRODUCE, PRODUCE_VERSION, request(batch(b"1", b"2")))
    recorded.log += [b"1", b"2"]
    recorded.at += 10
    recorded.reads(3, 3)
    recorded.recording.answers(recorded.at, slow, produced(base=RECORDED_FROM + 1))
    recorded.produces(b"3", connection=3)
    recorded.reads(3, 4)
    (only,) = replayed(recorded, target, speed=1.0).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (1, 0, 0, 0)


@pytest.mark.parametrize("makes_anew", [False, True], ids=["topic stays", "topic is deleted"])
def test_a_record_that_the_recording_has_where_a_consumer_stopped_is_not_extra(makes_anew: bool) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"0")
    # the target gets them in the other order
    behind, before = (
        recorded.recording.asks(recorded.at, connection, PRODUCE, PRODUCE_VERSION, request(batch(value)))
        for connection, value in ((1, b"2"), (2, b"1"))
    )
    for base, each in ((1, before), (2, behind)):
        recorded.recording.answers(recorded.at + 1, each, produced(base=RECORDED_FROM + base))
    recorded.log += [b"1", b"2"]
    recorded.at += 10
    recorded.reads(0, 2)
    if makes_anew:
        recorded.makes_the_topic_anew()
        recorded.produces(b"3")
    # of a deleted log, nobody knows any more what stood where
    (only,) = replayed(recorded, target, differences=int(makes_anew)).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (2, 0, 0, int(makes_anew))


@pytest.mark.parametrize("start", [19, 20, 21], ids=["before", "at", "behind"])
def test_records_before_the_one_that_a_consumer_begins_with_are_not_extra_around_a_late_retry(start: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.produces(b"X")
    for number in range(20, 30):
        recorded.produces(b"%d" % number, connection=2)
    recorded.reads(start, 31)
    (only,) = replayed(recorded, target).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (31 - start, 0, 0, 0)


def test_records_that_the_target_alone_has_behind_the_one_that_a_consumer_begins_with_are_extra() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.produces(b"X")
    recorded.produces(b"q", code=REFUSED, connection=3)
    recorded.produces(b"20", connection=2)
    recorded.reads(20, 22)
    (only,) = replayed(recorded, target, differences=1).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (2, 0, 0, 1)
