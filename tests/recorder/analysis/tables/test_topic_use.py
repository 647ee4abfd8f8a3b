"""Tests of the clients that write and read each topic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from proxy.wire import records
from recorder.analysis.bodies import rows
from recorder.analysis.tables.produced import not_written, written_only
from recorder.analysis.tables.topic_use import TOPIC_USE, topic_use
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.facts.frames import request, response

pytestmark = pytest.mark.real
Build = Callable[..., Any]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ID = bytes(range(16))
BATCH = records.write_batch([records.Record(0, value=b"a"), records.Record(1, value=b"b")])


@pytest.fixture
def made(request_row: Build) -> Build:
    """A frame of `decode.frames` as a capture's row."""
    return lambda row, **other: request_row(0) | row | other


def batch_of(producer: int, sequence: int, size: int = 2) -> bytes:
    """The batch of a producer with an id."""
    rows = [records.Record(at, value=b"v") for at in range(size)]
    return records.write_batch(rows, producer_id=producer, producer_epoch=0, base_sequence=sequence)


def produced(*partitions: int, data: bytes = BATCH, acks: int = -1) -> dict[str, Any]:
    parts = [{"index": number, "records": data} for number in partitions]
    return request(0, 9, {"acks": acks, "topic_data": [{"name": "t", "partition_data": parts}]})


def told(*codes: tuple[int, int], offset: int = 0) -> dict[str, Any]:
    """The answer to Produce: the code of each partition."""
    parts = [{"index": number, "error_code": code, "base_offset": -1 if code else offset} for number, code in codes]
    return response(0, 9, {"responses": [{"name": "t", "partition_responses": parts}]})


