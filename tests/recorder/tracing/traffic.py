"""Exchanges whose records carry trace contexts, as rows of a capture and as pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recorder
from proxy.wire import records
from proxy.wire.keys import FETCH, METADATA, OFFSET_COMMIT, PRODUCE
from recorder.reading.exchanges import Pair
from recorder.reading.rows import all_bodies
from tests.recorder.small_capture import Row, request, response, write

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
OTHER = "00-11112222333344445555666677778888-aaaabbbbccccdddd-00"
Header = tuple[str, bytes | None]


def batch(headers: Sequence[Sequence[Header]], base: int = 0, **codec: Any) -> bytes:
    """A batch of records with these headers each."""
    return records.write_batch(
        [records.Record(base + at, 1000, b"k", b"v", tuple(own)) for at, own in enumerate(headers)], **codec
    )


def traced(*traceparents: str) -> list[list[Header]]:
    """The headers of records, one for each of these."""
    return [[("traceparent", each.encode())] for each in traceparents]


def produce(*partitions: bytes, topic: str = "orders", base: int = 40, error: int = 0, **facts: Any) -> list[Row]:
    """A Produce of a batch for each partition, and its answer."""
    data = [{"index": at, "records": each} for at, each in enumerate(partitions)]
    told = [{"index": at, "base_offset": base, "error_code": error} for at in range(len(partitions))]
    return [
        request(
            0, 1, 0, PRODUCE, 9, values={"acks": 1, "topic_data": [{"name": topic, "partition_data": data}]}, **facts
        ),
        response(1, 1, 1, PRODUCE, 9, values={"responses": [{"name": topic, "partition_responses": told}]}, **facts),
    ]


def fetch(*partitions: bytes, offset: int = 7) -> list[Row]:
    """A Fetch of these batches; a further partition has nothing new."""
    numbers = range(len(partitions) + 1)
    asked = [{"topic": "orders", "partitions": [{"partition": at, "fetch_offset": offset} for at in numbers]}]
    held = [{"partition_index": at, "records": each} for at, each in zip(numbers, [*partitions, b""], strict=True)]
    return [
        request(0, 1, 0, FETCH, 11, values={"topics": asked}),
        response(1, 1, 1, FETCH, 11, values={"responses": [{"topic": "orders", "partitions": held}]}),
    ]


def commit(group: str, offset: int) -> list[Row]:
    """An OffsetCommit of one partition."""
    asked = [{"name": "orders", "partitions": [{"partition_index": 3, "committed_offset": offset}]}]
    told = [{"name": "orders", "partitions": [{"partition_index": 3, "error_code": 0}]}]
    return [
        request(0, 1, 0, OFFSET_COMMIT, 7, values={"group_id": group, "topics": asked}),
        response(1, 1, 1, OFFSET_COMMIT, 7, values={"topics": told}),
    ]


def metadata() -> list[Row]:
    """A Metadata."""
    return [request(0, 1, 0, METADATA, 9), response(1, 1, 1, METADATA, 9)]


def pair_of(folder: Path, rows: Sequence[Row]) -> Pair:
    """The exchange that these rows make, read from a capture."""
    write(folder, "frames", [*rows])
    (found,) = recorder.open(folder).exchanges(bodies=all_bodies)
    return found
