"""Tests of the number of records of a producer's batches."""

from __future__ import annotations

from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.replay.messages import record_count
from tests.tables import each_row


@each_row("codec", [Compression.NONE, Compression.GZIP], ids=str)
@each_row("magic", [0, 1, 2])
def test_batches_take_an_offset_for_each_record(magic: int, codec: Compression) -> None:
    records = [Record(place, 5 if magic else -1, None, b"v") for place in range(3)]
    data = write_batch(records, codec=codec) if magic == 2 else write_message_set(records, magic=magic, codec=codec)
    assert record_count(data) == 3
    assert record_count(data + data) == 6


def test_some_clients_write_no_offset_into_the_head_of_a_compressed_message_set() -> None:
    data = write_message_set([Record(place, 5, None, b"v") for place in range(3)], codec=Compression.GZIP)
    assert record_count(bytes(8) + data[8:]) == 3


def test_unreadable_records_count_as_0() -> None:
    assert record_count(None) == record_count(b"x" * 100) == 0
