"""Tests of the rehearsal, which shows the requests of a replay and their nodes before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.keys import (
    API_VERSIONS,
    CREATE_TOPICS,
    FETCH,
    HEARTBEAT,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FETCH,
    PRODUCE,
)
from proxy.wire.records import with_base_offset
from recorder.replay.cluster import GROUP, Cluster
from recorder.replay.options import Options
from recorder.replay.outcome import BeforeKind, FromBefore, Plan, ReachedTarget, RefusedCounts, Source
from recorder.replay.plan import Reason
from recorder.replay.rehearsal import rehearse
from tests.recorder.replay.simple import batch, produce, produced
from tests.recorder.replay.simulation import EVERYTHING, Recording, Simulation

Values = dict[str, Any]
TOPIC_ID = b"r" * 16


def three_nodes() -> Cluster:
    """Node 10 + p leads partition p of topic a; topic b has not been created."""
    found = Cluster(controller=12, nodes={node: ("h", node) for node in (10, 11, 12)}, absent={"b"})
    found.leaders.update({("a", partition): 10 + partition for partition in range(3)})
    found.invent_id("a")
    found.offered.update(dict.fromkeys(found.nodes, EVERYTHING))
    return found


def rehearsed(recording: Recording, cluster: Cluster, options: Options | None = None) -> Plan:
    simulation = Simulation(recording, lambda _: None, options or Options(), cluster=cluster)
    plan = Plan(Source("capture"), ReachedTarget("target"))
    rehearse(recording.happenings, simulation.world, simulation.world.target_topics(), plan)
    return plan


def offsets(*partitions: int, topic: str = "a") -> Values:
    asked = [{"partition_index": partition, "timestamp": -1} for partition in partitions]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]}


def fetch(*partitions: int, session: int = 0, epoch: int = 0) -> Values:
    asked = [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1} for partition in partitions]
    topics = [{"topic_id": TOPIC_ID, "partitions": asked}] if asked else []
    return {"max_wait_ms": 0, "min_bytes": 0, "session_id": session, "session_epoch": epoch, "topics": topics}


def test_requests_are_counted_at_each_leader_that_they_go_to_and_once_in_all() -> None:
    recording = Recording()
    recording.asks(0, 1, LIST_OFFSETS, 7, offsets(0, 1))
    recording.asks(1, 1, LIST_OFFSETS, 7, offsets(1))
    plan = rehearsed(recording, three_nodes())
    assert plan.requests == {"ListOffsets": 2}
    assert plan.sent == {("ListOffsets", 10): 1, ("ListOffsets", 11): 2}


def test_requests_that_each_connection_makes_anew_are_withheld_by_design() -> None:
    recording = Recording()
    recording.asks(0, 1, API_VERSIONS, 0, {})
    recording.asks(1, 1, LIST_OFFSETS, 7, offsets(1))
    plan = rehearsed(recording, three_nodes())
    assert (plan.requests, plan.withheld) == ({"ListOffsets": 1}, {("ApiVersions", Reason.MADE_ANEW.value): 1})
    assert plan.withheld_percent == 0


def test_a_group_goes_to_its_coordinator_where_that_is_known() -> None:
    recording, cluster = Recording(), three_nodes()
    cluster.coordinators[GROUP, "p-known"] = 12
    for at, group in enumerate(("known", "unknown")):
        recording.asks(at, 1, OFFSET_FETCH, 7, {"group_id": group, "topics": None})
    assert rehearsed(recording, cluster, Options(prefix="p-")).sent == {
        ("OffsetFetch", 12): 1,
        ("OffsetFetch", None): 1,
    }


def test_a_sessions_partitions_are_known_only_during_the_replay() -> None:
    recording = Recording()
    metadata = {"topics": [{"error_code": 0, "name": "a", "topic_id": TOPIC_ID, "partitions": []}], "brokers": []}
    recording.exchanges(0, 1, METADATA, 12, {"topics": None}, metadata)
    recording.asks(2, 1, FETCH, 13, fetch(2))
    recording.asks(3, 1, FETCH, 13, fetch(session=7, epoch=1))
    plan = rehearsed(recording, three_nodes())
    assert {where: number for where, number in plan.sent.items() if where[0] == "Fetch"} == {
        ("Fetch", 12): 1,
        ("Fetch", None): 1,
    }


def test_topics_that_the_target_lacks_count_as_made() -> None:
    recording = Recording()
    recording.asks(0, 1, LIST_OFFSETS, 7, offsets(0, topic="b"))
    plan = rehearsed(recording, three_nodes())
    assert (plan.sent, plan.withheld) == ({("ListOffsets", None): 1}, {})


def test_a_partition_of_an_unknown_topic_is_counted_as_left_out() -> None:
    recording = Recording()
    metadata = {"topics": [{"error_code": 0, "name": "a", "topic_id": TOPIC_ID, "partitions": []}], "brokers": []}
    recording.exchanges(0, 1, METADATA, 12, {"topics": None}, metadata)
    asked = fetch(0)
    asked["topics"].append({**asked["topics"][0], "topic_id": b"?" * 16})
    recording.asks(2, 1, FETCH, 13, asked)
    plan = rehearsed(recording, three_nodes())
    assert plan.requests["Fetch"] == 1
    assert plan.partitions == {Reason.NO_TOPIC.value: 1}


@pytest.mark.parametrize(
    ("offered", "reason"),
    [({}, Reason.NO_VERSION), ({OFFSET_FETCH: range(7)}, Reason.LOST_FIELD)],
    ids=["no version", "a field has no place"],
)
def test_a_request_that_the_targets_versions_can_not_express_is_withheld(
    offered: dict[int, range], reason: Reason
) -> None:
    recording, cluster = Recording(), three_nodes()
    recording.asks(0, 1, OFFSET_FETCH, 7, {"group_id": "g", "topics": None, "require_stable": True})
    cluster.coordinators[GROUP, "g"] = 11
    cluster.offered[11] = offered
    plan = rehearsed(recording, cluster)
    assert (plan.withheld, plan.requests) == ({("OffsetFetch", reason.value): 1}, {})


def test_omitted_and_unreadable_requests_have_their_reasons() -> None:
    recording = Recording()
    recording.asks(0, 1, CREATE_TOPICS, 5, {"topics": [], "timeout_ms": 1})
    recording.asks(1, 1, PRODUCE, 8, {"acks": 1, "timeout_ms": 1, "topic_data": []}).frame = b"\0\0\0\x08\0\0\0\1\xff"
    plan = rehearsed(recording, three_nodes())
    assert plan.withheld == {
        ("CreateTopics", Reason.NEEDS_ADMIN.value): 1,
        ("Produce", Reason.OPAQUE.value): 1,
    }


def test_on_one_node_everything_goes_there() -> None:
    recording = Recording()
    recording.asks(0, 1, OFFSET_FETCH, 7, {"group_id": "g", "topics": None})
    recording.asks(1, 1, LIST_OFFSETS, 7, offsets(0, topic="b"))
    cluster = three_nodes()
    cluster.nodes = {10: ("h", 10)}
    assert rehearsed(recording, cluster).sent == {("OffsetFetch", 10): 1, ("ListOffsets", 10): 1}


def test_what_is_from_before_the_recording_is_named_by_topic() -> None:
    recording = Recording()
    topic = {"error_code": 0, "name": "a", "topic_id": TOPIC_ID, "partitions": []}
    told = {"brokers": [], "topics": [topic]}
    recording.exchanges(0, 1, METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}, told)
    data = with_base_offset(batch(b"old", b"older"), 5)
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 7, "records": data}
    given = {"responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}]}
    recording.exchanges(10, 1, FETCH, 16, fetch(0), given)
    beat = {"group_id": "g", "generation_id": 3, "member_id": "m", "group_instance_id": None}
    recording.exchanges(20, 1, HEARTBEAT, 3, beat, {"error_code": 0})
    plan = rehearsed(recording, three_nodes())
    assert plan.before == (FromBefore(BeforeKind.RECORDS, "a", 2), FromBefore(BeforeKind.MEMBER, "g", 1))
    assert plan.withheld["Heartbeat", Reason.FROM_BEFORE.value] == 1
    assert not plan.withheld_percent


def test_what_the_recording_refused_is_counted_apart_once_its_answer_is_read() -> None:
    recording = Recording()
    recording.exchanges(0, 1, PRODUCE, 9, produce(0), produced(code=6))
    recording.exchanges(10, 1, PRODUCE, 9, produce(0), produced())
    both = produce(0)
    both["topic_data"][0]["partition_data"].append(produce(1)["topic_data"][0]["partition_data"][0])
    told = produced(code=6)
    told["responses"][0]["partition_responses"] += produced(1)["responses"][0]["partition_responses"]
    recording.exchanges(20, 1, PRODUCE, 9, both, told)
    # nobody tells what became of it
    recording.asks(30, 2, PRODUCE, 9, produce(2))
    plan = rehearsed(recording, three_nodes())
    assert plan.requests == {"Produce": 3}
    assert plan.sent == {("Produce", 10): 1, ("Produce", 11): 1, ("Produce", 12): 1}
    assert plan.withheld == {("Produce", Reason.REFUSED.value): 1}
    assert plan.refused == RefusedCounts(1, 1)
    assert not plan.withheld_percent
