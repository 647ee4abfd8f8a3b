"""Tests of the parts of a request that the recorded cluster refused for a while."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from proxy.wire.error_codes import ERRORS
from proxy.wire.keys import (
    ADD_PARTITIONS_TO_TXN,
    ALTER_CONFIGS,
    CREATE_TOPICS,
    DELETE_GROUPS,
    DELETE_TOPICS,
    END_TXN,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    PRODUCE,
)
from proxy.wire.places import WHOLE
from recorder.replay.plan import Dropped, Exchange, Reason, Values
from recorder.replay.requests.refused_parts import ALL, refused_parts, remaining
from tests.recorder.replay.producers.producer_exchanges import PAIR, batch, produce, produce_answer
from tests.recorder.replay.simulated import exchange
from tests.tables import each_row


def produced(*codes: int, data: bytes | None = None) -> Exchange:
    """A recorded Produce to the partitions of a, with these errors."""
    entries = [("a", index, batch(b"%d" % index) if data is None else data) for index in range(len(codes))]
    told = [{"index": index, "error_code": code, "base_offset": -1} for index, code in enumerate(codes)]
    answer = {"throttle_time_ms": 0, "responses": [{"name": "a", "partition_responses": told}]}
    return exchange(1, PRODUCE, 9, produce(*entries), answer)


def answered(api_key: int, version: int, request: Values, answer: Values) -> Exchange:
    return exchange(1, api_key, version, request, answer)


def topics(names: Iterable[str]) -> list[Values]:
    rest: Values = {"num_partitions": 1, "replication_factor": 1, "configs": []}
    assignments = [{"partition_index": 0, "broker_ids": [1]}]
    return [{"name": name, "assignments": assignments} | rest for name in names]


@each_row("code", sorted(ERRORS))
def test_records_are_refused_for_a_while_by_errors_behind_which_none_are_in_the_log(code: int) -> None:
    is_refused = (ERRORS[code].retriable and code not in (2, 7, 20)) or code == 113
    assert refused_parts(produced(code, 0)) == ({("a", 0)} if is_refused else set())


@pytest.mark.parametrize("code", [45, 59])
def test_a_refused_sequence_is_a_part_and_a_plain_batch_is_none(code: int) -> None:
    assert refused_parts(produced(code, 0, data=batch(b"1", pair=PAIR, sequence=3))) == {("a", 0)}
    assert not refused_parts(produced(code, 0))


def test_without_an_answer_that_can_be_read_nothing_is_refused() -> None:
    unknown = produced(6)
    unknown.take_answer(1, None)
    assert not refused_parts(unknown)
    unknown.take_answer(1, b"\0")
    assert not refused_parts(unknown)


def test_what_is_left_of_a_request_has_its_other_parts_and_the_exchange_notes_the_refused_ones() -> None:
    one = produced(6, 0, 19)
    values = remaining(one, one.decoded(), refused_parts(one))
    assert values is not None
    assert [each["index"] for each in values["topic_data"][0]["partition_data"]] == [1]
    assert one.dropped == [Dropped("a", 0, Reason.REFUSED), Dropped("a", 2, Reason.REFUSED)]


def test_nothing_is_left_of_a_request_whose_parts_are_all_refused() -> None:
    one = produced(6, 19)
    assert remaining(one, one.decoded(), refused_parts(one)) is None


def test_a_request_about_one_group_is_refused_as_a_whole() -> None:
    request = {"group_id": "g", "session_timeout_ms": 1, "member_id": "", "protocol_type": "", "protocols": []}
    told = {"error_code": 16, "generation_id": -1, "protocol_name": "", "leader": "", "member_id": "", "members": []}
    one = answered(JOIN_GROUP, 0, request, told)
    assert refused_parts(one) == {ALL}
    assert remaining(one, one.decoded(), {ALL}) is None
    assert not refused_parts(answered(JOIN_GROUP, 0, request, told | {"error_code": 27}))


def test_of_several_groups_one_may_be_refused() -> None:
    told = [{"group_id": name, "error_code": code} for name, code in (("g", 16), ("h", 0))]
    one = answered(DELETE_GROUPS, 0, {"groups_names": ["g", "h"]}, {"results": told})
    values = remaining(one, one.decoded(), refused_parts(one))
    assert values is not None
    assert values["groups_names"] == ["h"]
    assert one.dropped == [Dropped("g", WHOLE, Reason.REFUSED)]


def test_of_several_topics_one_may_be_refused_with_all_that_it_has() -> None:
    request = {"topics": topics("ab"), "timeout_ms": 1, "validate_only": False}
    told = {"topics": [{"name": "a", "error_code": 89}, {"name": "b", "error_code": 0}]}
    one = answered(CREATE_TOPICS, 4, request, told)
    values = remaining(one, one.decoded(), refused_parts(one))
    assert values is not None
    assert [each["name"] for each in values["topics"]] == ["b"]


def test_bare_names_are_parts_too() -> None:
    told = {"responses": [{"name": "a", "error_code": 41}, {"name": "b", "error_code": 0}]}
    one = answered(DELETE_TOPICS, 3, {"topic_names": ["a", "b"], "timeout_ms": 1}, told)
    values = remaining(one, one.decoded(), refused_parts(one))
    assert values is not None
    assert values["topic_names"] == ["b"]


def joined(*codes: int) -> Exchange:
    """A recorded AddPartitionsToTxn with these errors of partitions."""
    asked = {"v3_and_below_transactional_id": "t", "v3_and_below_producer_id": 5, "v3_and_below_producer_epoch": 0}
    asked |= {"v3_and_below_topics": [{"name": "a", "partitions": [*range(len(codes))]}]}
    told = [{"partition_index": index, "partition_error_code": code} for index, code in enumerate(codes)]
    answer = {"results_by_topic_v3_and_below": [{"name": "a", "results_by_partition": told}]}
    return answered(ADD_PARTITIONS_TO_TXN, 3, asked, {"throttle_time_ms": 0} | answer)


def test_what_a_cluster_did_not_attempt_beside_a_refused_part_is_refused_too() -> None:
    one = joined(55, 3, 55)
    assert remaining(one, one.decoded(), refused_parts(one)) is None
    # nobody asks again after a refusal for good
    assert not refused_parts(joined(55, 29))


@pytest.mark.parametrize("code", [14, 15, 16, 51])
def test_a_step_of_a_transaction_is_refused_as_a_whole(code: int) -> None:
    ended = {"transactional_id": "t", "producer_id": 5, "producer_epoch": 0, "committed": True}
    begun = {"transactional_id": "t", "transaction_timeout_ms": 1}
    none = {"throttle_time_ms": 0, "error_code": code}
    assert refused_parts(answered(END_TXN, 3, ended, none)) == {ALL}
    assert refused_parts(answered(INIT_PRODUCER_ID, 1, begun, none)) == {ALL}
    one = joined(code, code)
    assert remaining(one, one.decoded(), refused_parts(one)) is None


def test_elements_without_a_key_are_refused_together_or_not_at_all() -> None:
    def altered(*codes: int) -> Exchange:
        asked = [{"resource_type": 2, "resource_name": name, "configs": []} for name in "ab"]
        told = [
            {"error_code": code, "error_message": None, "resource_type": 2, "resource_name": name}
            for code, name in zip(codes, "ab", strict=True)
        ]
        return answered(ALTER_CONFIGS, 1, {"resources": asked, "validate_only": False}, {"responses": told})

    assert refused_parts(altered(41, 41)) == {ALL}
    assert not refused_parts(altered(41, 0))


def test_a_member_that_is_unknown_leaves_with_the_others() -> None:
    members = [{"member_id": name, "group_instance_id": None} for name in "mn"]
    told = [each | {"error_code": code} for each, code in zip(members, (25, 0), strict=True)]
    left_now = {"throttle_time_ms": 0, "error_code": 0, "members": told}
    assert not refused_parts(answered(LEAVE_GROUP, 4, {"group_id": "g", "members": members}, left_now))


def test_a_commit_is_refused_by_partition() -> None:
    entries = [{"partition_index": index, "committed_offset": 3, "committed_metadata": None} for index in (0, 1)]
    values = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1}
    told = [{"partition_index": index, "error_code": code} for index, code in ((0, 3), (1, 0))]
    one = answered(
        OFFSET_COMMIT,
        2,
        values | {"topics": [{"name": "a", "partitions": entries}]},
        {"topics": [{"name": "a", "partitions": told}]},
    )
    assert refused_parts(one) == {("a", 0)}


def test_an_answer_that_names_other_parts_refuses_none_of_the_request() -> None:
    one = exchange(1, PRODUCE, 9, produce(("a", 0, batch(b"1"))), produce_answer(6, ("b", 0)))
    assert remaining(one, one.decoded(), refused_parts(one)) == one.decoded()
    assert not one.dropped