def fetched(data: bytes) -> dict[str, Any]:
    return response(1, 12, {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": data}]}]})


def committed(group: str) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 2}
    return request(8, 7, {"group_id": group, "topics": [{"name": "t", "partitions": [partition]}]})


def refused_commit() -> dict[str, Any]:
    partition = {"partition_index": 0, "error_code": 30}
    return response(8, 7, {"topics": [{"name": "t", "partitions": [partition]}]})


def test_writers_and_readers_have_rows_and_their_sums(captured: Build, made: Build) -> None:
    writer, reader = {"client": "10.0.0.1:1", "client_id": "w"}, {"client": "10.0.0.2:1", "client_id": "r"}
    rows = [
        made(produced(0, 1), **writer),
        made(told((0, 0), (1, 0)), **writer),
        made(produced(1), exchange=1, **writer),
        made(told((1, 0)), exchange=1, **writer),
        made(fetched(BATCH), **reader),
        made(committed("g"), **reader),
    ]
    found = topic_use(captured(*rows))
    assert found.columns == TOPIC_USE.names
    rows_ = sorted((row.use, row.host, row.group_id, row.partitions, row.records, row.bytes) for row in found.collect())
    size = len(BATCH)
    assert rows_ == [("reads", "10.0.0.2", "g", 1, 2, size), ("writes", "10.0.0.1", None, 2, 6, 3 * size)]


def test_an_answer_without_records_is_no_reading(captured: Build, made: Build) -> None:
    assert topic_use(captured(made(fetched(b"")))).collect() == []


def test_a_member_of_a_share_group_has_the_group_that_its_requests_name(captured: Build, made: Build) -> None:
    topic = {"topic_id": ID, "partitions": [{"partition_index": 0}]}
    asked = request(78, 1, {"group_id": "g", "member_id": "m", "topics": [topic]})
    data = {"partition_index": 0, "records": BATCH}
    told = response(78, 1, {"responses": [{"topic_id": ID, "partitions": [data]}]})
    names = response(3, 12, {"topics": [{"name": "t", "topic_id": ID, "partitions": []}]})
    rows = [made(row, cluster="main") for row in (asked, told, names)]
    assert [(row.topic, row.use, row.group_id) for row in topic_use(captured(*rows)).collect()] == [("t", "reads", "g")]


def test_a_reader_of_two_groups_has_none(captured: Build, made: Build) -> None:
    rows = [made(fetched(BATCH)), made(committed("g")), made(committed("h"))]
    assert [row.group_id for row in topic_use(captured(*rows)).collect()] == [None]


def test_a_refused_commit_tells_no_group(captured: Build, made: Build) -> None:
    rows = [made(fetched(BATCH)), made(committed("g"), exchange=1), made(committed("h"), exchange=2)]
    rows.append(made(refused_commit(), exchange=2))
    assert [row.group_id for row in topic_use(captured(*rows)).collect()] == ["g"]


# what clients send: (request, answer or None), one after the other
WRITES: dict[str, list[tuple[dict[str, Any], dict[str, Any] | None]]] = {
    # 4 records are accepted, 2 are not, in one request
    "partly": [(produced(0, 1, 2), told((0, 0), (1, 10), (2, 0)))],
    "all refused": [(produced(0), told((0, 19)))] * 3,
    # refused twice, then accepted
    "tries again": [(produced(0), told((0, 6)))] * 2 + [(produced(0), told((0, 0)))],
    # the broker knows a repeated batch: it tells its first offset, or that it is a duplicate
    "known": [
        (produced(0, data=batch_of(7, 0)), told((0, 0), offset=5)),
        (produced(0, data=batch_of(7, 0)), told((0, 0), offset=5)),
        (produced(0, data=batch_of(7, 0)), told((0, 46))),
        (produced(0, data=batch_of(7, 2)), told((0, 0), offset=7)),
    ],
    # the first answer was lost
    "unheard": [
        (produced(0, data=batch_of(8, 0)), None),
        (produced(0, data=batch_of(8, 0)), told((0, 0), offset=5)),
        (produced(0, data=batch_of(8, 2)), None),
        (produced(0, data=batch_of(8, 2)), None),
    ],
    # without an id a broker stores each
    "stored twice": [(produced(0), told((0, 0), offset=5)), (produced(0), told((0, 0), offset=7))],
    "same sequence, two offsets": [
        (produced(0, data=batch_of(9, 0)), told((0, 0), offset=5)),
        (produced(0, data=batch_of(9, 0)), told((0, 0), offset=7)),
    ],
    "waits for none": [(produced(0, acks=0), None)] * 3,
}
RESULTS = ("records", "refused_records", "retried_records", "unanswered_records")


@pytest.fixture(scope="module")
def sent(captured_once: Build) -> Any:
    """A capture of WRITES."""
    rows, number = [], 0
    for client, exchanges in WRITES.items():
        for asked, answer in exchanges:
            number += 1
            head = {"client": "10.0.0.1:1", "client_id": client, "cluster": "main", "exchange": number}
            head |= {"at": NOON + timedelta(seconds=number), "made_by": "client", "correlation_id": number}
            rows += [row | head for row in (asked, answer) if row]
    return captured_once(*rows)


@pytest.fixture(scope="module")
def written(sent: Any) -> dict[str, Any]:
    """The use of the topic by each client of WRITES."""
    return {row.client_id: row for row in topic_use(sent).collect()}


@pytest.mark.parametrize(
    ("client", "counts"),
    [
        ("partly", (4, 2, 0, 0)),
        ("all refused", (0, 6, 0, 0)),
        ("tries again", (2, 4, 0, 0)),
        ("known", (4, 0, 4, 0)),
        ("unheard", (2, 0, 4, 2)),
        ("stored twice", (4, 0, 0, 0)),
        ("same sequence, two offsets", (4, 0, 0, 0)),
        ("waits for none", (0, 0, 0, 6)),
    ],
)
def test_accepted_refused_retried_and_unanswered_records_are_told_apart(
    written: dict[str, Any], client: str, counts: tuple[int, ...]
) -> None:
    row = written[client]
    assert tuple(row[name] for name in RESULTS) == counts
    assert row.partitions == {"partly": 2, "all refused": 0}.get(client, 1)
    sizes = [row[name.replace("records", "bytes")] for name in RESULTS]
    assert [bool(size) for size in sizes] == [bool(one) for one in counts]


def test_partitions_that_were_refused_or_written_already_are_left_out_of_tables_of_frames(sent: Any) -> None:
    asked = rows(sent, TOPIC_PARTITIONS).filter("side = 'request'")
    left = written_only(asked, not_written(sent)).groupBy("client_id").count().collect()
    assert {row.client_id: row["count"] for row in left} == {
        "partly": 2,
        "tries again": 1,
        "known": 2,
        "unheard": 2,
        "stored twice": 2,
        "same sequence, two offsets": 2,
        "waits for none": 3,
    }
