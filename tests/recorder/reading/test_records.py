"""Tests of records without an answer (acks=0): they get the offset of the fetched record that they must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recorder
from proxy.wire import records
from proxy.wire.keys import FETCH, PRODUCE
from recorder.reading.records import LogRecord
from tests.recorder.small_capture import Row, request, response, write


def sent(number: int, second: float, *values: bytes, acks: int = 0, base: int | None = None) -> list[Row]:
    """A Produce of these values, with an answer if `base` is given."""
    batch = records.write_batch([records.Record(at, 1000, b"k", value) for at, value in enumerate(values)])
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": batch}]}]
    facts: dict[str, Any] = {"client_id": "writer", "exchange": number}
    rows = [request(second, 1, 2 * number, PRODUCE, 9, values={"acks": acks, "topic_data": topics}, **facts)]
    if base is not None:
        told = [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": base}]}]
        rows += [response(second, 1, 2 * number + 1, PRODUCE, 9, values={"responses": told}, **facts)]
    return rows


def read(number: int, second: float, base: int, *values: bytes, key: bytes = b"k", time: int = 1000) -> list[Row]:
    """A Fetch that is answered with these values."""
    batch = records.write_batch([records.Record(base + at, time, key, value) for at, value in enumerate(values)])
    asked = [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": base}]}]
    held = {"partition_index": 0, "high_watermark": 99, "records": batch}
    told = [{"topic": "orders", "partitions": [held]}]
    facts: dict[str, Any] = {"client_id": "reader", "exchange": number}
    return [
        request(second, 2, 2 * number, FETCH, 11, values={"topics": asked}, **facts),
        response(second, 2, 2 * number + 1, FETCH, 11, values={"responses": told}, **facts),
    ]


def told(folder: Path, *rows: list[Row], where: str = "") -> list[tuple[int | None, bytes | None, bool, int]]:
    """Of each record its offset, its value, whether its Produce is known, and how often it was fetched."""
    write(folder, "frames", [row for some in rows for row in some])

    def line(one: LogRecord) -> tuple[int | None, bytes | None, bool, int]:
        return one.offset, one.value, one.produced is not None, len(one.fetched)

    return [line(one) for one in recorder.open(folder).records(where)]


def test_the_only_record_of_its_content_that_was_fetched_is_the_one_that_was_sent(tmp_path: Path) -> None:
    found = told(tmp_path, sent(0, 1, b"a", b"b"), read(0, 2, 40, b"a", b"b"), read(1, 3, 40, b"a", b"b"))
    assert found == [(40, b"a", True, 2), (41, b"b", True, 2)]


def test_who_sent_it_and_where_it_stands_are_told_by_a_filter_on_either(tmp_path: Path) -> None:
    rows = sent(0, 1, b"a"), read(0, 2, 40, b"a")
    assert told(tmp_path / "1", *rows, where="client == writer") == [(40, b"a", True, 1)]
    assert told(tmp_path / "2", *rows, where="client == reader") == [(40, b"a", True, 1)]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([sent(0, 1, b"a"), sent(1, 2, b"a"), read(0, 3, 40, b"a")], id="sent twice"),
        pytest.param([sent(0, 1, b"a"), read(0, 3, 40, b"a", b"a")], id="there twice"),
        pytest.param([sent(0, 1, b"a"), sent(1, 2, b"a", acks=1, base=40), read(0, 3, 40, b"a")], id="another's"),
        pytest.param([sent(0, 5, b"a"), read(0, 3, 40, b"a")], id="fetched before"),
        pytest.param([sent(0, 1, b"a"), read(0, 3, 40, b"b")], id="another value"),
        pytest.param([sent(0, 1, b"a"), read(0, 3, 40, b"a", key=b"l")], id="another key"),
        pytest.param([sent(0, 1, b"a"), read(0, 3, 40, b"a", time=1001)], id="another time"),
    ],
)
def test_what_may_be_another_record_gets_no_offset(tmp_path: Path, rows: list[list[Row]]) -> None:
    assert [one for one in told(tmp_path, *rows) if one[0] is None and one[2]]
