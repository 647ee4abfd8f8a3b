"""Every API of the catalog, every pair of its versions: what a change of version keeps, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis
from proxy.wire.catalog import Codec
from proxy.wire.compile.layout import Slot, Struct, layout
from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.replay.plan import Reason, Values, Withheld
from recorder.replay.versions import (
    Topics,
    choose,
    needs_transactions_v1,
    newest_of_transactions_v1,
    request,
    response,
)
from tests.strategies import KINDS, must_codec, values_of

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP = 0, 1, 2, 3, 9, 10, 11
LEAVE_GROUP, SYNC_GROUP, CREATE_TOPICS, DELETE_TOPICS, ADD_PARTITIONS, END_TXN, TXN_COMMIT = 13, 14, 19, 20, 24, 26, 28
DESCRIBE_CONFIGS, CONSUMER_HEARTBEAT, LIST_RESOURCES = 32, 68, 74
# boundaries where a request is laid out anew: they have tests of their own
LAID_OUT_ANEW = {(OFFSET_FETCH, 7), (FIND_COORDINATOR, 3), (LEAVE_GROUP, 2), (DELETE_TOPICS, 5), (ADD_PARTITIONS, 3)}
# ways up that no request takes, or no request with records
NEVER_UP = {(SYNC_GROUP, 4), (END_TXN, 4), (TXN_COMMIT, 4)}
NO_ID = bytes(16)
every_api = pytest.mark.parametrize("key", apis.api_keys())


class Bijection:
    """Topics that have an id for every name, and a name for every id."""

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}
        self.topics = Topics(self.id, self.name)

    def id(self, name: str) -> bytes:
        return self.ids.setdefault(name, (len(self.ids) + 1).to_bytes(16, "big"))

    def name(self, topic_id: bytes) -> str:
        found = {known: name for name, known in self.ids.items()}.get(topic_id)
        if found is None:
            found = f"topic {topic_id.hex()}"
            self.ids[found] = topic_id
        return found


NO_TOPICS = Topics(lambda name: None, lambda topic_id: None)
EVERY_TOPIC = Bijection().topics


def sent(key: int, recorded: int, chosen: int, values: Values, topics: Topics = EVERY_TOPIC) -> Values:
    """The one request that becomes of `values`, as the chosen version's codec writes and reads it."""
    found = request(key, recorded, chosen, values, topics)
    assert isinstance(found, dict), found
    return through(must_codec("request", key, chosen), found)


def parts(key: int, recorded: int, chosen: int, values: Values, topics: Topics = EVERY_TOPIC) -> list[Values]:
    found = request(key, recorded, chosen, values, topics)
    assert isinstance(found, list), found
    return [through(must_codec("request", key, chosen), one) for one in found]


def withheld(key: int, recorded: int, chosen: int, values: Values, topics: Topics = EVERY_TOPIC) -> Withheld:
    found = request(key, recorded, chosen, values, topics)
    assert isinstance(found, Withheld), found
    return found


def through(codec: Codec, values: Values) -> Values:
    data = codec.encode(values)
    found, end = codec.decode(data)
    assert end == len(data)
    return found


def crosses(key: int, low: int, high: int, boundaries: set[tuple[int, int]]) -> bool:
    return any(low <= last < high for api, last in boundaries if api == key)


def shared(values: Any, struct: Struct, other: Struct) -> Any:
    """The values with defaults wherever the other version can't hold more; topics keep their name."""
    theirs = {slot.name: slot for slot in other}
    return {slot.name: _shared(values[slot.name], slot, theirs.get(slot.name)) for slot in struct}


def _shared(value: Any, slot: Slot, other: Slot | None) -> Any:
    if other is None:
        return value if slot.field.marks & {"topic_name"} and not slot.array and slot.type == "string" else slot.default
    if value is None:
        return None if other.nullable else slot.default
    if slot.struct and other.struct:
        inner = value if slot.array else [value]
        found = [shared(one, slot.struct, other.struct) for one in inner]
        return found if slot.array else found[0]
    return value


