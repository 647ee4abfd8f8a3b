"""Tests of deletions: only what the replay made or the prefix names, unless all deletions are allowed."""

from __future__ import annotations

from proxy.wire.keys import (
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_GROUPS,
    DELETE_RECORDS,
    DELETE_SHARE_GROUP_OFFSETS,
    DELETE_TOPICS,
    METADATA,
    OFFSET_DELETE,
)
from recorder.replay.options import Deletes, Options
from recorder.replay.plan import Reason, Values
from recorder.replay.requests.apis import ROWS, Treatment
from recorder.replay.requests.deletes import Thing, ThingKind, made_by, refusal_of_deletes
from tests.tables import each_row

ID, UNKNOWN = b"r" * 16, b"u" * 16
RULE = {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 3}
DELETED: dict[int, Values] = {
    DELETE_TOPICS: {"topic_names": ["orders"]},
    DELETE_RECORDS: {"topics": [{"name": "orders"}]},
    DELETE_GROUPS: {"groups_names": ["orders"]},
    OFFSET_DELETE: {"group_id": "orders"},
    DELETE_SHARE_GROUP_OFFSETS: {"group_id": "orders"},
    DELETE_ACLS: {"filters": [RULE]},
}
OWN = Options(deletes=Deletes.OWN)


def refusal(api_key: int, values: Values, options: Options = OWN, *made: Thing) -> Reason | None:
    return refusal_of_deletes(api_key, values, options, topic, made)


def topic(name: str | bytes) -> str | None:
    return {ID: "orders"}.get(name) if isinstance(name, bytes) else name


def test_each_api_that_deletes_is_here() -> None:
    assert DELETED.keys() == {key for key, row in ROWS.items() if row.treatment is Treatment.DELETES}


@each_row("api_key", DELETED)
def test_topics_and_groups_that_the_replay_did_not_make_are_not_deleted(api_key: int) -> None:
    assert refusal(api_key, DELETED[api_key]) is Reason.NEEDS_DELETES
    assert refusal(api_key, DELETED[api_key], Options(deletes=Deletes.NOTHING)) is Reason.NEEDS_DELETES


@each_row("api_key", DELETED)
def test_topics_and_groups_with_the_prefix_are_deleted_and_all_others_with_their_option(api_key: int) -> None:
    assert refusal(api_key, DELETED[api_key], Options(deletes=Deletes.OWN, prefix="p-")) is None
    assert refusal(api_key, DELETED[api_key], Options(deletes=Deletes.ALL)) is None


@each_row("api_key", [key for key in DELETED if key != DELETE_ACLS])
def test_topics_and_groups_that_the_replay_made_are_deleted(api_key: int) -> None:
    kind = ThingKind.TOPIC if api_key in (DELETE_TOPICS, DELETE_RECORDS) else ThingKind.GROUP
    other = ThingKind.GROUP if kind is ThingKind.TOPIC else ThingKind.TOPIC
    assert refusal(api_key, DELETED[api_key], OWN, Thing(kind, "orders")) is None
    assert refusal(api_key, DELETED[api_key], OWN, Thing(other, "orders")) is Reason.NEEDS_DELETES


def test_one_topic_that_must_stay_withholds_the_whole_deletion() -> None:
    made = Thing(ThingKind.TOPIC, "orders")
    assert refusal(DELETE_TOPICS, {"topic_names": ["orders", "others"]}, OWN, made) is Reason.NEEDS_DELETES


def test_topics_are_known_by_their_ids_and_unknown_ones_are_nobodys() -> None:
    made = Thing(ThingKind.TOPIC, "orders")
    assert refusal(DELETE_TOPICS, {"topics": [{"name": None, "topic_id": ID}]}, OWN, made) is None
    unknown = {"topics": [{"name": None, "topic_id": UNKNOWN}]}
    assert refusal(DELETE_TOPICS, unknown, OWN, made) is Reason.NEEDS_DELETES


def test_a_request_that_deletes_nothing_is_not_refused() -> None:
    assert refusal(METADATA, {"topics": None}) is None


def test_topics_that_the_target_created_are_the_replays_under_their_recorded_names() -> None:
    answer = {"topics": [{"name": "p-a", "error_code": 0}, {"name": "p-b", "error_code": 36}]}
    assert made_by(CREATE_TOPICS, {}, answer, lambda name: name[2:]) == {Thing(ThingKind.TOPIC, "a")}
    assert made_by(CREATE_TOPICS, {"validate_only": True}, answer, str) == set()
    assert made_by(METADATA, {}, answer, str) == set()
