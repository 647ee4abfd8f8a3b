"""Tests that each field of a sent request with a value that a cluster assigns has a row in the table."""

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
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    VOTE,
)
from proxy.wire.language import Field as Declared
from recorder.replay.mapping import ValueKind
from recorder.replay.requests import fields
from recorder.replay.requests.apis import Treatment, treatment
from recorder.replay.requests.fields import Role, Scope

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


def called_state(declared: Sequence[Declared], version: int, above: str = "") -> Iterator[str]:
    """Yields the paths of the fields whose names mean state."""
    for field in declared:
        if version in field.versions:
            if not field.fields and STATE.search(field.name):
                yield above + field.name
            yield from called_state(field.fields, version, f"{above}{field.name}.")


@pytest.mark.parametrize("api_key", SENT)
def test_every_field_of_a_sent_request_that_is_marked_or_called_state_has_a_row(api_key: int) -> None:
    request = catalog.message("request", api_key)
    assert request
    for version in wire.versions(api_key):
        paths = {*called_state(request.fields, version), *wire.marked("request", api_key, version, *fields.MARKS)}
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
        assert any(row and row.what is what for row in rows) or (what is None and not any(rows)), path


@pytest.mark.parametrize("kind", catalog.KINDS)
def test_every_name_of_the_table_is_a_field_somewhere(kind: catalog.MessageKind) -> None:
    kinds = [kind] if kind == "request" else catalog.KINDS
    paths = {path for key in SENT for one in kinds for v in wire.versions(key) for path in fields.of(one, key, v)}
    names = fields.NAMES if kind == "response" else fields.REQUEST_NAMES.keys() - fields.NAMES.keys()
    assert {*names} - {path.rpartition(".")[2] for path in paths} == set()


def test_fields_come_and_go_with_versions() -> None:
    assert "topic_data.name" in fields.of("request", PRODUCE, 12)
    assert fields.of("request", PRODUCE, 13)["topic_data.topic_id"].what is ValueKind.TOPIC_ID
    assert "topic_data.name" not in fields.of("request", PRODUCE, 13)


def test_requests_quote_and_responses_tell_or_repeat() -> None:
    assert fields.of("request", OFFSET_COMMIT, 8)["member_id"] == (ValueKind.MEMBER, Role.QUOTED, Scope.GROUP)
    joined = fields.of("response", JOIN_GROUP, 9)
    assert joined["member_id"] == (ValueKind.MEMBER, Role.LEARNED, Scope.GROUP)
    assert joined["members.member_id"] == (ValueKind.MEMBER, Role.ECHOED, Scope.GROUP)
    assert fields.of("response", INIT_PRODUCER_ID, 4)["producer_id"].role is Role.LEARNED
    assert fields.of("response", FETCH, 4)["responses.partitions.aborted_transactions.producer_id"].role is Role.ECHOED
    assert fields.of("response", FETCH, 12)["session_id"] == (ValueKind.FETCH_SESSION, Role.LEARNED, Scope.CONNECTION)


def test_a_topics_name_and_its_id_side_by_side_tell_that_they_belong_together() -> None:
    assert fields.of("response", METADATA, 12)["topics.topic_id"].role is Role.LEARNED
    assert fields.of("response", PRODUCE, 13)["responses.topic_id"].role is Role.ECHOED


def test_a_field_means_something_else_in_a_request_than_in_a_response() -> None:
    assert fields.of("request", FETCH, 12)["topics.partitions.log_start_offset"].what is ValueKind.REPLICA
    assert fields.of("response", FETCH, 12)["responses.partitions.log_start_offset"].what is ValueKind.LOG_BOUND


def test_unsent_apis_and_unknown_versions_have_no_rows() -> None:
    assert not fields.of("request", VOTE, 0)
    assert not fields.of("request", API_VERSIONS, 3)
    assert not fields.of("request", 3000, 0)
    assert not fields.of("request", CONSUMER_GROUP_HEARTBEAT, 99)


def test_rows_cant_be_changed() -> None:
    with pytest.raises(TypeError):
        fields.of("request", METADATA, 12)["topics"] = None  # type: ignore[index]
