"""Tests of records in Produce requests, written and read by other codecs where there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from struct import pack
from zlib import crc32

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from proxy.wire import Budget
from proxy.wire.errors import Malformed, OverBudget, WireError
from proxy.wire.pieces import Pieces
from proxy.wire.records import Compression, Record, batches, compress, read, write_batch, write_message_set
from proxy.wire.records.batch import BATCH_HEAD
from recorder.replay.versions import batches as of_versions
from recorder.replay.versions.batches import (
    Numbering,
    as_batch,
    codecs_of,
    magics_of,
)
from tests.proxy.wire.records.samples import BATCH_CODECS, MESSAGE_CODECS, few, plain_records, record_lists
from tests.tables import each_row

LARGE = 1 << 24
NUMBERS = {codec: number for number, codec in enumerate(BATCH_CODECS)}
# kafka-python lacks the header checksum that lz4 has in magic 0
SETS = [case for case in product([0, 1], MESSAGE_CODECS) if case != (0, Compression.LZ4)]
every_codec = each_row("codec", BATCH_CODECS, ids=lambda codec: codec.value)
every_set = each_row(("magic", "codec"), SETS, ids=[f"{magic}-{codec.value}" for magic, codec in SETS])
OLD = Numbering(77, 3, 41)
NUMBERINGS = st.builds(Numbering, st.integers(0, 1 << 62), st.integers(0, 1 << 14), st.integers(0, (1 << 31) - 1))


def aiokafkas(codec: Compression, records: list[Record], numbering: Numbering = OLD) -> bytes:
    """A batch of aiokafka's."""
    builder = DefaultRecordBatchBuilder(2, NUMBERS[codec], True, *numbering, LARGE)
    for place, record in enumerate(records):
        builder.append(place, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def kafka_pythons(magic: int, codec: Compression, records: list[Record]) -> bytes:
    """Records of kafka-python's, in any format."""
    builder = MemoryRecordsBuilder(magic, NUMBERS[codec], LARGE)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, list(record.headers))
    builder.close()
    return bytes(builder.buffer())


def producers_of(data: bytes) -> list[tuple[int, int, int, int]]:
    """Returns producer id, epoch, base sequence and number of records of each batch."""
    return [(one.producer_id, one.producer_epoch, one.base_sequence, one.count or 0) for one in batches(data)]


