"""Tests of the target's description, taken from its responses."""

from __future__ import annotations

from recorder.replay.cluster import Cluster
from recorder.replay.names import Names


def metadata(topic_id: bytes | None) -> dict[str, object]:
    topic = {"error_code": 0, "name": "a", "partitions": []} | ({} if topic_id is None else {"topic_id": topic_id})
    return {"brokers": [], "topics": [topic]}


def test_a_topic_of_a_target_without_ids_stands_for_the_recorded_id() -> None:
    for told in (None, bytes(16)):
        cluster = Cluster()
        cluster.learn_metadata(metadata(told))
        names = Names("", {b"r" * 16: "a"}, cluster)
        found = names.target_id(b"r" * 16)
        assert found is not None
        assert cluster.topic_names[found] == "a"
        assert names.recorded_id(found) == b"r" * 16


def test_the_targets_own_id_counts_where_it_has_one() -> None:
    cluster = Cluster()
    cluster.learn_metadata(metadata(b"t" * 16))
    assert cluster.topic_ids == {"a": b"t" * 16}


def test_a_coordinator_that_metadata_does_not_name_is_asked_for_again() -> None:
    cluster = Cluster(nodes={1: ("a", 1)})
    for node in (1, 2):
        answer = {"error_code": 0, "node_id": node, "host": "b", "port": node}
        cluster.learn_coordinator(0, f"group-{node}", answer)
    cluster.learn_metadata({"brokers": [{"node_id": 1, "host": "a", "port": 1}], "topics": []})
    assert cluster.coordinators == {(0, "group-1"): 1}
