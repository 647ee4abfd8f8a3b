"""Tests against kafka-python's record codec (pure Python): each reads the other's records."""

from itertools import product

import pytest
from hypothesis import given
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from proxy.wire.records import (
    Compression,
    ControlType,
    Record,
    batches,
    end_marker_batch,
    read,
    write_batch,
    write_message_set,
)
from tests.proxy.wire.records.samples import BATCH_CODECS, MESSAGE_CODECS, few, record_lists
from tests.tables import each_row

LARGE = 1 << 24
NUMBERS = {codec: number for number, codec in enumerate(BATCH_CODECS)}
# lz4 in magic 0 needs a package of its own: see test_lz4_frames
SETS = [case for case in product([0, 1], MESSAGE_CODECS) if case != (0, Compression.LZ4)]
CASES = [*SETS, *product([2], BATCH_CODECS)]
every_case = each_row(("magic", "codec"), CASES)


def kept(records: list[Record], magic: int) -> list[Record]:
    """Returns the record as its format keeps it."""
    return [record._replace(headers=record.headers if magic == 2 else ()) for record in records]


@every_case
@few
@given(record_lists(smallest=1, tame=True))
def test_we_read_kafka_pythons_records(magic: int, codec: Compression, records: list[Record]) -> None:
    records = kept(records, magic)
    builder = MemoryRecordsBuilder(magic, NUMBERS[codec], LARGE)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, list(record.headers))
    builder.close()
    data = bytes(builder.buffer())
    found = list(read(data))
    assert [one.offset for one in found] == list(range(len(records)))
    assert [one[2:5] for one in found] == [record[2:5] for record in records]
    if magic:
        assert [one.timestamp for one in found] == [record.timestamp for record in records]


@every_case
@few
@given(record_lists(smallest=1, tame=True))
def test_kafka_python_reads_our_records(magic: int, codec: Compression, records: list[Record]) -> None:
    records = kept(records, magic)
    data = write_batch(records, codec=codec) if magic == 2 else write_message_set(records, magic=magic, codec=codec)
    found = []
    for batch in MemoryRecords(data):
        assert batch.validate_crc()
        found += [(one.offset, one.key, one.value, tuple(one.headers)) for one in batch]
    assert found == [(one.offset, one.key, one.value, one.headers) for one in records]


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_kafka_python_reads_our_end_markers(kind: ControlType) -> None:
    data = end_marker_batch(kind, offset=9, timestamp=1000, producer_id=5, producer_epoch=1, coordinator_epoch=42)
    (batch,) = MemoryRecords(data)
    assert batch.validate_crc()
    (record,) = batch
    assert batch.is_control_batch
    assert batch.is_transactional
    assert (record.abort, record.commit) == (kind is ControlType.ABORT, kind is ControlType.COMMIT)


@few
@given(record_lists(smallest=2, tame=True))
def test_both_tell_the_same_of_a_header(records: list[Record]) -> None:
    data = write_batch(
        records, producer_id=77, producer_epoch=3, base_sequence=41, transactional=True, codec=Compression.GZIP
    )
    (ours,), (theirs,) = batches(data), MemoryRecords(data)
    assert (ours.base_offset, ours.last_offset) == (theirs.base_offset, theirs.base_offset + theirs.last_offset_delta)
    assert (ours.base_timestamp, ours.max_timestamp) == (theirs.first_timestamp, theirs.max_timestamp)
    assert (ours.producer_id, ours.producer_epoch) == (theirs.producer_id, theirs.producer_epoch)
    assert (ours.base_sequence, ours.count) == (theirs.base_sequence, theirs.records_count)
    assert (ours.attributes, ours.crc) == (theirs.attributes, theirs.crc)
