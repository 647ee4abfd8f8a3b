import inspect

import pytest

from proxy.wire.keys import FETCH, METADATA
from proxy.wire.primitives import TagSpan
from tests.strategies import must_codec

BROKERS = [{"node_id": 1, "host": "one", "port": 9092, "rack": "r"}, {"node_id": 2, "host": "zwei", "port": 9093}]


def test_a_projection_has_value_start_and_end_in_wire_order() -> None:
    codec = must_codec("response", METADATA, 12)
    data = b"head" + codec.encode({"brokers": BROKERS})
    found = codec.project(("brokers.host", "brokers.port"))(data, 4)
    assert [value for value, _, _ in found["brokers.host"]] == ["one", "zwei"]
    assert [data[start:end] for _, start, end in found["brokers.host"]] == [b"\x04one", b"\x05zwei"]
    assert [data[start:end] for _, start, end in found["brokers.port"]] == [b"\0\0\x23\x84", b"\0\0\x23\x85"]


def test_a_projection_stops_after_the_last_wanted_field() -> None:
    """The fields after the brokers may be missing or invalid."""
    codec = must_codec("response", METADATA, 12)
    data = codec.encode({"brokers": BROKERS})
    ((_, _, end),) = codec.project(("brokers",))(data, 0)["brokers"]
    project = codec.project(("brokers.node_id",))
    assert project(data[:end] + b"\xff" * 3, 0) == project(data, 0)
    assert "topics" not in inspect.getsource(project)


def test_a_projection_may_name_a_container_and_its_fields() -> None:
    codec = must_codec("response", METADATA, 1)
    data = codec.encode({"brokers": BROKERS})
    found = codec.project(("brokers", "brokers.rack", "controller_id"))(data, 0)
    ((brokers, start, end),) = found["brokers"]
    assert [broker["rack"] for broker in brokers] == ["r", None] == [rack for rack, _, _ in found["brokers.rack"]]
    assert found["controller_id"] == [(-1, end, end + 4)]
    assert (start, data[:4]) == (0, b"\0\0\0\2")


def test_a_path_into_a_tagged_field_leads_through_its_tag() -> None:
    codec = must_codec("response", FETCH, 16)
    data = codec.encode({"node_endpoints": BROKERS, "_tags": {7: b"seven"}})
    found = codec.project(("node_endpoints.host", "tags"))(data, 0)
    assert [data[start:end] for _, start, end in found["node_endpoints.host"]] == [b"\x04one", b"\x05zwei"]
    ((tags, start, end),) = found["tags"]
    assert (data[start], end) == (2, len(data))
    assert [tag.tag for tag in tags] == [0, 7]
    assert tags[1] == TagSpan(7, end - 7, end - 6, end - 5, end)


def test_a_tag_within_an_array_is_found_too() -> None:
    codec = must_codec("response", FETCH, 12)
    partitions = [{"current_leader": {"leader_id": 5}}, {}, {"current_leader": {"leader_id": 6}}]
    data = codec.encode({"responses": [{"partitions": partitions}]})
    found = codec.project(("responses.partitions.current_leader.leader_id",))(data, 0)
    assert [value for value, _, _ in found["responses.partitions.current_leader.leader_id"]] == [5, 6]


def test_an_absent_field_has_no_entries_in_a_projection() -> None:
    codec = must_codec("response", FETCH, 16)
    assert codec.project(("node_endpoints", "node_endpoints.host"))(codec.encode({}), 0) == {
        "node_endpoints": [],
        "node_endpoints.host": [],
    }
    of_another_version = must_codec("response", FETCH, 11)
    assert of_another_version.project(("node_endpoints.host", "tags"))(of_another_version.encode({}), 0) == {
        "node_endpoints.host": [],
        "tags": [],
    }
    heartbeat = must_codec("response", 68, 0)
    path = "assignment.topic_partitions.partitions"
    assert heartbeat.project((path,))(heartbeat.encode({"assignment": None}), 0) == {path: []}


@pytest.mark.parametrize("path", ["broker", "brokers.name", "brokers.host.x", ""])
def test_a_path_that_no_version_has_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="MetadataResponse has no field"):
        must_codec("response", METADATA, 12).project((path,))