def tame(key: int, version: int, other: int, seed: int) -> Values:
    """Values of one version that the other one can hold; records are real ones."""
    codec = must_codec("request", key, version)
    mine, theirs = (layout(codec.message, one) for one in (version, other))
    values: Values = shared(values_of(codec, seed, tame=True), mine, theirs)
    if key == PRODUCE:
        values |= {"transactional_id": None} if version > 2 else {}
        for topic in values["topic_data"]:
            for place, partition in enumerate(topic["partition_data"]):
                partition["records"] = produced(version, place)
    if key == METADATA and version > 0:
        values["topics"] = [asked_for(topic) for topic in values["topics"] or ()] or None
    if key == LIST_RESOURCES and other == 0:
        values["resource_types"] = [16]
    return values


def asked_for(topic: Values) -> Values:
    """By name, even where there is room for an id."""
    return topic | {"name": topic["name"] or "t"} | ({"topic_id": NO_ID} if "topic_id" in topic else {})


def produced(version: int, place: int) -> bytes:
    records = [Record(0, 1000, b"k%d" % place, b"v"), Record(1, 1001)]
    return write_batch(records) if version > 2 else write_message_set(records, magic=int(version == 2))


# which version


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_the_highest_shared_version_up_to_the_recorded_one_else_the_lowest_above(
    low: int, high: int, mine: int
) -> None:
    """Fetch has versions 0 to 18."""
    offered = range(low, high + 1)
    both = [version for version in range(19) if version in offered]
    below = [version for version in both if version <= mine]
    assert choose(FETCH, mine, offered) == (below[-1] if below else both[0] if both else None)


def test_a_node_without_the_api_has_no_version() -> None:
    assert choose(FETCH, 3, None) is None
    assert choose(FETCH, 3, range(0)) is None
    assert choose(2000, 3, range(4)) is None


def test_nothing_newer_than_the_newest_is_chosen() -> None:
    assert choose(FETCH, 12, range(4, 19), newest=7) == 7
    assert choose(FETCH, 3, range(8, 19), newest=7) is None


def test_brokers_of_4_announce_produce_0_to_2_and_refuse_them() -> None:
    assert choose(PRODUCE, 2, range(14)) == choose(PRODUCE, 0, range(13)) == 3
    assert choose(PRODUCE, 2, range(12)) == 2, "those of 3.9 take them"


def test_topics_are_never_asked_for_in_a_version_that_may_create_them() -> None:
    assert choose(METADATA, 1, range(14)) == 4
    assert choose(METADATA, 1, range(4)) is None


# every api, every pair of versions


@every_api
def test_a_request_in_its_own_version_is_itself(key: int) -> None:
    for version in apis.versions(key):
        values = values_of(must_codec("request", key, version), 1)
        assert request(key, version, version, values, NO_TOPICS) is values


@every_api
def test_down_and_up_again_is_identity_when_nothing_was_dropped(key: int) -> None:
    topics = Bijection().topics
    for low, high in combinations(apis.versions(key), 2):
        if crosses(key, low, high, LAID_OUT_ANEW | NEVER_UP):
            continue
        for seed in range(2):
            values = tame(key, low, high, seed)
            above = sent(key, low, high, values, topics)
            if crosses(key, low, high, {(PRODUCE, 2)}):
                continue  # never down again
            below = sent(key, high, low, above, topics)
            assert below == through(must_codec("request", key, low), values), (low, high)
            assert sent(key, low, high, below, topics) == above, (low, high)


@every_api
def test_any_values_become_a_request_of_the_chosen_version_or_are_withheld(key: int) -> None:
    topics = Bijection().topics
    for recorded, chosen in permutations(apis.versions(key), 2):
        codec = must_codec("request", key, chosen)
        found = request(key, recorded, chosen, values_of(must_codec("request", key, recorded), chosen), topics)
        for one in found if isinstance(found, list) else [found] if isinstance(found, dict) else []:
            through(codec, one)


@every_api
def test_nothing_is_changed_in_place(key: int) -> None:
    for recorded, chosen in permutations(apis.versions(key), 2):
        codec = must_codec("request", key, recorded)
        values = values_of(codec, 1)
        request(key, recorded, chosen, values, EVERY_TOPIC)
        assert values == values_of(codec, 1)