def told(data: bytes) -> list[tuple[object, ...]]:
    """Returns the records that kafka-python reads, with verified checksums."""
    found: list[tuple[object, ...]] = []
    for batch in MemoryRecords(data):
        assert batch.validate_crc()
        found += [(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in batch]
    return found


def renumbered(data: bytes, numberings: Iterable[Numbering]) -> bytes:
    return bytes(of_versions.renumbered(data, numberings))


def shifted(data: bytes, by: int, budget: Budget | None = None) -> bytes:
    return bytes(of_versions.shifted(data, by, budget=budget))


# producers


def test_only_the_header_of_a_large_batch_is_copied() -> None:
    data = write_batch([Record(0, value=bytes(1 << 20))], producer_id=77, producer_epoch=3, base_sequence=41)
    for found in (of_versions.renumbered(data, [Numbering(1, 2, 3)]), of_versions.shifted(data, 5)):
        assert isinstance(found, Pieces)
        head, rest = found.buffers
        assert isinstance(rest, memoryview)
        assert rest.obj is data
        assert len(head) == BATCH_HEAD.size
        assert [record.value for record in read(bytes(found))] == [bytes(1 << 20)]


@every_codec
@few
@given(record_lists(smallest=1, tame=True), NUMBERINGS)
def test_another_producers_batch_is_the_one_that_it_would_have_written(
    codec: Compression, records: list[Record], wanted: Numbering
) -> None:
    data = aiokafkas(codec, records)
    assert producers_of(data) == [(*OLD, len(records))]
    assert renumbered(data, [wanted]) == aiokafkas(codec, records, wanted)


@few
@given(record_lists(smallest=1, tame=True), NUMBERINGS)
def test_each_batch_has_its_own_producer_and_only_those_that_differ_change(
    records: list[Record], wanted: Numbering
) -> None:
    first, second = aiokafkas(Compression.GZIP, records), aiokafkas(Compression.NONE, records)
    found = renumbered(first + second, [OLD, wanted])
    assert found[: len(first)] == first
    assert producers_of(found) == [(*OLD, len(records)), (*wanted, len(records))]


def test_a_damaged_batch_gets_no_checksum_that_hides_the_damage() -> None:
    data = bytearray(aiokafkas(Compression.NONE, plain_records(3)))
    data[-1] ^= 255
    assert renumbered(bytes(data), [OLD]) == data
    assert renumbered(bytes(data), [Numbering(1, 2, 3)]) == data
    assert shifted(bytes(data), 5) == data


def test_batches_and_producers_come_in_equal_numbers() -> None:
    data = aiokafkas(Compression.NONE, plain_records(1))
    for numberings in ([], [OLD, OLD]):
        with pytest.raises(Malformed, match="as many batches"):
            renumbered(data, numberings)


def test_messages_have_no_producer_and_can_have_none() -> None:
    data = write_message_set(plain_records_without_headers(2))
    assert producers_of(data) == [(-1, -1, -1, 1)] * 2
    assert producers_of(write_message_set([Record(0)], codec=Compression.GZIP)) == [(-1, -1, -1, 0)]
    assert renumbered(data, [Numbering(-1, -1, -1)] * 2) == data
    with pytest.raises(Malformed, match="magic 1"):
        renumbered(data, [OLD, OLD])


def plain_records_without_headers(count: int) -> list[Record]:
    return [record._replace(headers=()) for record in plain_records(count)]


# formats


@every_set
@few
@given(record_lists(headers=False, smallest=1, tame=True))
def test_a_message_set_becomes_one_batch_of_the_same_records_and_codec(
    magic: int, codec: Compression, records: list[Record]
) -> None:
    data = bytes(as_batch(kafka_pythons(magic, codec, records)))
    (batch,) = batches(data)
    assert (batch.magic, batch.codec, batch.count, batch.last_offset) == (2, codec, len(records), len(records) - 1)
    assert told(data) == [
        (place, record.timestamp if magic else -1, record.key, record.value, ()) for place, record in enumerate(records)
    ]


def test_lz4_of_magic_0_becomes_the_lz4_of_batches() -> None:
    records = plain_records_without_headers(9)
    data = bytes(as_batch(write_message_set(records, magic=0, codec=Compression.LZ4)))
    assert codecs_of(data) == {Compression.LZ4}
    assert [one[2:4] for one in told(data)] == [record[2:4] for record in records]


def test_wrappers_within_wrappers_become_one_flat_batch() -> None:
    records = plain_records_without_headers(4)
    inner = write_message_set(records, magic=0, codec=Compression.GZIP)
    nested = nested_in(inner)
    assert [record.value for record in read(nested)] == [record.value for record in records]
    assert [one[2:4] for one in told(bytes(as_batch(nested)))] == [record[2:4] for record in records]


def nested_in(inner: bytes) -> bytes:
    """A wrapper of magic 0 around a wrapper."""
    value = compress(Compression.GZIP, inner)
    summed = pack(">bb", 0, 1) + pack(">i", -1) + pack(">i", len(value)) + value
    return pack(">qi", 3, 4 + len(summed)) + pack(">I", crc32(summed)) + summed


def test_plain_messages_and_wrappers_side_by_side_become_one_batch_of_the_first_codec() -> None:
    plain = write_message_set([Record(0, 1, None, b"a")])
    packed = write_message_set([Record(0, 2, None, b"b"), Record(1, 3, None, b"c")], codec=Compression.SNAPPY)
    assert codecs_of(as_batch(plain + packed)) == {Compression.NONE}
    assert codecs_of(as_batch(packed + plain)) == {Compression.SNAPPY}
    assert [one[3] for one in told(bytes(as_batch(packed + plain)))] == [b"b", b"c", b"a"]
    assert magics_of(plain + packed) == {1}


@every_codec
def test_a_batch_stays_as_it_is(codec: Compression) -> None:
    data = aiokafkas(codec, plain_records(3))
    assert as_batch(data) is data
    assert as_batch(b"") == b""


def test_both_formats_side_by_side_are_refused() -> None:
    with pytest.raises(Malformed, match="side by side"):
        as_batch(aiokafkas(Compression.NONE, plain_records(1)) + write_message_set([Record(0)]))


# times


@every_codec
@few
@given(record_lists(smallest=1, tame=True), st.integers(-(1 << 41), 1 << 41))
def test_the_records_of_a_batch_move_with_its_header(codec: Compression, records: list[Record], by: int) -> None:
    records = [record._replace(timestamp=record.timestamp + (1 << 42)) for record in records]
    data = aiokafkas(codec, records)
    found = shifted(data, by)
    assert [one[1] for one in told(found)] == [record.timestamp + by for record in records]
    assert found[BATCH_HEAD.size :] == data[BATCH_HEAD.size :], "the block is not touched"
    assert producers_of(found) == producers_of(data)
    assert shifted(found, -by) == data


@pytest.mark.parametrize("codec", MESSAGE_CODECS, ids=lambda codec: codec.value)
@few
@given(record_lists(headers=False, smallest=1, tame=True), st.integers(0, 1 << 41))
def test_the_messages_of_magic_1_move_too(codec: Compression, records: list[Record], by: int) -> None:
    data = shifted(kafka_pythons(1, codec, records), by)
    assert codecs_of(data) == {codec}
    assert [one[1:4] for one in told(data)] == [(one.timestamp + by, one.key, one.value) for one in records]


def test_records_without_a_time_are_not_shifted() -> None:
    for data in (write_message_set([Record(0)], magic=0), write_batch([Record(0)]), write_message_set([Record(0)])):
        assert shifted(data, 1000) == data


def test_a_time_beyond_64_bits_is_refused() -> None:
    data = write_batch([Record(0, (1 << 63) - 1)])
    with pytest.raises(Malformed, match="64 bits"):
        shifted(data, 1)


# hostile bytes


SEEDS = [
    aiokafkas(Compression.NONE, plain_records(3)),
    aiokafkas(Compression.GZIP, plain_records(3)),
    write_message_set(plain_records_without_headers(3)),
    write_message_set(plain_records_without_headers(3), codec=Compression.SNAPPY),
    write_message_set(plain_records_without_headers(3), magic=0, codec=Compression.GZIP),
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@given(damaged() | st.binary(max_size=200), NUMBERINGS, st.integers(-(1 << 63), 1 << 63))
def test_hostile_bytes_raise_wire_errors_alone(data: bytes, wanted: Numbering, by: int) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: producers_of(data),
        lambda: renumbered(data, [wanted] * len(producers_of(data))),
        lambda: shifted(data, by),
        lambda: as_batch(data),
    ]
    for attempt in attempts:
        try:
            attempt()
        except WireError:
            continue


def test_a_bomb_is_over_budget() -> None:
    data = write_message_set([Record(0, 1, None, bytes(1 << 20))], codec=Compression.GZIP)
    for attempt in (as_batch, lambda data, budget: shifted(data, 1, budget=budget)):
        with pytest.raises(OverBudget):
            attempt(data, budget=Budget(1 << 16))
    many = write_message_set([Record(place) for place in range(1000)])
    with pytest.raises(OverBudget):
        as_batch(many, budget=Budget(1 << 16))


@pytest.mark.real
def test_hundreds_of_thousands_of_messages_of_nothing_are_over_budget() -> None:
    data = write_message_set([Record(0)], magic=0) * 400_000
    for attempt in (codecs_of, as_batch):
        with pytest.raises(OverBudget):
            attempt(data)
