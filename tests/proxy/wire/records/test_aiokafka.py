"""Tests against aiokafka's record codec (Cython): each reads the other's records, in every magic and codec."""

from itertools import product

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given

from proxy.wire.records import Compression, Record, TimestampType, batches, read, write_batch, write_message_set
from tests.proxy.wire.records.samples import BATCH_CODECS, MESSAGE_CODECS, few, record_lists
from tests.tables import each_row

LARGE = 1 << 24
NUMBERS = {codec: number for number, codec in enumerate(BATCH_CODECS)}
# aiokafka lacks the header checksum that lz4 has in magic 0
SETS = [case for case in product([0, 1], MESSAGE_CODECS) if case != (0, Compression.LZ4)]
every_batch_codec = each_row("codec", BATCH_CODECS)
every_set = each_row(("magic", "codec"), SETS)


def told(record: Record) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


def theirs(data: bytes) -> list[tuple[object, ...]]:
    """Returns all records as aiokafka reads them, with verified checksums."""
    found: list[tuple[object, ...]] = []
    reader = MemoryRecords(data)
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        for one in batch:
            # in magic 0, aiokafka has no time either
            time = -1 if one.timestamp is None else one.timestamp
            found.append((one.offset, time, one.key, one.value, list(one.headers)))
    return found


@every_batch_codec
@few
@given(record_lists(smallest=1, tame=True))
def test_we_read_aiokafkas_batches(codec: Compression, records: list[Record]) -> None:
    base = records[0].offset
    builder = DefaultRecordBatchBuilder(2, NUMBERS[codec], True, 77, 3, 41, LARGE)
    for record in records:
        builder.append(record.offset - base, record.timestamp, record.key, record.value, list(record.headers))
    data = bytes(builder.build())
    (batch,) = batches(data)
    assert (batch.codec, batch.transactional, batch.count) == (codec, True, len(records))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 41)
    assert list(read(data)) == [record._replace(offset=record.offset - base) for record in records]


@every_batch_codec
@few
@given(record_lists(smallest=1, tame=True))
def test_aiokafka_reads_our_batches(codec: Compression, records: list[Record]) -> None:
    data = write_batch(records, codec=codec)
    assert theirs(data) == [told(record) for record in records]


@few
@given(record_lists(smallest=1, tame=True))
def test_plain_batches_are_the_same_bytes(records: list[Record]) -> None:
    base = records[0].offset
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, LARGE)
    for record in records:
        builder.append(record.offset - base, record.timestamp, record.key, record.value, list(record.headers))
    moved = [record._replace(offset=record.offset - base) for record in records]
    assert bytes(builder.build()) == write_batch(moved)


@every_set
@few
@given(record_lists(headers=False, smallest=1, tame=True))
def test_we_read_aiokafkas_message_sets(magic: int, codec: Compression, records: list[Record]) -> None:
    builder = LegacyRecordBatchBuilder(magic, NUMBERS[codec], LARGE)
    for place, record in enumerate(records):
        builder.append(place, record.timestamp, record.key, record.value)
    found = list(read(bytes(builder.build())))
    assert [one.offset for one in found] == list(range(len(records)))
    assert [one[2:5] for one in found] == [record[2:5] for record in records]
    if magic:
        assert [one.timestamp for one in found] == [record.timestamp for record in records]


@every_set
@few
@given(record_lists(headers=False, smallest=1, tame=True))
def test_aiokafka_reads_our_message_sets(magic: int, codec: Compression, records: list[Record]) -> None:
    data = write_message_set(records, magic=magic, codec=codec)
    expected = records if magic else [record._replace(timestamp=-1) for record in records]
    assert theirs(data) == [told(record) for record in expected]


@pytest.mark.parametrize("codec", MESSAGE_CODECS)
def test_both_tell_the_log_append_time(codec: Compression) -> None:
    records = [Record(5, 1000, b"k", b"v"), Record(6, 2000, None, b"w")]
    kind = TimestampType.LOG_APPEND
    for data in (
        write_batch(records, codec=codec, timestamp_type=kind, max_timestamp=9000),
        write_message_set(records, codec=codec, timestamp_type=kind, log_append_time=9000),
    ):
        assert theirs(data) == [told(record) for record in read(data)]
        assert {record.timestamp for record in read(data)} == {9000}
