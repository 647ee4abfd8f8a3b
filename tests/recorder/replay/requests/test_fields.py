"""Tests that each field has one kind, and each sent field with a value that a cluster assigns has one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from proxy import wire
from proxy.wire import apis as catalog
from proxy.wire.keys import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    FETCH,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    VOTE,
)
from proxy.wire.language import Field as Declared
from recorder.replay.mapping import ValueKind
from recorder.replay.requests import fields
from recorder.replay.requests.apis import Treatment, treatment
from recorder.replay.requests.fields import BY_PLACE, OF_API, OF_ARRAY, ways
from tests.recorder.replay.sent import SENT as SENT_OR_OWN
from tests.recorder.replay.sent import fields_of
from tests.tables import each_row

SENT = [key for key in wire.api_keys() if treatment(key) not in (Treatment.NEVER, Treatment.OWN)]
STATE = re.compile(r"(^|_)(ids?|epochs?|session|offsets?|cursor|generation|sequence)(_|$)")
# fields with such names whose values clients make themselves
CLIENTS_OWN = {
    (LIST_OFFSETS, "topics.partitions.max_num_offsets"): "a count",
    (JOIN_GROUP, "session_timeout_ms"): "a duration",
    (STREAMS_GROUP_HEARTBEAT, "process_id"): "made by the process",
    (STREAMS_GROUP_HEARTBEAT, "topology.epoch"): "counts the client's own topologies",
    (STREAMS_GROUP_HEARTBEAT, "topology.subtopologies.subtopology_id"): "named by the topology",
    (STREAMS_GROUP_HEARTBEAT, "task_offsets.subtopology_id"): "named by the topology",
    (STREAMS_GROUP_HEARTBEAT, "task_end_offsets.subtopology_id"): "named by the topology",
    (STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, "topology_epoch"): "counts the client's own topologies",
    (STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, "topology_description.subtopologies.subtopology_id"): "named there",
}


ARRAYS = [
    (key, kind, path, field)
    for key in SENT_OR_OWN
    for kind in catalog.KINDS
    for path, field in fields_of(kind, key)
    if field.fields and field.is_array
]


def called_state(declared: Sequence[Declared], version: int, above: str = "") -> Iterator[str]:
    """Yields the paths of the fields whose names mean state."""
    for field in declared:
        if version in field.versions:
            if not field.fields and STATE.search(field.name):
                yield above + field.name
            yield from called_state(field.fields, version, f"{above}{field.name}.")


@each_row("api_key", SENT)
def test_every_field_of_a_sent_request_that_is_marked_or_called_state_has_a_row(api_key: int) -> None:
    request = catalog.message("request", api_key)
    assert request
    for version in wire.versions(api_key):
        paths = {*called_state(request.fields, version), *wire.marked("request", api_key, version, *fields.OF_MARK)}
        lacking = paths - fields.of("request", api_key, version).keys()
        assert {path for path in lacking if (api_key, path) not in CLIENTS_OWN} == set()


def test_a_value_that_clients_make_has_no_row() -> None:
    for api_key, path in CLIENTS_OWN:
        request = catalog.message("request", api_key)
        assert request
        assert any(path in called_state(request.fields, version) for version in request.versions)
        assert not any(path in fields.of("request", api_key, version) for version in request.versions)


def test_every_row_of_one_api_is_a_field_of_one_of_its_versions() -> None:
    for (kind, api_key, path), what in fields.BY_PATH.items():
        keys = SENT if api_key is None else [api_key]
        rows = [fields.of(kind, key, version).get(path) for key in keys for version in wire.versions(key)]
        assert any(row is what for row in rows if row) or (what is None and not any(rows)), path


@each_row("kind", fields.KINDS, ids=lambda row: row.kind.name)
def test_every_name_and_mark_of_a_kind_is_that_of_a_field(kind: fields.KindRow) -> None:
    sent = {name for key in SENT_OR_OWN for path, _ in fields_of("request", key) for name in path.split(".")}
    answered = {name for key in SENT_OR_OWN for path, _ in fields_of("response", key) for name in path.split(".")}
    assert {*kind.names.split()} <= sent | answered
    assert {*kind.in_requests.split()} <= sent
    assert {*kind.in_answers.split()} <= answered
    marks = {
        mark for key in SENT_OR_OWN for one in catalog.KINDS for _, field in fields_of(one, key) for mark in field.marks
    }
    assert not kind.mark or kind.mark in marks


def test_each_kind_has_one_row_and_a_name_is_of_one_kind() -> None:
    assert [row.kind for row in fields.KINDS if fields.ROW_OF[row.kind] is not row] == []
    assert {*fields.ROW_OF} == {*ValueKind}
    for names in ("names", "in_requests", "in_answers"):
        listed = [name for row in fields.KINDS for name in getattr(row, names).split()]
        assert len(listed) == len({*listed})


def test_no_field_of_an_answer_has_a_kind_by_its_name_and_another_by_its_mark() -> None:
    for key in SENT_OR_OWN:
        for path, field in fields_of("response", key):
            named = {fields.OF_NAME["response"].get(field.name)} - {None}
            marked = {fields.OF_MARK[mark] for mark in field.marks if mark in fields.OF_MARK}
            is_of_path = any(("response", one, path) in fields.BY_PATH for one in (key, None))
            assert is_of_path or len(named | marked) < 2, (key, path)


def test_fields_come_and_go_with_versions() -> None:
    assert "topic_data.name" in fields.of("request", PRODUCE, 12)
    assert fields.of("request", PRODUCE, 13)["topic_data.topic_id"] is ValueKind.TOPIC_ID
    assert "topic_data.name" not in fields.of("request", PRODUCE, 13)


def test_a_field_means_something_else_in_a_request_than_in_a_response() -> None:
    assert fields.of("request", FETCH, 12)["topics.partitions.log_start_offset"] is ValueKind.REPLICA
    assert fields.of("response", FETCH, 12)["responses.partitions.log_start_offset"] is ValueKind.LOG_BOUND


def test_unsent_apis_and_unknown_versions_have_no_rows() -> None:
    assert not fields.of("request", VOTE, 0)
    assert not fields.of("request", API_VERSIONS, 3)
    assert not fields.of("request", 3000, 0)
    assert not fields.of("request", CONSUMER_GROUP_HEARTBEAT, 99)


def test_rows_cant_be_changed() -> None:
    with pytest.raises(TypeError):
        fields.of("request", METADATA, 12)["topics"] = None  # type: ignore[index]


def test_every_array_of_structs_of_a_sent_api_is_matched_by_key_or_listed_as_by_place() -> None:
    for key, kind, path, field in ARRAYS:
        row = ways(key, path)
        for version in set(wire.versions(key)) & set(field.versions):
            present = {inner.name for inner in field.fields if version in inner.versions}
            array = path.rpartition(".")[2]
            assert row != BY_PLACE or array in OF_ARRAY or (key, array) in OF_API, (key, kind, path)
            assert row == BY_PLACE or any(set(way) <= present for way in row), (key, kind, path, version)


def test_every_row_is_of_an_array_that_is_sent() -> None:
    arrays = {path.rpartition(".")[2] for _, _, path, _ in ARRAYS}
    assert arrays >= set(OF_ARRAY)
    assert {(key, path.rpartition(".")[2]) for key, _, path, _ in ARRAYS} >= set(OF_API)