def fields(struct: Struct, path: str = "") -> Iterator[tuple[str, Slot]]:
    for slot in struct:
        yield path + slot.name, slot
        yield from fields(slot.struct, f"{path}{slot.name}.") if slot.struct else ()


def holding(struct: Struct, path: str, value: Any) -> Values:
    """Defaults everywhere but at the path."""
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
    """Each field alone, from each version that has it to the next that lacks it."""
    versions = apis.versions(key)
    for recorded, chosen in [(v, v + step) for v in versions for step in (1, -1) if v + step in versions]:
        if crosses(key, *sorted((recorded, chosen)), LAID_OUT_ANEW | NEVER_UP | {(METADATA, 0), (PRODUCE, 2)}):
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


def test_tags_that_nobody_knows_are_lost_where_there_is_no_room_for_them() -> None:
    values = {"topics": None, "_tags": {77: b"x"}}
    assert sent(METADATA, 12, 9, values)["_tags"] == {77: b"x"}
    assert withheld(METADATA, 12, 8, values) == Withheld(Reason.LOST_FIELD, "_tags")
    known_later = {"topics": [], "_tags": {1: b"\0"}}
    assert withheld(FETCH, 12, 15, known_later) == Withheld(Reason.LOST_FIELD, "_tags")


@every_api
def test_any_answer_becomes_one_of_the_recorded_version_with_all_its_fields(key: int) -> None:
    topics = Bijection().topics
    for chosen, recorded in permutations(apis.versions(key), 2):
        values = values_of(must_codec("response", key, chosen), recorded)
        asked = values_of(must_codec("request", key, recorded), chosen)
        found = response(key, chosen, recorded, values, topics, asked)
        assert through(must_codec("response", key, recorded), found) == found
        partial = response(key, chosen, recorded, {}, NO_TOPICS)
        assert through(must_codec("response", key, recorded), partial) == partial


@every_api
def test_an_answer_of_the_recorded_version_is_itself(key: int) -> None:
    for version in apis.versions(key):
        values = values_of(must_codec("response", key, version), 1)
        assert response(key, version, version, values, NO_TOPICS) is values


# names and ids

