"""Tests of waits as responses show them: a response with data before the log's end did not wait, in any version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import apis, catalog, records
from proxy.wire.budget import Budget
from proxy.wire.keys import FETCH, JOIN_GROUP, SHARE_FETCH, SYNC_GROUP
from proxy.wire.long_polls import LONG_POLLS, Wait, allowed_ms, waited
from tests.tables import each_row

BATCH = records.write_batch([records.Record(5, key=b"k", value=b"v"), records.Record(6)])
END = 7
FETCH_VERSIONS = apis.versions(FETCH)


def fetched(version: int, *partitions: dict[str, Any], **top: Any) -> bytes:
    usual = {"partition_index": 0, "high_watermark": END, "last_stable_offset": END, "aborted_transactions": None}
    topics = [{"topic": "t", "partitions": [usual | partition for partition in partitions]}]
    return catalog.encode_response(FETCH, version, 1, {"responses": topics, **top})


def test_an_answer_that_takes_more_than_its_budget_is_not_read() -> None:
    aborted = [{"producer_id": 1, "first_offset": 0}] * 1000
    frame = fetched(12, {"records": BATCH, "last_stable_offset": END + 1, "aborted_transactions": aborted})
    assert waited(frame, FETCH, 12) is Wait.FULL
    assert waited(frame, FETCH, 12, budget=Budget(100_000)) is Wait.INCLUDES_WAIT


@each_row("version", FETCH_VERSIONS)
def test_a_fetchs_wait_is_known_from_where_its_data_ends_in_any_version(version: int) -> None:
    def told(*partitions: dict[str, Any]) -> Wait:
        return waited(fetched(version, *partitions), FETCH, version)

    assert told({"records": BATCH, "high_watermark": END + 1}) is Wait.FULL
    assert told({"records": BATCH}) is Wait.TAIL
    assert told({"records": BATCH + BATCH[:20]}) is Wait.FULL
    assert told({"records": b""}) is Wait.EMPTY
    assert told({"records": None, "error_code": 6}) is Wait.ERROR
    assert told() is Wait.EMPTY


def test_a_fetch_with_more_data_in_one_partition_did_not_wait() -> None:
    frame = fetched(12, {"error_code": 6, "records": None}, {"records": BATCH}, {"records": BATCH, "high_watermark": 9})
    assert waited(frame, FETCH, 12) is Wait.FULL


@each_row("version", [version for version in FETCH_VERSIONS if version >= 4])
def test_a_read_committed_fetch_ends_at_the_last_stable_offset(version: int) -> None:
    open_transaction = {"records": BATCH, "high_watermark": END + 50}
    assert waited(fetched(version, open_transaction | {"aborted_transactions": []}), FETCH, version) is Wait.TAIL
    assert waited(fetched(version, open_transaction), FETCH, version) is Wait.FULL


def test_a_last_stable_offset_that_the_broker_does_not_know_says_nothing() -> None:
    partition = {"records": BATCH, "last_stable_offset": -1, "aborted_transactions": []}
    assert waited(fetched(12, partition), FETCH, 12) is Wait.TAIL
    assert waited(fetched(12, partition | {"high_watermark": 99}), FETCH, 12) is Wait.FULL


def test_message_sets_of_magic_0_and_1_are_shown_like_batches() -> None:
    data = records.write_message_set([records.Record(5, value=b"v"), records.Record(6, value=b"w")], magic=1)
    assert waited(fetched(2, {"records": data}), FETCH, 2) is Wait.TAIL
    assert waited(fetched(2, {"records": data, "high_watermark": 99}), FETCH, 2) is Wait.FULL


def test_an_error_of_the_whole_answer_is_one() -> None:
    assert waited(fetched(12, error_code=70), FETCH, 12) is Wait.ERROR


@pytest.mark.parametrize("version", apis.versions(SHARE_FETCH))
def test_a_share_fetchs_wait_is_known_only_from_records_and_errors(version: int) -> None:
    def told(**partition: Any) -> Wait:
        frame = catalog.encode_response(SHARE_FETCH, version, 1, {"responses": [{"partitions": [partition]}]})
        return waited(frame, SHARE_FETCH, version)

    assert [told(records=BATCH), told(records=b""), told(error_code=6)] == [Wait.TAIL, Wait.EMPTY, Wait.ERROR]


@pytest.mark.parametrize("key", [JOIN_GROUP, SYNC_GROUP])
def test_members_of_a_group_wait_for_each_other_whatever_the_answer_is(key: int) -> None:
    assert waited(b"", key, None) is Wait.MEMBERS


@pytest.mark.parametrize(("frame", "version"), [(b"\0\0", 12), (b"\0\0\0\1", 999), (b"\0\0\0\1", None)], ids=range(3))
def test_an_unreadable_response_may_have_waited(frame: bytes, version: int | None) -> None:
    assert waited(frame, FETCH, version) is Wait.INCLUDES_WAIT


def test_records_that_are_damaged_may_have_been_waited_for() -> None:
    assert waited(fetched(12, {"records": b"\0" * 40}), FETCH, 12) is Wait.INCLUDES_WAIT


@each_row(
    ("key", "version", "values", "allowed"),
    [
        (FETCH, 4, {"max_wait_ms": 500}, 500),
        (SHARE_FETCH, 1, {"max_wait_ms": 300}, 300),
        (JOIN_GROUP, 0, {"session_timeout_ms": 10_000}, 10_000),
        (JOIN_GROUP, 9, {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 300_000}, 300_000),
        (SYNC_GROUP, 5, {}, None),
    ],
    ids=range(5),
)
def test_a_request_says_how_long_it_may_wait(key: int, version: int, values: dict[str, int], allowed: int) -> None:
    assert allowed_ms(catalog.encode_request(key, version, 1, "c", values), key, version) == allowed
    assert allowed_ms(b"\0", key, version) is None
    assert allowed_ms(b"\0", key, None) is None


@given(st.binary(max_size=80), st.sampled_from(LONG_POLLS), st.integers(-1, 20))
def test_no_bytes_break_it(data: bytes, key: int, version: int) -> None:
    assert waited(data, key, version) in Wait
    assert allowed_ms(data, key, version) is None or key in LONG_POLLS


def test_only_a_fetch_that_stops_before_the_logs_end_is_work_alone() -> None:
    assert [wait for wait in Wait if wait.is_work] == [Wait.FULL]
