"""Tests of an exchange's verdict."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Hashable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proxy.wire import apis, embedded
from proxy.wire.keys import (
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CONFIGS,
    DESCRIBE_GROUPS,
    FETCH,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_GROUPS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SHARE_FETCH,
    SYNC_GROUP,
)
from recorder.replay.comparison.compare import MOST_DIFFERENCES, DifferenceKind, answer_verdict
from recorder.replay.comparison.compared_fields import ComparedField, ComparedFields, compared_fields
from recorder.replay.comparison.elements import element_name
from recorder.replay.comparison.shown import MOST_CHARACTERS
from recorder.replay.comparison.struct_paths import WITH_BROKERS_SETTINGS
from recorder.replay.mapping import ValueKind
from recorder.replay.outcome import Difference
from recorder.replay.plan import Dropped, Reason, Values
from recorder.replay.requests.fields import ComparisonRule, Ways
from tests.recorder.replay.comparison.counterparts import NoCounterparts
from tests.recorder.replay.sent import SENT
from tests.strategies import extremes, must_codec, values_of

RESPONSES = [(key, version) for key in SENT for version in apis.versions(key)]
# versions of the APIs whose settings are all compared
PLAIN = [(key, version) for key, version in RESPONSES if key not in WITH_BROKERS_SETTINGS]
BLOBS = ("metadata", "assignment", "member_metadata", "member_assignment")

responses = st.sampled_from(RESPONSES)
seeds = st.integers(0, 10_000)


class Unchanged:
    """A mapping that maps every value to itself."""

    same: frozenset[ValueKind] = frozenset()

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable:
        return recorded


class Pairs:
    """A mapping of some values."""

    same: frozenset[ValueKind] = frozenset()

    def __init__(self, pairs: dict[tuple[ValueKind, Hashable, Hashable], Hashable]) -> None:
        self.pairs = pairs

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable | None:
        return self.pairs.get((what, scope, recorded))


def a_response(api_key: int, version: int, seed: int) -> Values:
    return values_of(must_codec("response", api_key, version), seed)


def distinct(of: ComparedFields, values: Values) -> Values:
    """Returns the values without elements whose name another element has."""
    return {line.name: _distinct(line, values[line.name]) for line in of if line.name in values}


def _distinct(line: ComparedField, value: Any) -> Any:
    if value is None or not line.inner:
        return value
    if line.named is None:
        return distinct(line.inner, value)
    elements = [distinct(line.inner, one) for one in value]
    if not line.named:
        return elements
    return list({element_name(line.named, one): one for one in elements}.values())


def shuffled(of: ComparedFields, values: Values, random: Random) -> Values:
    """Returns the same response in another order."""
    return {line.name: _shuffled(line, values[line.name], random) for line in of if line.name in values}


def _shuffled(line: ComparedField, value: Any, random: Random) -> Any:
    if value is None or not line.inner:
        return random.sample(value, len(value)) if isinstance(value, list) else value
    if line.named is None:
        return shuffled(line.inner, value, random)
    elements = [shuffled(line.inner, one, random) for one in value]
    return random.sample(elements, len(elements)) if line.named else elements


def structs(of: ComparedFields, values: Values, named: Ways = ()) -> Iterator[tuple[ComparedFields, Ways, Values]]:
    """Yields the structs of a response that are compared, each with its fields and its naming fields."""
    yield of, named, values
    naming = {field for way in named for field in way}
    for line in (line for line in of if line.name not in naming):
        value = values.get(line.name)
        if line.is_compared and line.inner and value is not None and line.how is not ComparisonRule.ELECTED:
            for one in [value] if line.named is None else value:
                yield from structs(line.inner, one, line.named or ())


def must_be_equal(of: ComparedFields, named: Ways, values: Values) -> list[str]:
    names = {field for way in named for field in way}
    return [
        line.name
        for line in of
        if line.how is ComparisonRule.EQUAL and line.is_compared and not line.inner and values[line.name] is not None
        if line.name not in names and line.name not in BLOBS
    ]


def other(value: Any) -> Any:
    """Returns a value that differs from this one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return 1 if value == 0 else 0
        case str():
            return value + "!"
        case bytes():
            return value + b"!"
    return [*value, other(value[0])] if value else [1]