NAME, ID = "logs", b"\x07" * 16
LOGS = Topics({NAME: ID}.get, {ID: NAME}.get)
TOPIC_PATHS = [
    (PRODUCE, 12, "topic_data", "responses", "name"),
    (FETCH, 12, "topics", "responses", "topic"),
    (8, 9, "topics", "topics", "name"),
    (TXN_COMMIT, 5, "topics", "topics", "name"),
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


def test_what_a_session_forgets_changes_from_name_to_id_too() -> None:
    values = {"forgotten_topics_data": [{"topic": NAME, "partitions": [1]}]}
    assert sent(FETCH, 12, 13, values, LOGS)["forgotten_topics_data"] == [{"topic_id": ID, "partitions": [1]}]


def test_the_offsets_of_a_groups_topics_are_asked_for_by_id_from_version_10_on() -> None:
    by_name = {"groups": [{"group_id": "g", "topics": [{"name": NAME, "partition_indexes": [0]}]}]}
    above = sent(OFFSET_FETCH, 9, 10, by_name, LOGS)
    assert above["groups"][0]["topics"] == [{"topic_id": ID, "partition_indexes": [0]}]
    assert sent(OFFSET_FETCH, 9, 10, {"groups": [{"topics": None}]}, LOGS)["groups"][0]["topics"] is None


def test_topics_asked_for_by_id_are_asked_for_by_name_before_metadata_12() -> None:
    values = {"topics": [{"topic_id": ID, "name": None}]}
    assert sent(METADATA, 12, 9, values, LOGS)["topics"] == [{"name": NAME}]
    assert sent(METADATA, 12, 10, values, LOGS)["topics"] == [{"name": NAME, "topic_id": NO_ID}]
    assert withheld(METADATA, 12, 9, values, NO_TOPICS).reason is Reason.NO_TOPIC
    assert withheld(METADATA, 12, 9, {"topics": [{"name": None}]}, LOGS).reason is Reason.NO_TOPIC


def test_topics_asked_for_by_name_are_not_asked_for_by_id() -> None:
    assert sent(METADATA, 9, 13, {"topics": [{"name": NAME}]}, LOGS)["topics"] == [{"name": NAME, "topic_id": NO_ID}]


def test_an_answer_without_ids_tells_them_by_the_targets_topics() -> None:
    topics = {"topics": [{"name": NAME}, {"name": "other"}]}
    assert [one["topic_id"] for one in response(METADATA, 9, 12, topics, LOGS)["topics"]] == [ID, NO_ID]


def test_all_topics_are_none_named_in_metadata_0_and_null_later() -> None:
    assert sent(METADATA, 0, 4, {"topics": []})["topics"] is None
    assert sent(METADATA, 4, 0, {"topics": None})["topics"] == []
    assert withheld(METADATA, 4, 0, {"topics": []}) == Withheld(Reason.NO_CROSSING, "topics")
    assert sent(METADATA, 0, 4, {"topics": [{"name": "a"}]})["topics"] == [{"name": "a"}]


def test_what_a_translator_has_set_for_the_chosen_version_stays() -> None:
    values = {"topics": [], "allow_auto_topic_creation": False}
    assert sent(METADATA, 0, 4, values)["allow_auto_topic_creation"] is False


# transactions


def test_transactional_requests_never_go_up_to_transactions_v2() -> None:
    values = {"transactional_id": "tx", "topic_data": []}
    assert withheld(PRODUCE, 11, 12, values).reason is Reason.NO_CROSSING
    assert sent(PRODUCE, 11, 12, {"transactional_id": None})
    assert withheld(TXN_COMMIT, 4, 5, {}).reason is Reason.NO_CROSSING
    assert withheld(END_TXN, 4, 5, {}).reason is Reason.NO_CROSSING


def test_transactional_requests_go_down_and_the_flag_says_what_they_need() -> None:
    assert sent(PRODUCE, 13, 11, {"transactional_id": "tx", "topic_data": []})["transactional_id"] == "tx"
    for key, first in ((PRODUCE, 12), (TXN_COMMIT, 5), (END_TXN, 5)):
        assert needs_transactions_v1(key, first, first - 1)
        assert not needs_transactions_v1(key, first - 1, first - 1)
        assert not needs_transactions_v1(key, first + 1, first)
        assert newest_of_transactions_v1(key) == first - 1
    assert not needs_transactions_v1(FETCH, 13, 4)
    assert newest_of_transactions_v1(FETCH) is None


def test_the_producers_pair_of_a_newer_end_of_a_transaction_is_not_made_up() -> None:
    told = response(END_TXN, 4, 5, {"throttle_time_ms": 0, "error_code": 0}, NO_TOPICS)
    assert (told["producer_id"], told["producer_epoch"]) == (-1, -1)


# produce


def of_one_partition(data: bytes | None) -> Values:
    return {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": data}]}]}


def records_of(values: Values) -> bytes:
    (topic,) = values["topic_data"]
    (partition,) = topic["partition_data"]
    return bytes(partition["records"])


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_become_a_batch_from_produce_3_on(magic: int) -> None:
    data = write_message_set([Record(0, 5, b"k", b"v"), Record(1, 6)], magic=magic)
    found = records_of(sent(PRODUCE, magic, 3, of_one_partition(data)))
    times = (5, 6) if magic else (-1, -1)
    assert found == write_batch([Record(0, times[0], b"k", b"v"), Record(1, times[1])])


def test_batches_never_become_message_sets() -> None:
    assert withheld(PRODUCE, 3, 2, of_one_partition(produced(3, 0))).reason is Reason.NO_CROSSING


def test_messages_of_magic_1_never_go_to_produce_0_and_1() -> None:
    assert withheld(PRODUCE, 2, 1, of_one_partition(produced(2, 0))).reason is Reason.NO_CROSSING
    assert sent(PRODUCE, 2, 1, of_one_partition(produced(0, 0)))


def test_zstd_is_withheld_below_produce_7() -> None:
    zstd, gzip = (write_batch([Record(0, 1)], codec=codec) for codec in (Compression.ZSTD, Compression.GZIP))
    assert withheld(PRODUCE, 7, 6, of_one_partition(zstd)) == Withheld(Reason.NO_CROSSING, "zstd")
    assert records_of(sent(PRODUCE, 7, 6, of_one_partition(gzip))) == gzip


@pytest.mark.parametrize("data", [b"x" * 40, bytes(100), produced(2, 0)[:-1]], ids=["noise", "zeros", "cut"])
def test_records_that_cannot_be_read_are_withheld(data: bytes) -> None:
    assert withheld(PRODUCE, 2, 3, of_one_partition(data)).reason is Reason.OPAQUE
    assert withheld(PRODUCE, 7, 6, of_one_partition(data)).reason is Reason.OPAQUE


@pytest.mark.parametrize("data", [None, b""], ids=["null", "empty"])
def test_no_records_stay_no_records(data: bytes | None) -> None:
    found = sent(PRODUCE, 2, 3, of_one_partition(data))
    assert found["topic_data"][0]["partition_data"][0]["records"] == data


# one request each


def test_the_offsets_of_groups_are_fetched_one_by_one_before_version_8() -> None:
    groups = [
        {"group_id": "a", "topics": [{"name": NAME, "partition_indexes": [1]}]},
        {"group_id": "b", "topics": None},
    ]
    asked = {"groups": groups, "require_stable": True}
    first, second = parts(OFFSET_FETCH, 9, 7, asked)
    assert first == {"group_id": "a", "topics": groups[0]["topics"], "require_stable": True}
    assert second == {"group_id": "b", "topics": None, "require_stable": True}
    answers = [
        {"throttle_time_ms": 3, "topics": [{"name": NAME, "partitions": [{"committed_offset": 5}]}], "error_code": 0},
        {"throttle_time_ms": 1, "topics": [], "error_code": 30},
    ]
    told = response(OFFSET_FETCH, 7, 9, answers, NO_TOPICS, asked)
    assert told["throttle_time_ms"] == 3
    assert [(one["group_id"], one["error_code"]) for one in told["groups"]] == [("a", 0), ("b", 30)]
    assert told["groups"][0]["topics"][0]["partitions"][0]["committed_offset"] == 5
    assert withheld(OFFSET_FETCH, 9, 6, asked) == Withheld(Reason.LOST_FIELD, "require_stable")


def test_the_offsets_of_groups_of_topics_by_id_are_joined_from_answers_by_name() -> None:
    asked = {"groups": [{"group_id": "a", "topics": [{"topic_id": ID, "partition_indexes": [1]}]}]}
    (one,) = parts(OFFSET_FETCH, 10, 5, asked, LOGS)
    assert one["topics"] == [{"name": NAME, "partition_indexes": [1]}]
    told = response(OFFSET_FETCH, 5, 10, [{"topics": [{"name": NAME}]}], LOGS, asked)
    assert told["groups"][0]["topics"][0]["topic_id"] == ID


def test_the_offsets_of_a_group_are_fetched_among_groups_from_version_8_on() -> None:
    values = {"group_id": "a", "topics": [{"name": NAME, "partition_indexes": [1]}]}
    above = sent(OFFSET_FETCH, 5, 8, values)
    assert above["groups"] == [{"group_id": "a", "topics": values["topics"]}]
    assert parts(OFFSET_FETCH, 8, 5, above) == [through(must_codec("request", OFFSET_FETCH, 5), values)]
    told = {"groups": [{"group_id": "a", "topics": [{"name": NAME}], "error_code": 16}]}
    assert response(OFFSET_FETCH, 8, 5, told, NO_TOPICS)["error_code"] == 16
    assert response(OFFSET_FETCH, 8, 5, told, NO_TOPICS)["topics"][0]["name"] == NAME
    assert response(OFFSET_FETCH, 8, 5, {"groups": []}, NO_TOPICS)["error_code"] == -1


def test_coordinators_are_looked_for_one_by_one_before_version_4() -> None:
    asked = {"key_type": 1, "coordinator_keys": ["a", "b"]}
    assert parts(FIND_COORDINATOR, 4, 3, asked) == [{"key": "a", "key_type": 1}, {"key": "b", "key_type": 1}]
    answers = [{"node_id": 1, "host": "h", "port": 9}, {"error_code": 15, "error_message": "no", "node_id": -1}]
    told = response(FIND_COORDINATOR, 3, 4, answers, NO_TOPICS, asked)
    assert [(one["key"], one["node_id"], one["error_code"]) for one in told["coordinators"]] == [
        ("a", 1, 0),
        ("b", -1, 15),
    ]
    for nothing in ({"coordinator_keys": []}, {}):
        assert withheld(FIND_COORDINATOR, 4, 3, nothing) == Withheld(Reason.NO_CROSSING, "coordinator_keys")


def test_a_coordinator_is_looked_for_among_others_from_version_4_on() -> None:
    assert sent(FIND_COORDINATOR, 0, 4, {"key": "a"}) == {"key_type": 0, "coordinator_keys": ["a"]}
    told = response(FIND_COORDINATOR, 4, 1, {"coordinators": [{"key": "a", "node_id": 2}]}, NO_TOPICS)
    assert (told["node_id"], "key" in told) == (2, False)
    assert response(FIND_COORDINATOR, 4, 1, {"coordinators": []}, NO_TOPICS)["error_code"] == -1


def test_members_leave_one_by_one_before_version_3() -> None:
    asked = {"group_id": "g", "members": [{"member_id": "a", "reason": "bye"}, {"member_id": "b"}]}
    assert parts(LEAVE_GROUP, 5, 2, asked) == [{"group_id": "g", "member_id": "a"}, {"group_id": "g", "member_id": "b"}]
    told = response(LEAVE_GROUP, 2, 5, [{"error_code": 0}, {"error_code": 25}], NO_TOPICS, asked)
    assert (told["error_code"], [one["error_code"] for one in told["members"]]) == (0, [0, 25])
    told = response(LEAVE_GROUP, 2, 5, [{"error_code": 0}, {"error_code": 16}], NO_TOPICS, asked)
    assert (told["error_code"], told["members"]) == (16, []), "an error of the group"
    static = {"members": [{"member_id": "", "group_instance_id": "i"}]}
    assert withheld(LEAVE_GROUP, 3, 2, static) == Withheld(Reason.LOST_FIELD, "members.group_instance_id")


def test_a_member_leaves_among_others_from_version_3_on() -> None:
    above = sent(LEAVE_GROUP, 1, 3, {"group_id": "g", "member_id": "a"})
    assert above == {"group_id": "g", "members": [{"member_id": "a", "group_instance_id": None}]}
    assert response(LEAVE_GROUP, 3, 1, {"members": [{"error_code": 25}]}, NO_TOPICS)["error_code"] == 25
    assert response(LEAVE_GROUP, 3, 1, {"error_code": 16, "members": []}, NO_TOPICS)["error_code"] == 16


@pytest.mark.parametrize(
    ("key", "below", "above"), [(OFFSET_FETCH, 5, 9), (FIND_COORDINATOR, 2, 6), (LEAVE_GROUP, 1, 5)]
)
def test_more_or_fewer_answers_than_parts_are_no_harm(key: int, below: int, above: int) -> None:
    asked = values_of(must_codec("request", key, above), 1)
    for count in range(5):
        told = response(key, below, above, [{}] * count, NO_TOPICS, asked)
        assert through(must_codec("response", key, above), told) == told


# the other rows


def test_a_join_of_version_0_waits_for_others_as_long_as_its_session_lasts() -> None:
    assert sent(JOIN_GROUP, 0, 4, {"session_timeout_ms": 9000})["rebalance_timeout_ms"] == 9000
    assert sent(JOIN_GROUP, 3, 4, {"session_timeout_ms": 9000, "rebalance_timeout_ms": 5})["rebalance_timeout_ms"] == 5


@pytest.mark.parametrize(("special", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_newer_special_offsets_are_withheld(special: int, first: int) -> None:
    values = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": special}]}]}
    assert withheld(LIST_OFFSETS, 11, first - 1, values).reason is Reason.NO_CROSSING
    assert sent(LIST_OFFSETS, 11, first, values)
    values["topics"][0]["partitions"][0]["timestamp"] = -2  # type: ignore[index]
    assert sent(LIST_OFFSETS, 11, 1, values)


def test_a_list_of_offsets_and_an_offset_are_told_as_each_other() -> None:
    old = {"topics": [{"partitions": [{"old_style_offsets": [7, 3]}, {"old_style_offsets": []}]}]}
    told = response(LIST_OFFSETS, 0, 1, old, NO_TOPICS)
    assert [one["offset"] for one in told["topics"][0]["partitions"]] == [7, -1]
    new = {"topics": [{"partitions": [{"offset": 7}, {"offset": -1}]}]}
    told = response(LIST_OFFSETS, 5, 0, new, NO_TOPICS)
    assert [one["old_style_offsets"] for one in told["topics"][0]["partitions"]] == [[7], []]


def test_a_regex_has_no_place_in_consumer_group_heartbeat_0() -> None:
    found = withheld(CONSUMER_HEARTBEAT, 1, 0, {"subscribed_topic_regex": "a.*"})
    assert found == Withheld(Reason.LOST_FIELD, "subscribed_topic_regex")


def test_a_fetch_session_that_goes_on_is_withheld_before_version_7() -> None:
    assert withheld(FETCH, 7, 6, {"session_id": 5, "session_epoch": 3}).reason is Reason.NO_CROSSING
    for epoch in (-1, 0):
        assert sent(FETCH, 7, 6, {"session_epoch": epoch})


def test_topics_to_delete_are_named_before_version_6() -> None:
    values = {"topics": [{"name": None, "topic_id": ID}, {"name": "a", "topic_id": NO_ID}], "timeout_ms": 5}
    assert sent(DELETE_TOPICS, 6, 5, values, LOGS) == {"topic_names": [NAME, "a"], "timeout_ms": 5}
    assert withheld(DELETE_TOPICS, 6, 5, values, NO_TOPICS).reason is Reason.NO_TOPIC
    above = sent(DELETE_TOPICS, 5, 6, {"topic_names": ["a"], "timeout_ms": 5}, LOGS)
    assert above == {"topics": [{"name": "a", "topic_id": NO_ID}], "timeout_ms": 5}


def test_counts_of_the_brokers_own_choice_are_withheld_before_create_topics_4() -> None:
    topic = {"name": "a", "num_partitions": -1, "replication_factor": 1}
    assert withheld(CREATE_TOPICS, 4, 3, {"topics": [topic]}).reason is Reason.NO_CROSSING
    assert sent(CREATE_TOPICS, 4, 3, {"topics": [topic | {"num_partitions": 2}]})
    assigned = topic | {"replication_factor": -1, "assignments": [{"partition_index": 0, "broker_ids": [1]}]}
    assert sent(CREATE_TOPICS, 4, 3, {"topics": [assigned]})


def test_a_synced_member_of_an_old_version_says_no_protocol_type() -> None:
    assert withheld(SYNC_GROUP, 4, 5, {}) == Withheld(Reason.NO_CROSSING, "protocol_type")


def test_defaults_and_sources_of_configs_are_told_as_each_other() -> None:
    configs = [{"name": "a", "is_default": True}, {"name": "b", "is_default": False}]
    for resource, own in ((2, 1), (4, 4), (8, 0)):
        old = {"results": [{"resource_type": resource, "configs": configs}]}
        told = response(DESCRIBE_CONFIGS, 0, 1, old, NO_TOPICS)
        assert [one["config_source"] for one in told["results"][0]["configs"]] == [5, own]
    new = {"results": [{"configs": [{"config_source": 5}, {"config_source": 1}]}]}
    told = response(DESCRIBE_CONFIGS, 4, 0, new, NO_TOPICS)
    assert [one["is_default"] for one in told["results"][0]["configs"]] == [True, False]


def test_resources_of_version_0_are_those_of_clients_metrics() -> None:
    assert sent(LIST_RESOURCES, 0, 1, {})["resource_types"] == [16]
    assert sent(LIST_RESOURCES, 1, 0, {"resource_types": [16]}) == {}
    assert withheld(LIST_RESOURCES, 1, 0, {"resource_types": []}).reason is Reason.NO_CROSSING


def test_every_kind_of_message_is_swept() -> None:
    assert len(apis.api_keys()) == 95
    assert KINDS == ("request", "response")
