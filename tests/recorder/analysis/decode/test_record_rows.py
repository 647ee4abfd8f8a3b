"""Tests of records as rows, and of their transactions' outcomes, as a consumer gets them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.records import Compression, ControlType, Record
from recorder.analysis.decode.record_rows import RECORDS
from recorder.facts.batches import BATCHES
from tests.proxy.wire.records.samples import record_lists
from tests.recorder.facts.frames import Row, own, request, response, rows
from tests.tables import each_row

COMMITTED, ABORTED, OPEN, UNKNOWN = "committed", "aborted", "open", "unknown"


def fetched(data: bytes, **partition: Any) -> Row:
    partitions = [{"partition_index": 0, "records": data, **partition}]
    return response(1, 12, {"responses": [{"topic": "t", "partitions": partitions}]})


def data_of(producer: int, first: int, count: int = 2) -> bytes:
    """Returns a transaction's batch."""
    found = [Record(first + number, 1000, value=b"v") for number in range(count)]
    return records.write_batch(found, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)


def end(producer: int, offset: int, kind: ControlType) -> bytes:
    return records.end_marker_batch(
        kind, offset=offset, timestamp=1000, producer_id=producer, producer_epoch=0, coordinator_epoch=0
    )


def fates(row: Row) -> list[tuple[int, str | None]]:
    return [(one["offset"], one["transaction"]) for one in rows(RECORDS, row) if one["control"] is None]


@each_row("codec", [one for one in Compression if one is not Compression.UNKNOWN], ids=lambda one: one.value)
@given(found=record_lists(smallest=1))
def test_records_are_rows_whatever_their_codec(codec: Compression, found: list[Record]) -> None:
    made = rows(RECORDS, fetched(records.write_batch(found, codec=codec)))
    assert [
        (row["offset"], row["key"], row["value"], tuple((one["name"], one["value"]) for one in row["headers"]))
        for row in made
    ] == [(one.offset, one.key, one.value, one.headers) for one in found]
    assert [row["timestamp_ms"] for row in made] == [None if one.timestamp < 0 else one.timestamp for one in found]
    assert {row["codec"] for row in made} == {codec.value}


@given(found=record_lists(headers=False, smallest=1, tame=True), magic=st.sampled_from([0, 1]))
def test_messages_of_old_formats_are_rows(found: list[Record], magic: int) -> None:
    data = records.write_message_set(found, magic=magic)
    made = rows(RECORDS, fetched(data))
    assert [(row["offset"], row["key"], row["value"]) for row in made] == [
        (one.offset, one.key, one.value) for one in found
    ]
    assert [row["records"] for row in rows(BATCHES, fetched(data))] == [1] * len(found)


def test_a_tombstone_has_no_value() -> None:
    (row,) = own(RECORDS, fetched(records.write_batch([Record(1, 1000, key=b"k")])))
    assert "value" not in row
    assert row["key"] == b"k"


def test_the_batch_that_an_answer_cuts_off_has_no_row() -> None:
    whole = records.write_batch([Record(1, value=b"a")])
    cut = records.write_batch([Record(2, value=b"b" * 100)])[:-9]
    assert [row["offset"] for row in own(RECORDS, fetched(whole + cut))] == [1]
    assert [row["last_offset"] for row in own(BATCHES, fetched(whole + cut))] == [1]


def test_a_damaged_batch_is_a_row_with_its_reason_and_the_next_one_is_read() -> None:
    first, second = (records.write_batch([Record(number, value=b"abc")]) for number in (1, 2))
    found = own(RECORDS, fetched(first[:-3] + b"?" + first[-2:] + second))
    assert [row.get("unread") for row in found] == ["bad_crc", None]
    assert [row.get("offset") for row in found] == [None, 2]
    assert {row["topic"] for row in found} == {"t"}


def test_a_bomb_is_a_row_with_its_reason() -> None:
    bomb = records.write_batch([Record(1, value=bytes(80 << 20))], codec=Compression.ZSTD)
    assert len(bomb) < 100_000
    (row,) = own(RECORDS, fetched(bomb))
    assert row["unread"] == "too_large"


def test_a_batch_of_a_missing_codec_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    data = records.write_batch([Record(1, value=b"v" * 200)], codec=Compression.ZSTD)
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    found = own(RECORDS, fetched(data))
    assert [row.get("unread") for row in found] == ["no_codec"]


def test_a_producers_records_are_rows_with_unknown_transaction_outcomes() -> None:
    values = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": data_of(5, 0)}]}]}
    found = rows(RECORDS, request(0, 9, values))
    assert [(row["offset"], row["producer_id"], row["transaction"]) for row in found] == [
        (0, 5, UNKNOWN),
        (1, 5, UNKNOWN),
    ]


def test_a_read_committed_answer_names_the_aborted_transactions() -> None:
    """Two producers write at once; the first one aborts, then commits."""
    data = (
        data_of(1, 0)
        + data_of(2, 2)
        + end(1, 4, ControlType.ABORT)
        + data_of(1, 5)
        + end(1, 7, ControlType.COMMIT)
        + end(2, 8, ControlType.COMMIT)
    )
    gone = [{"producer_id": 1, "first_offset": 0}]
    found = fates(fetched(data, aborted_transactions=gone, last_stable_offset=9))
    assert found == [(0, ABORTED), (1, ABORTED), (2, COMMITTED), (3, COMMITTED), (5, COMMITTED), (6, COMMITTED)]


def test_an_aborted_transaction_that_began_before_the_answer_is_aborted_in_it() -> None:
    gone = [{"producer_id": 1, "first_offset": 3}]
    assert fates(fetched(data_of(1, 10), aborted_transactions=gone)) == [(10, ABORTED), (11, ABORTED)]


def test_any_other_reader_learns_it_from_the_next_marker() -> None:
    data = data_of(1, 0) + end(1, 2, ControlType.ABORT) + data_of(1, 3) + end(1, 5, ControlType.COMMIT) + data_of(1, 6)
    found = fates(fetched(data, aborted_transactions=None, last_stable_offset=6))
    assert found == [(0, ABORTED), (1, ABORTED), (3, COMMITTED), (4, COMMITTED), (6, OPEN), (7, OPEN)]


def test_a_transaction_without_a_marker_is_unknown() -> None:
    assert fates(fetched(data_of(1, 0), aborted_transactions=None, last_stable_offset=50)) == [
        (0, UNKNOWN),
        (1, UNKNOWN),
    ]


def test_records_without_a_transaction_have_none_among_those_that_have_one() -> None:
    data = records.write_batch([Record(0, value=b"v")]) + data_of(1, 1) + end(1, 3, ControlType.COMMIT)
    found = fates(fetched(data, aborted_transactions=[]))
    assert found == [(0, None), (1, COMMITTED), (2, COMMITTED)]


def test_a_batch_tells_its_header() -> None:
    (batch,) = own(BATCHES, fetched(data_of(7, 40, 3)))
    told = {"base_offset": 40, "last_offset": 42, "records": 3, "magic": 2, "codec": "none", "producer_id": 7}
    assert {name: batch[name] for name in told} == told
    assert (batch["is_transactional"], batch["is_control"], batch["producer_epoch"]) == (True, False, 0)