@pytest.mark.parametrize("known", [Unchanged(), NoCounterparts()], ids=["unchanged", "unknown"])
@given(response=responses, seed=seeds)
def test_an_answer_says_the_same_as_itself(known: Any, response: tuple[int, int], seed: int) -> None:
    values = a_response(*response, seed)
    assert answer_verdict(*response, values, copy.deepcopy(values), known) == (DifferenceKind.SAME, ())


@given(response=responses, seed=seeds, random=st.randoms(use_true_random=False))
def test_the_order_of_elements_does_not_matter(response: tuple[int, int], seed: int, random: Random) -> None:
    values = distinct(compared_fields(*response), a_response(*response, seed))
    assert answer_verdict(*response, values, shuffled(compared_fields(*response), values, random), Unchanged()) == (
        DifferenceKind.SAME,
        (),
    )


def a_full_response(api_key: int, version: int, seed: int) -> Values:
    """Returns a response; every other one has no empty array and no null."""
    made = a_response(api_key, version, seed) if seed % 2 else extremes(must_codec("response", api_key, version))
    return distinct(compared_fields(api_key, version), made)


def equal_fields(response: tuple[int, int], values: Values) -> list[tuple[Values, str]]:
    return [(one[-1], name) for one in structs(compared_fields(*response), values) for name in must_be_equal(*one)]


WITH_EQUAL_FIELDS = [one for one in PLAIN if equal_fields(one, a_full_response(*one, 0))]


