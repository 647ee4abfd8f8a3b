"""Tests of all rooms together: refusals before anything is sent, and topics that were just created."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.wire.keys import (
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
)
from recorder.replay.engine.world import refused_anywhere
from recorder.replay.login.logins import has_login
from recorder.replay.messages import record_count
from recorder.replay.options import Deletes, Options
from recorder.replay.outcome import Unanswered
from recorder.replay.plan import CLIENT_ID, Exchange, Origin, Peer, Reason, Withheld
from recorder.replay.prepare import Prepared
from recorder.replay.stream import RequestRecorded
from tests.recorder.replay.simple import LIST_VERSION, PRODUCE_VERSION, answered, batch, listed, produce, produced
from tests.recorder.replay.simulation import Answer, Got, Recording, Simulation, Values, one_node

ALTER_VERSION, CREATE_VERSION, DELETE_VERSION = 1, 7, 5
OLD_ID, NEW_ID = b"o" * 16, b"n" * 16


def masked(api_key: int, options: Options) -> Withheld | None:
    exchange = Exchange(Origin("s", 1, 0), api_key, ALTER_VERSION, b"", 0, 0, Peer("h", None), fault=Reason.MASKED)
    return refused_anywhere(exchange, options)


def test_a_masked_request_that_the_options_withhold_has_the_options_reason() -> None:
    assert masked(INCREMENTAL_ALTER_CONFIGS, Options()) == Withheld(Reason.NEEDS_ADMIN)
    assert masked(INCREMENTAL_ALTER_CONFIGS, Options(admin=True)) == Withheld(Reason.MASKED)


class Target:
    """One node. Its Metadata names the leader of topic "a" from `after` on: milliseconds since the topic was made."""

    def __init__(self, after: float = 1) -> None:
        self._after, self._known_at = after, float("inf")

    def __call__(self, got: Got) -> Answer:
        if got.key == CREATE_TOPICS:
            self._known_at = got.at + self._after
            return {"topics": [{"name": "a", "topic_id": NEW_ID, "error_code": 0}]}
        if got.key == METADATA:
            partition = {"error_code": 0, "partition_index": 0, "leader_id": 1}
            known = {"error_code": 0, "name": "a", "topic_id": NEW_ID, "partitions": [partition]}
            topics = [known if got.at >= self._known_at else {"error_code": 3, "name": "a", "partitions": []}]
            return {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "controller_id": 1, "topics": topics}
        if got.key == DELETE_TOPICS:
            return {"responses": [{"name": "a", "error_code": 0}]}
        return answered(got)


def creates(recording: Recording, at: float) -> None:
    topic: Values = {"name": "a", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    told = {"name": "a", "topic_id": OLD_ID, "error_code": 0}
    recording.exchanges(at, 1, CREATE_TOPICS, CREATE_VERSION, {"topics": [topic], "timeout_ms": 1}, {"topics": [told]})


def writes(recording: Recording, at: float) -> None:
    recording.exchanges(at, 2, PRODUCE, PRODUCE_VERSION, produce(), produced())


def test_each_exchange_of_the_recording_is_accounted_for() -> None:
    recording = Recording()
    recording.exchanges(0, 1, API_VERSIONS, 0, {}, {"error_code": 0, "api_keys": []})
    recording.exchanges(2, 1, PRODUCE, PRODUCE_VERSION, produce(), produced())
    recording.asks(4, 1, PRODUCE, PRODUCE_VERSION, produce(acks=0), awaits=False)
    # its client hangs up before the answer
    recording.asks(6, 2, LIST_OFFSETS, LIST_VERSION, listed())
    recording.closes(8, 2)
    recording.exchanges(9, 1, DELETE_TOPICS, DELETE_VERSION, {"topic_names": ["a"], "timeout_ms": 1}, {"responses": []})
    simulation = Simulation(recording, lambda got: None if got.key == LIST_OFFSETS else answered(got))
    result = simulation.run()
    told = {name: (one.recorded, one.sent, one.answered, +one.withheld) for name, one in result.apis.items()}
    assert told == {
        "ApiVersions": (1, 0, 0, {Reason.MADE_ANEW: 1}),
        "Produce": (2, 2, 1, {}),
        "ListOffsets": (1, 1, 0, {}),
        "DeleteTopics": (1, 0, 0, {Reason.NEEDS_DELETES: 1}),
    }
    assert dict(result.unanswered()) == {
        Unanswered.SILENT: {"Produce": 1},
        Unanswered.NOT_AWAITED: {"ListOffsets": 1},
    }
    assert result.withheld_percent == 0


def test_requests_that_the_options_leave_out_are_not_counted_as_made_anew() -> None:
    recording = Recording()
    recording.exchanges(0, 1, API_VERSIONS, 0, {}, {"error_code": 0, "api_keys": []})
    recording.exchanges(2, 1, PRODUCE, PRODUCE_VERSION, produce(), produced())
    simulation = Simulation(recording, answered, Options(only=("Produce",)))
    assert [*simulation.run().apis] == ["Produce"]


def test_requests_to_a_topic_wait_until_its_leaders_are_known_on_the_target() -> None:
    recording, target = Recording(), Target(after=10)
    creates(recording, 0)
    writes(recording, 10)
    simulation = Simulation(recording, target, Options(speed=None, admin=True), cluster=one_node())
    simulation.run()
    (produced_at,) = simulation.times(PRODUCE)
    assert produced_at > simulation.times(METADATA)[1]
    assert simulation.world.cluster.topic_ids["a"] == NEW_ID
    assert simulation.world.result.totals.mismatches.total() == 0


@pytest.mark.parametrize(
    ("after", "late"),
    [(0, 0), (300, 110), (2_000, 110), (20_000, 110)],
    ids=["at once", "a moment", "seconds", "long"],
)
def test_requests_to_a_new_topic_leave_soon_after_its_leaders_are_known(after: float, late: float) -> None:
    """`late`: milliseconds, beside the two that the answers to CreateTopics and Metadata take."""
    recording = Recording()
    creates(recording, 0)
    writes(recording, 10)
    simulation = Simulation(recording, Target(after), Options(speed=None, admin=True), cluster=one_node())
    simulation.run()
    (produced_at,) = simulation.times(PRODUCE)
    assert after <= produced_at <= after + 2 + late


def test_leaders_that_stay_unknown_are_queried_until_wait_is_over() -> None:
    recording = Recording()
    creates(recording, 0)
    writes(recording, 10)
    options = Options(speed=None, admin=True, wait=10**9)
    simulation = Simulation(recording, Target(float("inf")), options, cluster=one_node())
    simulation.run()
    assert max(at for at in simulation.times(METADATA) if at <= 1000) > 800
    assert simulation.world.result.apis["CreateTopics"].answered == 1


def test_while_the_leaders_of_a_made_topic_are_unknown_that_is_what_a_replay_waits_for() -> None:
    recording = Recording()
    creates(recording, 0)
    simulation = Simulation(recording, Target(after=10), Options(speed=None, admin=True), cluster=one_node())
    found: list[Counter[str]] = []
    simulation.at(5, lambda: found.append(simulation.engine.waited_for(simulation.now)))
    simulation.run()
    assert found == [{"the leaders of what CreateTopics made": 1}]


def test_a_topic_that_this_replay_has_made_may_be_deleted_and_is_forgotten() -> None:
    recording = Recording()
    creates(recording, 0)
    told = {"responses": [{"name": "a", "error_code": 0}]}
    recording.exchanges(10, 1, DELETE_TOPICS, DELETE_VERSION, {"topic_names": ["a"], "timeout_ms": 1}, told)
    options = Options(speed=None, admin=True, deletes=Deletes.OWN)
    simulation = Simulation(recording, Target(), options, cluster=one_node())
    simulation.run()
    assert len(simulation.asked(DELETE_TOPICS)) == 1
    assert "a" not in simulation.world.cluster.topic_ids
    assert not simulation.world.cluster.partitions("a")


@pytest.mark.parametrize("created", [["a"], []], ids=["made", "there"])
def test_a_topic_that_was_made_before_the_replay_may_be_deleted_and_none_that_was_there(created: list[str]) -> None:
    recording = Recording()
    told = {"responses": [{"name": "a", "error_code": 0}]}
    recording.exchanges(10, 1, DELETE_TOPICS, DELETE_VERSION, {"topic_names": ["a"], "timeout_ms": 1}, told)
    options = Options(speed=None, admin=True, deletes=Deletes.OWN)
    prepared = Prepared(created=created)
    simulation = Simulation(recording, Target(), options, cluster=one_node(("a", 1)), prepared=prepared)
    simulation.run()
    assert len(simulation.asked(DELETE_TOPICS)) == len(created)


def test_requests_that_a_replay_made_itself_are_not_replayed_from_its_capture() -> None:
    recording = Recording()
    writes(recording, 0)
    answer = {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "topics": []}
    asked = recording.asks(1, 3, METADATA, 12, {"topics": None}, peer=Peer("h", CLIENT_ID))
    recording.answers(2, asked, answer)
    simulation = Simulation(recording, answered, Options(), cluster=one_node(("a", 1)))
    result = simulation.run()
    assert {got.key for got in simulation.got} == {PRODUCE}
    assert result.totals.withheld == {Reason.OF_A_REPLAY: 1}
    assert result.withheld_percent == 0


def test_requests_of_a_principal_without_a_login_are_withheld_with_that_reason() -> None:
    recording = Recording()
    recording.asks(0, 1, PRODUCE, PRODUCE_VERSION, produce(), principal="User:alice")
    recording.asks(0, 2, PRODUCE, PRODUCE_VERSION, produce(1), principal="User:bob")
    recording.asks(0, 3, PRODUCE, PRODUCE_VERSION, produce(1))
    options = Options(has_login=has_login({"alice": {}}))
    simulation = Simulation(recording, answered, options, cluster=one_node(("a", 2)))
    simulation.run()
    assert [got.client_id for got in simulation.got] == ["connection-1"]
    assert simulation.world.result.totals.withheld == {Reason.NO_LOGIN: 2}
    assert simulation.now < options.wait


def test_a_connection_that_logs_in_as_another_principal_is_judged_anew() -> None:
    recording, names = Recording(), ["alice", "bob", "alice"]
    for at, name in enumerate(names):
        recording.exchanges(2 * at, 1, PRODUCE, PRODUCE_VERSION, produce(), produced(base=at))
        happening = recording.happenings[-2]
        assert isinstance(happening, RequestRecorded)
        happening.exchange.principal = f"User:{name}"
    options = Options(has_login=has_login({"alice": {}}))
    simulation = Simulation(recording, answered, options, cluster=one_node(("a", 1)))
    simulation.run()
    assert len(simulation.got) == names.count("alice")
    assert simulation.world.result.totals.withheld == {Reason.NO_LOGIN: names.count("bob")}


@pytest.mark.parametrize(
    ("names", "played"),
    [([], [True] * 3), (["*"], [True] * 3), (["User:a"], [True, False, False]), (["a", "b"], [True, True, False])],
    ids=["no logins", "everybody", "one", "two"],
)
def test_connections_of_principals_with_a_login_are_played(names: list[str], played: list[bool]) -> None:
    assert [*map(has_login(dict.fromkeys(names)), ["User:a", "User:b", None])] == played


def test_requests_recorded_after_the_survey_are_not_played() -> None:
    recording = Recording()
    writes(recording, 0)
    simulation = Simulation(recording, Target(), Options(speed=None), cluster=one_node(("a", 1)))
    writes(recording, 50)
    simulation.rows.extend(recording.happenings[2:])
    simulation.run()
    assert len(simulation.times(PRODUCE)) == 1


COMMIT_VERSION, OFFSETS_VERSION = 2, 2
REBALANCING, ILLEGAL = 27, 22


class Offsets:
    """One node, whose group has no members. It refuses the first commit, or accepts all."""

    def __init__(self, *, refuses: bool) -> None:
        self.refuses, self.offset = refuses, -1

    def __call__(self, got: Got) -> Answer:
        if got.key == OFFSET_COMMIT:
            code, self.refuses = ILLEGAL if self.refuses else 0, False
            (partition,) = got.values["topics"][0]["partitions"]
            self.offset = self.offset if code else partition["committed_offset"]
            return {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": code}]}]}
        if got.key == OFFSET_FETCH:
            return fetched(self.offset)
        return answered(got)


def fetched(offset: int) -> Values:
    partition = {"partition_index": 0, "committed_offset": offset, "metadata": "", "error_code": 0}
    return {"topics": [{"name": "a", "partitions": [partition]}], "error_code": 0}


def commits(recording: Recording, at: float, offset: int, code: int = 0) -> None:
    entry = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1}
    values |= {"topics": [{"name": "a", "partitions": [entry]}]}
    told = {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": code}]}]}
    recording.exchanges(at, 1, OFFSET_COMMIT, COMMIT_VERSION, values, told)


def asks_for_offsets(recording: Recording, at: float, found: int) -> None:
    values = {"group_id": "g", "topics": [{"name": "a", "partition_indexes": [0]}]}
    recording.exchanges(at, 2, OFFSET_FETCH, OFFSETS_VERSION, values, fetched(found))


@pytest.mark.parametrize(
    ("code", "refuses", "found"),
    [(REBALANCING, False, -1), (0, True, 5)],
    ids=["the target alone takes it", "the target alone refuses it"],
)
def test_a_commit_that_one_cluster_alone_takes_is_one_difference_for_all_later_fetches_of_its_offset(
    code: int, refuses: bool, found: int
) -> None:
    recording = Recording()
    commits(recording, 0, 5, code)
    asks_for_offsets(recording, 10, found)
    asks_for_offsets(recording, 20, found)
    commits(recording, 30, 6)
    asks_for_offsets(recording, 40, 6)
    target = Offsets(refuses=refuses)
    result = Simulation(recording, target, Options(speed=None), cluster=one_node(("a", 1))).run()
    assert result.totals.answered == 5
    assert result.api("OffsetCommit").mismatches.total() == 1
    assert result.api("OffsetFetch").mismatches.total() == 0


def test_offsets_that_differ_without_such_a_commit_are_a_difference() -> None:
    recording = Recording()
    commits(recording, 0, 5)
    asks_for_offsets(recording, 10, 7)
    result = Simulation(recording, Offsets(refuses=False), Options(), cluster=one_node(("a", 1))).run()
    assert result.api("OffsetFetch").mismatches.total() == 1


def test_offsets_after_a_commit_that_was_withheld_are_no_difference() -> None:
    recording = Recording()
    commits(recording, 0, 5)
    asks_for_offsets(recording, 10, 5)
    options = Options(speed=None, read_only=True)
    result = Simulation(recording, Offsets(refuses=False), options, cluster=one_node(("a", 1))).run()
    assert result.totals.withheld == {Reason.READ_ONLY: 1}
    assert result.totals.mismatches.total() == 0


@pytest.mark.parametrize("speed", [1.0, None], ids=["1x", "max"])
def test_a_commit_waits_for_produces_that_were_sent_before_it_and_may_stand_in_another_order(
    speed: float | None,
) -> None:
    recording = Recording()
    first = recording.asks(0, 3, PRODUCE, PRODUCE_VERSION, produce(data=batch(b"1", b"2", b"3")))
    other = recording.asks(1, 4, PRODUCE, PRODUCE_VERSION, produce(data=batch(b"4", b"5")))
    recording.answers(20, first, produced(base=0))
    commits(recording, 22, 3)
    recording.answers(30, other, produced(base=3))
    # the target takes the other one before, and answers it last
    target = Offsets(refuses=False)
    bases = {3: 2, 2: 0}
    slow = {2: 100.0}

    def answer(got: Got) -> Answer:
        return produced(base=bases[count_of(got)]) if got.key == PRODUCE else target(got)

    def delay(got: Got) -> float:
        return slow.get(count_of(got), 1.0) if got.key == PRODUCE else 1.0

    result = Simulation(recording, answer, Options(speed=speed), cluster=one_node(("a", 1)), delay=delay).run()
    assert result.totals.answered == 3
    # its group reads on at record 4, which the target has first
    assert target.offset == 0


def count_of(got: Got) -> int:
    (partition,) = got.values["topic_data"][0]["partition_data"]
    return record_count(partition["records"])
