"""Producers some of whose records the recorded cluster refuses for a while, and a target that takes all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.keys import CREATE_TOPICS, DELETE_TOPICS, FETCH, INIT_PRODUCER_ID, METADATA, OFFSET_COMMIT, PRODUCE
from proxy.wire.records import Record, write_batch
from recorder.replay.engine.world import World
from recorder.replay.options import Deletes, Options
from recorder.replay.prepare import Prepared
from tests.recorder.replay.simple import FETCH_VERSION, fetch, fetched, produced
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, Values, one_node

A0 = ("a", 0)
# where the recorded log and the target's begin
RECORDED_FROM, TARGET_FROM = 1000, 50
REFUSED = 6
# errors of brokers after which producers send the records again: of leaders, replicas, topics and logs
FOR_A_WHILE = (3, 5, 6, 13, 19, 56, 74, 100)
COMMIT_VERSION, CREATE_VERSION, DELETE_VERSION = 2, 4, 3
DELETED: Values = {"responses": [{"name": "a", "error_code": 0}]}
CREATED: Values = {"topics": [{"name": "a", "error_code": 0}]}


def batch(*values: bytes, **producer: Any) -> bytes:
    return write_batch([Record(place, 5, None, value) for place, value in enumerate(values)], **producer)


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
    """Producers without ids and their cluster, recorded.

    Attributes:
        log: the values in a-0.
        codes: the errors of Produces; `ends`: the committed offsets.
    """

    recording: Recording = field(default_factory=Recording)
    log: list[bytes] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    at: float = 0

    def produces(
        self, *values: bytes, code: int = 0, connection: int = 1, data: bytes | None = None, version: int = 9
    ) -> None:
        """A Produce to a-0, answered before the next one. `data`: the values' records, if not a plain batch."""
        asked = request(batch(*values) if data is None else data)
        base = -1 if code else RECORDED_FROM + len(self.log)
        self.recording.exchanges(self.at, connection, PRODUCE, version, asked, produced(base=base, code=code))
        self.log += () if code else values
        self.codes.append(code)
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
        self.ends.append(offset)
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


def replayed(recorded: Recorded, target: Target, speed: float | None = None, differences: int = 0) -> World:
    """The rooms behind a replay that found so many differences."""
    prepared = Prepared(starts={A0: TARGET_FROM}, ends={A0: TARGET_FROM})
    cluster, options = one_node(("a", 3)), Options(speed=speed, admin=True, deletes=Deletes.ALL)
    simulation = Simulation(recorded.recording, target, options, cluster=cluster, prepared=prepared, delay=target.delay)
    simulation.run()
    simulation.world.close(simulation.engine.progress, 0)
    assert simulation.engine.finished
    assert simulation.world.result.differences == differences
    return simulation.world


# Steps of producers: which of two, how many of its refused records it sends again, how many new ones, and the error.
STEPS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 3), st.integers(0, 3), st.sampled_from((*[0] * 4, *FOR_A_WHILE))),
    min_size=1,
    max_size=12,
)


def history(steps: list[tuple[int, int, int, int]], values: Iterator[bytes]) -> Recorded:
    """What producers say, which send refused records again before new ones; a consumer commits the end of the log."""
    recorded, owed = Recorded(), defaultdict[int, list[bytes]](list)
    for producer, retries, new, code in steps:
        again, rest = owed[producer][:retries], owed[producer][retries:]
        fresh = [next(values) for _ in range(0 if rest else new)]
        if again or fresh:
            recorded.produces(*again, *fresh, code=code, connection=producer)
            owed[producer] = again + fresh + rest if code else rest
        recorded.commits(RECORDED_FROM + len(recorded.log))
    return recorded


def begun(producer_id: int) -> tuple[Values, Values]:
    """An InitProducerId without transactional id, and its answer."""
    asked = {"transactional_id": None, "transaction_timeout_ms": 1, "producer_id": -1, "producer_epoch": -1}
    return asked, {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}
