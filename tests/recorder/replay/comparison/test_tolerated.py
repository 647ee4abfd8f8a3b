"""Tests of error codes that differ but mean the same."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import (
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    DESCRIBE_TRANSACTIONS,
    HEARTBEAT,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    TXN_OFFSET_COMMIT,
)
from recorder.replay.comparison.compare import answer_verdict
from recorder.replay.comparison.tolerated import are_alike
from recorder.replay.mapping import ValueKind
from recorder.replay.plan import Values
from tests.tables import each_row

CODES = st.integers(-1, 140)


class Same:
    """A mapping of two clusters with the same values."""

    same: frozenset[ValueKind] = frozenset(ValueKind)

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable:
        return recorded


@given(api_key=st.integers(0, 94), code=CODES)
def test_equal_codes_are_alike(api_key: int, code: int) -> None:
    assert are_alike(api_key, code, code)


@given(recorded=CODES)
def test_records_that_the_recorded_cluster_refused_may_be_taken(recorded: int) -> None:
    assert are_alike(PRODUCE, recorded, 0)


def test_records_that_the_target_has_already_are_taken() -> None:
    assert are_alike(PRODUCE, 0, 46)
    assert not are_alike(PRODUCE, 0, 45)


@each_row("api_key", [SHARE_FETCH, SHARE_ACKNOWLEDGE])
def test_the_lock_of_acquired_records_may_run_out_on_the_target_alone(api_key: int) -> None:
    assert are_alike(api_key, 0, 121)
    assert not are_alike(api_key, 0, 122)


@each_row("recorded", [5, 6, 14, 15, 16, 27, 79])
def test_a_passing_error_need_not_occur_on_the_target(recorded: int) -> None:
    assert are_alike(METADATA, recorded, 0)
    assert not are_alike(METADATA, 0, recorded)


def test_a_refusal_for_good_must_be_one_again() -> None:
    assert not are_alike(CREATE_TOPICS, 36, 0)
    assert not are_alike(METADATA, 29, 0)


def test_a_heartbeat_hears_of_a_rebalance_sooner_or_later() -> None:
    assert are_alike(HEARTBEAT, 0, 27)
    assert are_alike(HEARTBEAT, 27, 0)
    assert not are_alike(OFFSET_COMMIT, 0, 27)


@pytest.mark.parametrize("api_key", [OFFSET_COMMIT, TXN_OFFSET_COMMIT])
def test_a_commit_that_a_rebalance_refused_in_the_recording_alone_has_left_an_offset_on_the_target(
    api_key: int,
) -> None:
    assert not are_alike(api_key, 27, 0)
    assert are_alike(api_key, 14, 0)


@given(recorded=CODES, target=CODES)
def test_different_errors_are_alike_only_in_listed_cases(recorded: int, target: int) -> None:
    assert are_alike(PRODUCE, recorded, target) == (recorded == target or target == 0 or (recorded, target) == (0, 46))


@each_row(
    ("recorded", "target", "alike"),
    [
        ("PrepareCommit", "CompleteCommit", True),
        ("PrepareAbort", "CompleteAbort", True),
        ("PrepareCommit", "CompleteAbort", False),
        ("CompleteCommit", "PrepareCommit", False),
        ("Ongoing", "CompleteCommit", False),
    ],
)
def test_a_transaction_that_was_ending_may_have_ended(recorded: str, target: str, alike: bool) -> None:
    def answer(state: str) -> Values:
        topics = [{"topic": "a", "partitions": [0]}] if state.startswith("Prepare") else []
        one = {"transactional_id": "t", "transaction_state": state, "error_code": 0, "topics": topics}
        return {"transaction_states": [one]}

    found = answer_verdict(DESCRIBE_TRANSACTIONS, 0, answer(recorded), answer(target), Same())
    assert found.kind.is_mismatch is not alike


@each_row(
    ("recorded", "target", "alike"),
    [
        # a member that left while its join waited is told no id, one that the cluster does not know its own
        ((25, ""), (0, "m"), True),
        ((25, "m"), (0, "m"), False),
        ((25, ""), (27, "m"), False),
        ((0, "m"), (25, ""), False),
    ],
)
def test_a_join_may_be_answered_before_its_member_left(
    recorded: tuple[int, str], target: tuple[int, str], alike: bool
) -> None:
    def answer(error: int, member: str) -> Values:
        told = {"generation_id": 1, "protocol_name": "range", "leader": "m", "members": []}
        return told | {"error_code": error, "member_id": member}

    found = answer_verdict(JOIN_GROUP, 2, answer(*recorded), answer(*target), Same())
    assert found.kind.is_mismatch is not alike


@each_row(
    ("recorded", "target", "alike"),
    [
        ("Stable", "PreparingRebalance", True),
        ("CompletingRebalance", "Stable", True),
        ("PreparingRebalance", "PreparingRebalance", True),
        ("Stable", "Stable", False),
        ("Stable", "Empty", False),
    ],
)
def test_a_group_in_a_rebalance_has_the_members_and_the_protocol_of_the_moment(
    recorded: str, target: str, alike: bool
) -> None:
    def answer(state: str, protocol: str) -> Values:
        one = {"error_code": 0, "group_id": "g", "group_state": state, "protocol_type": "consumer", "members": []}
        return {"groups": [one | {"protocol_data": protocol}]}

    found = answer_verdict(DESCRIBE_GROUPS, 2, answer(recorded, "range"), answer(target, ""), Same())
    assert found.kind.is_mismatch is not alike
