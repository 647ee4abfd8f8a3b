"""Tests of fields that only one of two versions has, and of topics named in one and identified in the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.wire import apis
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, FETCH, METADATA, OFFSET_FETCH, PRODUCE, TXN_OFFSET_COMMIT
from recorder.replay.plan import Reason, Values, Withheld
from recorder.replay.versions.choosing import (
    request,
    response,
)
from tests.recorder.replay.crossing import (
    EVERY_TOPIC,
    ID,
    LAID_OUT_ANEW,
    LOGS,
    NAME,
    NEVER_UP,
    NO_ID,
    NO_TOPICS,
    crosses,
    every_api,
    sent,
    withheld,
)
from tests.strategies import must_codec


def fields(struct: Struct, path: str = "") -> Iterator[tuple[str, Slot]]:
    for slot in struct:
        yield path + slot.name, slot
        yield from fields(slot.struct, f"{path}{slot.name}.") if slot.struct else ()


def holding(struct: Struct, path: str, value: Any) -> Values:
    """Returns defaults everywhere but at the path."""
    name, _, rest = path.partition(".")
    slot = next(one for one in struct if one.name == name)
    inner = holding(slot.struct, rest, value) if rest and slot.struct else value
    return {name: [inner] if slot.array and rest else inner}


def other_than_default(slot: Slot) -> Any:
    plain: dict[str, Any] = {"string": "x", "bool": not slot.default, "bytes": b"x", "records": b"x", "uuid": b"x" * 16}
    one = {} if slot.struct else plain.get(slot.type, -7)
    return [one] if slot.array else one


@every_api
def test_a_dropped_field_must_be_default_or_ignorable(key: int) -> None:
    """Takes each field alone, from each version that has it to the next one that lacks it."""
    versions = apis.versions(key)
    for recorded, chosen in [(v, v + step) for v in versions for step in (1, -1) if v + step in versions]:
        low, high = sorted((recorded, chosen))
        if crosses(key, low, high, LAID_OUT_ANEW | NEVER_UP | {(METADATA, 0), (PRODUCE, 2)}):
            continue
        message = must_codec("request", key, recorded).message
        mine, theirs = layout(message, recorded), dict(fields(layout(message, chosen)))
        for path, slot in fields(mine):
            above = path.rpartition(".")[0]
            if path in theirs or (above and above not in theirs) or (slot.struct and not slot.array):
                continue
            found = request(key, recorded, chosen, holding(mine, path, other_than_default(slot)), EVERY_TOPIC)
            ignorable = "ignorable" in slot.field.marks
            assert ignorable == isinstance(found, dict), (path, recorded, chosen, found)
            assert ignorable or found in (Withheld(Reason.LOST_FIELD, path), Withheld(Reason.NO_CROSSING, path))


def test_unknown_tags_are_lost_where_the_version_has_no_tags() -> None:
    values = {"topics": None, "_tags": {77: b"x"}}
    assert sent(METADATA, 12, 9, values)["_tags"] == {77: b"x"}
    assert withheld(METADATA, 12, 8, values) == Withheld(Reason.LOST_FIELD, "_tags")
    known_later = {"topics": [], "_tags": {1: b"\0"}}
    assert withheld(FETCH, 12, 15, known_later) == Withheld(Reason.LOST_FIELD, "_tags")


TOPIC_PATHS = [
    (PRODUCE, 12, "topic_data", "responses", "name"),
    (FETCH, 12, "topics", "responses", "topic"),
    (8, 9, "topics", "topics", "name"),
    (TXN_OFFSET_COMMIT, 5, "topics", "topics", "name"),
]


@pytest.mark.parametrize(
    ("key", "last", "asked", "told", "name"), TOPIC_PATHS, ids=[str(one[0]) for one in TOPIC_PATHS]
)
def test_names_become_ids_and_ids_names_by_the_targets_topics(
    key: int, last: int, asked: str, told: str, name: str
) -> None:
    by_name, by_id = {asked: [{name: NAME}]}, {asked: [{"topic_id": ID}]}
    assert sent(key, last, last + 1, by_name, LOGS)[asked][0]["topic_id"] == ID
    assert sent(key, last + 1, last, by_id, LOGS)[asked][0][name] == NAME
    assert withheld(key, last, last + 1, by_name, NO_TOPICS) == Withheld(Reason.NO_TOPIC, NAME)
    assert withheld(key, last + 1, last, by_id, NO_TOPICS) == Withheld(Reason.NO_TOPIC, ID.hex())
    assert response(key, last, last + 1, {told: [{name: NAME}]}, LOGS)[told][0]["topic_id"] == ID
    assert response(key, last + 1, last, {told: [{"topic_id": ID}]}, LOGS)[told][0][name] == NAME
    assert response(key, last + 1, last, {told: [{"topic_id": ID}]}, NO_TOPICS)[told][0][name] == ""


def test_forgotten_topics_change_from_name_to_id() -> None:
    values = {"forgotten_topics_data": [{"topic": NAME, "partitions": [1]}]}
    assert sent(FETCH, 12, 13, values, LOGS)["forgotten_topics_data"] == [{"topic_id": ID, "partitions": [1]}]


def test_the_offsets_of_a_groups_topics_are_requested_by_id_from_version_10_on() -> None:
    by_name = {"groups": [{"group_id": "g", "topics": [{"name": NAME, "partition_indexes": [0]}]}]}
    above = sent(OFFSET_FETCH, 9, 10, by_name, LOGS)
    assert above["groups"][0]["topics"] == [{"topic_id": ID, "partition_indexes": [0]}]
    assert sent(OFFSET_FETCH, 9, 10, {"groups": [{"topics": None}]}, LOGS)["groups"][0]["topics"] is None


def test_topics_requested_by_name_are_not_requested_by_id() -> None:
    assert sent(METADATA, 9, 13, {"topics": [{"name": NAME}]}, LOGS)["topics"] == [{"name": NAME, "topic_id": NO_ID}]


def test_an_answer_without_ids_tells_them_by_the_targets_topics() -> None:
    topics = {"topics": [{"name": NAME}, {"name": "other"}]}
    assert [one["topic_id"] for one in response(METADATA, 9, 12, topics, LOGS)["topics"]] == [ID, NO_ID]


def test_a_regex_has_no_place_in_consumer_group_heartbeat_0() -> None:
    found = withheld(CONSUMER_GROUP_HEARTBEAT, 1, 0, {"subscribed_topic_regex": "a.*"})
    assert found == Withheld(Reason.LOST_FIELD, "subscribed_topic_regex")