@given(response=st.sampled_from(WITH_EQUAL_FIELDS), seed=seeds, data=st.data())
def test_a_field_that_must_be_equal_is_found_with_its_path(
    response: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    recorded = a_full_response(*response, seed)
    replayed = copy.deepcopy(recorded)
    found = equal_fields(response, replayed)
    assume(found)
    struct, name = data.draw(st.sampled_from(found))
    struct[name] = other(struct[name])
    kind, differences = answer_verdict(*response, recorded, replayed, Unchanged())
    assert kind is DifferenceKind.VALUE
    assert [one.path.rpartition(".")[2] for one in differences] == [name]


@given(response=responses, seed=seeds, data=st.data())
def test_an_error_that_differs_is_found_and_nothing_else_of_its_struct(
    response: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    recorded = a_full_response(*response, seed)
    replayed = copy.deepcopy(recorded)
    found = [
        (struct, line.name)
        for of, _, struct in structs(compared_fields(*response), replayed)
        for line in of
        if line.is_error
    ]
    assume(found)
    struct, name = data.draw(st.sampled_from(found))
    was = struct[name]
    struct[name] = 42 if was != 42 else 10
    kind, differences = answer_verdict(*response, recorded, replayed, Unchanged())
    assert kind is DifferenceKind.ERROR
    (difference,) = differences
    assert difference.path.endswith(name)
    assert (difference.recorded, difference.replayed) == (str(was), str(struct[name]))


def metadata(**topic: Any) -> Values:
    broker = {"node_id": 1, "host": "a", "port": 9092, "rack": None}
    partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 3, "replica_nodes": [1, 2]}
    whole = {"error_code": 0, "name": "t", "topic_id": b"1" * 16, "is_internal": False, "partitions": [partition]}
    return {"throttle_time_ms": 0, "brokers": [broker], "cluster_id": "c", "topics": [whole | topic]}


def test_an_exchange_without_a_recorded_answer_is_not_compared() -> None:
    assert answer_verdict(METADATA, 10, None, metadata(), NoCounterparts()).kind is DifferenceKind.UNCOMPARED
    assert answer_verdict(METADATA, 10, None, None, NoCounterparts()).kind is DifferenceKind.SAME
    assert not DifferenceKind.UNCOMPARED.is_mismatch


def test_an_answer_that_never_came_is_a_mismatch() -> None:
    assert answer_verdict(METADATA, 10, metadata(), None, NoCounterparts()) == (DifferenceKind.UNANSWERED, ())
    assert DifferenceKind.UNANSWERED.is_mismatch


def test_only_structure_and_errors_of_metadata_are_compared() -> None:
    other_cluster = metadata(partitions=[])
    other_cluster["brokers"], other_cluster["cluster_id"] = [], "d"
    assert answer_verdict(METADATA, 10, metadata(), other_cluster, Unchanged()).kind is DifferenceKind.SAME
    assert answer_verdict(METADATA, 10, metadata(), metadata(error_code=3), Unchanged()) == (
        DifferenceKind.ERROR,
        (Difference("topics[t].error_code", "0", "3"),),
    )


def produced(code: int = 0, offset: int = 5, index: int = 0, topic: str = "t") -> Values:
    partition = {"index": index, "error_code": code, "base_offset": offset, "log_append_time_ms": -1}
    return {"responses": [{"name": topic, "partition_responses": [partition]}], "throttle_time_ms": 0}


def test_an_offset_must_be_the_targets_for_the_recorded_one() -> None:
    known = Pairs({(ValueKind.TOPIC_NAME, None, "t"): "p-t", (ValueKind.OFFSET, ("t", 0), 5): 105})
    assert answer_verdict(PRODUCE, 3, produced(), produced(offset=105, topic="p-t"), known).kind is DifferenceKind.SAME
    assert answer_verdict(PRODUCE, 3, produced(), produced(offset=5, topic="p-t"), known) == (
        DifferenceKind.VALUE,
        (Difference("responses[t].partition_responses[0].base_offset", "5 (here 105)", "5"),),
    )


def test_a_value_without_a_counterpart_must_be_there() -> None:
    known = Pairs({(ValueKind.TOPIC_NAME, None, "t"): "t"})
    assert answer_verdict(PRODUCE, 3, produced(), produced(offset=7), known).kind is DifferenceKind.SAME
    assert answer_verdict(PRODUCE, 3, produced(), produced(offset=-1), known).kind is DifferenceKind.VALUE


def test_records_that_only_the_recorded_cluster_refused_are_no_mismatch() -> None:
    assert answer_verdict(PRODUCE, 3, produced(6, -1), produced(), Unchanged()).kind is DifferenceKind.SAME
    assert answer_verdict(PRODUCE, 3, produced(), produced(46, -1), Unchanged()).kind is DifferenceKind.SAME


def test_an_element_of_one_side_alone_is_a_mismatch_of_structure() -> None:
    both = produced()
    both["responses"] += produced(topic="u", index=2)["responses"]
    here, there = Difference("responses[u]", "present", ""), Difference("responses[u]", "", "present")
    assert answer_verdict(PRODUCE, 3, both, produced(), Unchanged()) == (DifferenceKind.STRUCTURE, (here,))
    assert answer_verdict(PRODUCE, 3, produced(), both, Unchanged()) == (DifferenceKind.STRUCTURE, (there,))


def test_an_element_with_an_unmapped_name_matches_any_element_of_the_target() -> None:
    assert answer_verdict(PRODUCE, 3, produced(), produced(topic="p-t"), NoCounterparts()).kind is DifferenceKind.SAME


def test_partitions_that_were_not_sent_are_left_out_on_both_sides() -> None:
    both = produced(29, -1)
    both["responses"] += produced(topic="u", index=2)["responses"]
    dropped = [Dropped("t", 0, Reason.NO_PRODUCER)]
    rest = {"responses": both["responses"][1:], "throttle_time_ms": 0}
    for replayed in (rest, {**both, "responses": [*produced(3)["responses"], *rest["responses"]]}):
        assert answer_verdict(PRODUCE, 3, both, replayed, Unchanged(), dropped=dropped).kind is DifferenceKind.SAME
    assert answer_verdict(PRODUCE, 3, both, rest, Unchanged()).kind is DifferenceKind.STRUCTURE


def test_a_producer_is_its_id_and_epoch_together() -> None:
    recorded = {"error_code": 0, "producer_id": 7, "producer_epoch": 0}
    known = Pairs({(ValueKind.PRODUCER, None, (7, 0)): (4000, 2)})
    assert answer_verdict(
        INIT_PRODUCER_ID, 1, recorded, recorded | {"producer_id": 4000, "producer_epoch": 2}, known
    ).kind is (DifferenceKind.SAME)
    found = answer_verdict(INIT_PRODUCER_ID, 1, recorded, recorded | {"producer_id": 4000}, known)
    assert [one.path for one in found.differences] == ["producer_id"]


def joined(leader: str, *members: str) -> Values:
    listed = [{"member_id": member, "group_instance_id": None, "metadata": b""} for member in members]
    return {"error_code": 0, "generation_id": 3, "leader": leader, "member_id": "m1", "members": listed}


def test_members_are_compared_where_both_sides_elected_the_same_leader() -> None:
    assert (
        answer_verdict(JOIN_GROUP, 5, joined("m1", "m1", "m2"), joined("m2"), Unchanged()).kind is DifferenceKind.SAME
    )
    assert (
        answer_verdict(JOIN_GROUP, 5, joined("m1", "m1", "m2"), joined("m1", "m1"), Unchanged()).kind
        is DifferenceKind.STRUCTURE
    )


def test_an_assignment_has_the_targets_topics_and_members() -> None:
    def synced(topic: str) -> Values:
        values = {"assigned_partitions": [{"topic": topic, "partitions": [1, 0]}], "user_data": None}
        blob = embedded.encode_blob("ConsumerProtocolAssignment", 0, values)
        return {"error_code": 0, "protocol_type": "consumer", "protocol_name": "range", "assignment": blob}

    known = Pairs({(ValueKind.TOPIC_NAME, None, "t"): "p-t"})
    assert answer_verdict(SYNC_GROUP, 5, synced("t"), synced("p-t"), known).kind is DifferenceKind.SAME
    assert answer_verdict(SYNC_GROUP, 5, synced("t"), synced("t"), known).kind is DifferenceKind.VALUE


def described(*partitions: list[int]) -> Values:
    members = [
        {"member_id": f"m{at}", "assignment": {"topic_partitions": [{"topic_name": "t", "partitions": each}]}}
        for at, each in enumerate(partitions)
    ]
    return {"groups": [{"error_code": 0, "group_id": "g", "members": members}]}


def test_a_described_groups_members_must_have_the_same_together() -> None:
    assert (
        answer_verdict(CONSUMER_GROUP_DESCRIBE, 0, described([0, 1], [2]), described([2], [1, 0]), Unchanged()).kind
        is DifferenceKind.SAME
    )
    assert answer_verdict(CONSUMER_GROUP_DESCRIBE, 0, described([0, 1], [2]), described([2], [1]), Unchanged()) == (
        DifferenceKind.VALUE,
        (Difference("groups[g].members.assignment", '[["t", 0]]', "[]"),),
    )


def configs(resource: int, **config: Any) -> Values:
    one = {"name": "retention.ms", "value": "1", "config_source": 1, "read_only": False} | config
    return {"results": [{"error_code": 0, "resource_type": resource, "resource_name": "r", "configs": [one]}]}


def test_only_the_structure_of_a_brokers_settings_is_compared() -> None:
    assert (
        answer_verdict(DESCRIBE_CONFIGS, 4, configs(4), configs(4, value="2", name="x"), Unchanged()).kind
        is DifferenceKind.SAME
    )
    assert (
        answer_verdict(DESCRIBE_CONFIGS, 4, configs(2), configs(2, value="2"), Unchanged()).kind is DifferenceKind.VALUE
    )


def test_settings_that_a_topic_has_from_its_broker_are_the_brokers() -> None:
    default = {"config_source": 5}
    assert (
        answer_verdict(DESCRIBE_CONFIGS, 4, configs(2, **default), configs(2, value="2", **default), Unchanged()).kind
        is DifferenceKind.SAME
    )


def test_a_masked_setting_is_not_compared() -> None:
    assert (
        answer_verdict(DESCRIBE_CONFIGS, 4, configs(2, value="\0\0"), configs(2, value="7"), Unchanged()).kind
        is DifferenceKind.SAME
    )


def test_the_entries_of_a_listing_are_not_compared() -> None:
    listed = {"error_code": 0, "groups": [{"group_id": "g", "protocol_type": "consumer"}]}
    assert (
        answer_verdict(LIST_GROUPS, 2, listed, {"error_code": 0, "groups": []}, Unchanged()).kind is DifferenceKind.SAME
    )


def test_records_are_never_compared_answer_by_answer() -> None:
    def fetched(records: bytes | None) -> Values:
        return {
            "responses": [{"topic": "t", "partitions": [{"partition_index": 0, "error_code": 0, "records": records}]}]
        }

    assert answer_verdict(FETCH, 4, fetched(b"batch"), fetched(None), Unchanged()).kind is DifferenceKind.SAME


@pytest.mark.parametrize(("key", "version"), [(FETCH, 12), (SHARE_FETCH, 1)], ids=["Fetch", "ShareFetch"])
def test_unchanged_partitions_may_be_in_one_sides_answer_alone(key: int, version: int) -> None:
    def fetched(*codes: int) -> Values:
        found = [{"partition_index": at, "error_code": code, "records": b""} for at, code in enumerate(codes)]
        named: Values = {"topic": "t"} if key == FETCH else {"topic_id": b"1" * 16}
        return {"error_code": 0, "responses": [named | {"partitions": found}] if found else []}

    for one, other in ((fetched(), fetched(0)), (fetched(0, 0), fetched(0)), (fetched(0), fetched())):
        assert answer_verdict(key, version, one, other, Unchanged()).kind is DifferenceKind.SAME
    for one, other in ((fetched(), fetched(0, 1)), (fetched(0), fetched(0, 1)), (fetched(1), fetched())):
        assert answer_verdict(key, version, one, other, Unchanged()).kind is DifferenceKind.STRUCTURE


def test_a_field_that_the_targets_version_lacks_is_not_compared() -> None:
    recorded = {"error_code": 0, "throttle_time_ms": 0}
    assert answer_verdict(HEARTBEAT, 1, recorded, {"error_code": 0}, Unchanged()).kind is DifferenceKind.SAME


def test_null_where_something_was_is_a_mismatch_of_structure() -> None:
    topics = {"topics": [{"name": "t", "partitions": []}], "error_code": 0}
    assert (
        answer_verdict(OFFSET_FETCH, 2, topics, topics | {"topics": None}, Unchanged()).kind is DifferenceKind.STRUCTURE
    )


def test_a_verdicts_differences_are_bounded_in_number_and_size() -> None:
    recorded: dict[str, Any] = {
        "topics": [{"name": "x" * 5000, "partitions": [{"partition_index": at, "error_code": 0} for at in range(100)]}]
    }
    replayed = copy.deepcopy(recorded)
    for partition in replayed["topics"][0]["partitions"]:
        partition["error_code"] = 3
    found = answer_verdict(OFFSET_COMMIT, 2, recorded, replayed, Unchanged())
    assert len(found.differences) == MOST_DIFFERENCES
    texts = [text for one in found.differences for text in (one.path, one.recorded, one.replayed)]
    assert all(len(text) <= MOST_CHARACTERS for text in texts)


@given(response=responses, seeds=st.tuples(seeds, seeds))
def test_any_two_answers_have_a_verdict_that_can_be_sent_to_another_process(
    response: tuple[int, int], seeds: tuple[int, int]
) -> None:
    recorded, replayed = (a_response(*response, seed) for seed in seeds)
    found = answer_verdict(*response, recorded, replayed, NoCounterparts())
    assert pickle.loads(pickle.dumps(found)) == found
    assert pickle.loads(pickle.dumps(answer_verdict)) is answer_verdict


def test_a_nan_equals_only_another_nan() -> None:
    def quotas(value: float) -> Values:
        entity = [{"entity_type": "user", "entity_name": "u"}]
        return {"error_code": 0, "entries": [{"entity": entity, "values": [{"key": "rate", "value": value}]}]}

    no_number = float("nan")
    assert (
        answer_verdict(DESCRIBE_CLIENT_QUOTAS, 0, quotas(no_number), quotas(float("nan")), NoCounterparts()).kind
        is DifferenceKind.SAME
    )
    assert (
        answer_verdict(DESCRIBE_CLIENT_QUOTAS, 0, quotas(no_number), quotas(1.0), NoCounterparts()).kind
        is DifferenceKind.VALUE
    )


def test_a_group_that_one_side_could_not_describe_has_an_error_alone() -> None:
    refused = {"groups": [{"error_code": 69, "group_id": "g", "members": []}]}
    found = answer_verdict(CONSUMER_GROUP_DESCRIBE, 0, described([0, 1]), refused, Unchanged())
    assert [one.path for one in found.differences] == ["groups[g].error_code"]


def test_a_resource_is_met_by_its_name_on_the_target_which_its_type_decides() -> None:
    known = Pairs({(ValueKind.RESOURCE, 2, "r"): "p-r", (ValueKind.RESOURCE, 32, "r"): "r"})
    moved = configs(2)
    moved["results"][0]["resource_name"] = "p-r"
    assert answer_verdict(DESCRIBE_CONFIGS, 4, configs(2), moved, known).kind is DifferenceKind.SAME
    assert answer_verdict(DESCRIBE_CONFIGS, 4, configs(2), configs(2), known).kind is DifferenceKind.STRUCTURE


def test_a_member_is_met_by_its_id_in_its_own_group() -> None:
    def group(member: str, client: str) -> Values:
        members = [{"member_id": member, "client_id": client, "member_metadata": b"", "member_assignment": b""}]
        return {"groups": [{"error_code": 0, "group_id": "g", "members": members}]}

    known = Pairs({(ValueKind.GROUP, None, "g"): "g", (ValueKind.MEMBER, "g", "m1"): "m7"})
    assert answer_verdict(DESCRIBE_GROUPS, 1, group("m1", "c"), group("m7", "c"), known).kind is DifferenceKind.SAME
    assert answer_verdict(DESCRIBE_GROUPS, 1, group("m1", "c"), group("m7", "d"), known).kind is DifferenceKind.VALUE
    assert (
        answer_verdict(DESCRIBE_GROUPS, 1, group("m1", "c"), group("m1", "c"), known).kind is DifferenceKind.STRUCTURE
    )


def test_a_share_group_not_yet_begun_in_the_recording_may_have_begun_on_the_target() -> None:
    def offsets(start: int) -> Values:
        partition = {"partition_index": 0, "start_offset": start, "leader_epoch": 0, "lag": -1, "error_code": 0}
        topic = {"topic_name": "t", "topic_id": b"1" * 16, "partitions": [partition | {"error_message": None}]}
        group = {"group_id": "g", "topics": [topic], "error_code": 0, "error_message": None}
        return {"throttle_time_ms": 0, "groups": [group]}

    kinds = [
        answer_verdict(90, 1, offsets(here), offsets(there), Unchanged()).kind
        for here, there in ((-1, 0), (0, -1), (3, 4))
    ]
    assert kinds == [DifferenceKind.SAME, DifferenceKind.VALUE, DifferenceKind.VALUE]
