"""Tests of reading records of every format from one buffer, and of the errors."""

import tracemalloc
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.budget import Budget
from proxy.wire.errors import Malformed, OverBudget, WireError
from proxy.wire.records import (
    Compression,
    ControlType,
    Record,
    TimestampType,
    batches,
    control_key,
    end_marker_batch,
    partial,
    read,
    read_batch,
    verify,
    write_batch,
    write_message_set,
)
from proxy.wire.records.batch import BATCH_HEAD
from proxy.wire.records.batch_records import HEADER_COST
from tests.proxy.wire.records.samples import BATCH_CODECS, MESSAGE_CODECS, plain_records, record_lists
from tests.tables import each_row

# bytes that codecs request at a time, and their tables
ALLOWANCE = 2 << 20
KINDS = [bytes, bytearray, memoryview]


def with_time(records: list[Record], magic: int) -> list[Record]:
    """Returns the record as message sets keep it."""
    if magic:
        return records
    return [one._replace(timestamp=-1, timestamp_type=TimestampType.NONE) for one in records]


def test_a_buffer_of_every_format_is_read_in_order() -> None:
    plain = [record._replace(headers=()) for record in plain_records(9)]
    expected, data = [], b""
    for magic in (0, 1):
        for codec in MESSAGE_CODECS:
            data += write_message_set(plain, magic=magic, codec=codec)
            expected += with_time(plain, magic)
    for codec in BATCH_CODECS:
        data += write_batch(plain_records(70), codec=codec)
        expected += plain_records(70)
    for kind in KINDS:
        assert list(read(kind(data + data[:20]))) == expected
    assert [record for batch in batches(data) for record in read_batch(data, batch)] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_keys_and_values_are_bytes_whatever_the_buffer_is(kind: type) -> None:
    record = Record(1, 2, b"k", b"v", (("h", b"x"),))
    for data in (write_batch([record]), write_message_set([record._replace(headers=())])):
        (found,) = read(kind(data))
        assert type(found.key) is type(found.value) is bytes


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_a_buffer_is_read_as_if_it_were_all(kind: type) -> None:
    data = write_batch([Record(0)]) + write_batch([Record(1)]) + write_batch([Record(2)])
    third = len(data) // 3
    assert [one.offset for one in read(kind(data), third, 2 * third)] == [1]
    assert [one.offset for one in read(kind(data), third)] == [1, 2]


@given(record_lists(headers=False, smallest=1), st.sampled_from([0, 1]), st.sampled_from(MESSAGE_CODECS))
def test_message_sets_are_read_as_they_were_written(records: list[Record], magic: int, codec: Compression) -> None:
    assert list(read(write_message_set(records, magic=magic, codec=codec))) == with_time(records, magic)


@given(record_lists(), st.sampled_from(BATCH_CODECS))
def test_batches_are_read_as_they_were_written(records: list[Record], codec: Compression) -> None:
    assert list(read(write_batch(records, codec=codec))) == records


def test_records_are_read_lazily_and_come_before_the_damage() -> None:
    good, bad = write_batch([Record(0)]), bytearray(write_batch([Record(1)]))
    bad[-1] ^= 1
    found = read(good + bytes(bad))
    assert next(found).offset == 0
    with pytest.raises(Malformed):
        next(found)


def test_the_log_append_time_is_every_records() -> None:
    data = write_batch(plain_records(300), timestamp_type=TimestampType.LOG_APPEND, max_timestamp=77)
    assert {(one.timestamp, one.timestamp_type) for one in read(data)} == {(77, TimestampType.LOG_APPEND)}
    assert [one.value for one in read(data)] == [one.value for one in plain_records(300)]


def test_a_compacted_batch_covers_more_offsets_than_it_has_records() -> None:
    data = write_batch([Record(12), Record(17)], base_offset=10, last_offset=19)
    (batch,) = batches(data)
    assert (batch.base_offset, batch.last_offset, batch.count) == (10, 19, 2)
    assert [one.offset for one in read(data)] == [12, 17]


@each_row("codec", BATCH_CODECS)
def test_a_batch_of_nothing_is_kept_for_its_producer(codec: Compression) -> None:
    data = write_batch([], base_offset=10, last_offset=19, codec=codec, producer_id=5, producer_epoch=1)
    (batch,) = batches(data)
    assert (batch.base_offset, batch.last_offset, batch.count, batch.producer_id) == (10, 19, 0, 5)
    assert len(data) == 61
    assert list(read(data)) == []


def test_a_delete_horizon_stands_in_the_place_of_the_first_time_and_changes_no_record() -> None:
    records = [Record(0, 1000, b"k", None), Record(1, 2000, b"l", None)]
    data = write_batch(records, delete_horizon=9000)
    (batch,) = batches(data)
    assert (batch.delete_horizon, batch.base_timestamp) == (9000, 9000)
    assert list(read(data)) == records


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_the_end_of_a_transaction_is_shown_as_a_marker(kind: ControlType) -> None:
    data = end_marker_batch(kind, offset=9, timestamp=1000, producer_id=5, producer_epoch=1, coordinator_epoch=42)
    (batch,) = batches(data)
    assert (batch.control, batch.transactional, batch.producer_id, batch.producer_epoch) == (True, True, 5, 1)
    (record,) = read(data)
    assert (record.offset, record.timestamp, record.control) == (9, 1000, kind)
    assert (record.key, record.value) == (control_key(kind), b"\0\0\0\0\0\x2a")


def test_control_records_of_every_kind_are_shown() -> None:
    kinds = [kind for kind in ControlType if kind is not ControlType.UNKNOWN]
    records = [Record(place, 0, control_key(kind), b"") for place, kind in enumerate(kinds)]
    records += [Record(99, 0, b"\0\0\0\x63")]
    assert [one.control for one in read(write_batch(records, control=True))] == [*kinds, ControlType.UNKNOWN]
    assert {one.control for one in read(write_batch(records))} == {None}


def test_a_control_record_without_a_type_is_malformed() -> None:
    with pytest.raises(Malformed, match="less than 4 bytes") as caught:
        list(read(write_batch([Record(0)], control=True)))
    assert caught.value.offset is not None


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_errors_name_the_format(magic: int) -> None:
    data = write_batch([Record(0, 5)]) if magic == 2 else write_message_set([Record(0)], magic=magic)
    short = bytearray(data)
    short[8:12] = (5).to_bytes(4, "big")
    for damaged in (short, data[:-1] + b"?"):
        with pytest.raises(Malformed) as caught:
            list(read(damaged))
        assert (caught.value.api, caught.value.version) == ("records", magic)
        assert caught.value.offset in (0, 8)


@each_row("codec", BATCH_CODECS)
def test_a_checksum_that_does_not_fit_is_malformed_wherever_the_damage_is(codec: Compression) -> None:
    before = write_batch([Record(0)])
    data = write_batch(plain_records(5), codec=codec)
    for place in range(21, len(data)):
        damaged = bytearray(before + data)
        damaged[len(before) + place] ^= 0x40
        # count and last offset are checked before the checksum
        with pytest.raises(Malformed, match=r"CRC-32C|a batch of|64 bits") as caught:
            list(read(damaged))
        assert caught.value.offset == len(before)


def test_checksums_can_be_left_out_or_requested_alone() -> None:
    data = bytearray(write_batch([Record(0, value=b"value")]))
    data[-2] ^= 1
    assert [one.value for one in read(data, check_crc=False)] == [b"valud"]
    (batch,) = batches(data)
    with pytest.raises(Malformed, match=f"the batch says {batch.crc:08x}"):
        verify(data, batch)
    data[-2] ^= 1
    verify(data, batch)


def test_an_error_among_plain_records_has_its_place_in_the_buffer() -> None:
    before = write_batch([Record(0)])
    data = before + write_batch([Record(0, value=b"first"), Record(1, value=b"second")])
    second = data.index(b"second") - 6
    broken = data[: second + 4] + b"\x3d" + data[second + 5 :]
    with pytest.raises(Malformed) as caught:
        list(read(broken, check_crc=False))
    assert str(caught.value) == f"records v2 at byte {second + 4}: a field of -31 bytes"


def test_an_error_among_compressed_records_has_the_batchs_place_and_tells_its_own() -> None:
    before = write_batch([Record(0)])
    data = bytearray(before + write_batch([Record(0)], codec=Compression.GZIP))
    BATCH_HEAD.pack_into(data, len(before), *BATCH_HEAD.unpack_from(data, len(before))[:-1], 2)
    with pytest.raises(Malformed) as caught:
        list(read(data, check_crc=False))
    reason = "in gzip records, at byte 7 of what they unfold to: a record goes beyond the end of its batch"
    assert str(caught.value) == f"records v2 at byte {len(before)}: {reason}"


def test_the_limit_is_one_of_each_batch() -> None:
    data = write_batch([Record(0, value=bytes(1000))], codec=Compression.ZSTD) * 3
    size = 1000 + 9
    assert len(list(read(data, limit=size))) == 3
    with pytest.raises(OverBudget, match=f"in zstd records: unfolding makes more than {size - 1} bytes"):
        list(read(data, limit=size - 1))
    wrapped = write_message_set([Record(0, value=bytes(1000))], codec=Compression.GZIP)
    with pytest.raises(OverBudget, match="in gzip records: unfolding makes more than 1000 bytes"):
        list(read(wrapped, limit=1000))
    # uncompressed bytes have arrived already
    assert len(list(read(write_batch([Record(0, value=bytes(1000))]), limit=10))) == 1


@pytest.mark.real
@pytest.mark.parametrize("codec", BATCH_CODECS)
def test_records_are_read_over_the_ends_of_pieces(codec: Compression) -> None:
    random = Random(1)
    sizes = [0, 1, 10, 1000, 40_000, 200_000, 700_000]
    records = [Record(n, n, value=random.randbytes(random.choice(sizes))) for n in range(20)]
    small = [Record(n, n, headers=(("h", b"x"),)) for n in range(30_000)]
    for some in (records, small):
        assert list(read(write_batch(some, codec=codec))) == some


def test_only_what_is_requested_is_unfolded() -> None:
    data = write_batch([Record(n, 0, value=b"v" * 1000) for n in range(20_000)], codec=Compression.ZSTD)
    budget = Budget()
    found = read(data, budget=budget)
    assert [next(found).offset for _ in range(10)] == list(range(10))
    assert budget.size - budget.unfolded.left < 1 << 20
    assert len(list(found)) == 20_000 - 10
    assert budget.size - budget.unfolded.left > 20_000 * 1000


def test_a_budget_is_one_of_all_batches_and_replaces_the_limit() -> None:
    one = write_batch([Record(0, value=bytes(1000))], codec=Compression.ZSTD)
    found = read(one * 3, limit=10, budget=Budget(2500))
    assert [len(next(found).value or b"") for _ in range(2)] == [1000, 1000]
    with pytest.raises(OverBudget, match=f"records v2 at byte {2 * len(one)}: in zstd records: unfolding makes more"):
        next(found)


@pytest.mark.real
def test_records_of_many_headers_are_charged_and_held_one_by_one() -> None:
    heavy = [Record(n, 0, headers=(("", None),) * 5000) for n in range(20)]
    data = write_batch(heavy, codec=Compression.ZSTD)
    assert list(read(data)) == heavy
    assert peak_of(data) < ALLOWANCE + 2 * 5000 * 100
    budget = Budget(10 * 5000 * HEADER_COST)
    with pytest.raises(OverBudget, match="in zstd records: decoding makes more"):
        list(read(data, budget=budget))


def test_the_messages_of_a_wrapper_are_charged() -> None:
    data = write_message_set([Record(n, 0) for n in range(1000)], codec=Compression.GZIP)
    with pytest.raises(OverBudget, match="in gzip records: decoding makes more"):
        list(read(data, budget=Budget(100_000)))
    assert len(list(read(data, budget=Budget(1 << 20)))) == 1000


def peak_of(data: bytes) -> int:
    tracemalloc.start()
    try:
        with suppress(WireError):
            for _ in read(data, check_crc=False, limit=1 << 20):
                pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_huge_counts_cost_no_memory() -> None:
    huge = 0x7FFF_FFFF
    for codec in BATCH_CODECS:
        data = bytearray(write_batch(plain_records(5), codec=codec))
        BATCH_HEAD.pack_into(data, 0, *BATCH_HEAD.unpack_from(data)[:-1], huge)
        assert peak_of(bytes(data)) < ALLOWANCE
    one = write_batch([Record(0, headers=(("h", b"x"),))])
    assert one.endswith(b"\2\2h\2x")
    assert peak_of(one[:-5] + b"\xfe\xff\xff\xff\x0f") < ALLOWANCE


@pytest.mark.real
def test_memory_stays_within_the_records_times_a_constant() -> None:
    """Takes the smallest records and headers, from few bytes: memory for a chunk, and the unfolded data."""
    list(read(write_batch([Record(0)], codec=Compression.ZSTD)))
    records = write_batch([Record(0, 0)] * 40_000, codec=Compression.ZSTD)
    assert peak_of(records) < ALLOWANCE
    # two bytes become a tuple of two and its place in another
    headers = write_batch([Record(0, 0, headers=(("", None),) * 20_000)], codec=Compression.ZSTD)
    assert peak_of(headers) < ALLOWANCE + 20_000 * 100


def every_kind() -> list[bytes]:
    records = plain_records(6)
    bare = [record._replace(headers=()) for record in records]
    found = [write_batch(records, codec=codec) for codec in BATCH_CODECS]
    found += [write_message_set(bare, magic=magic, codec=codec) for magic in (0, 1) for codec in MESSAGE_CODECS]
    return [*found, write_batch([Record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\5")], control=True)]


@each_row("data", every_kind(), ids=lambda data: f"magic {data[16]} attributes {data[21]}")
def test_every_prefix_is_read_up_to_where_it_is_cut(data: bytes) -> None:
    whole = len(list(read(data)))
    for cut in range(len(data)):
        found = list(read(data[:cut]))
        assert len(found) < whole or not whole
        assert partial(data[:cut]) <= cut


@each_row("data", every_kind(), ids=lambda data: f"magic {data[16]} attributes {data[21]}")
@given(edits=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=5))
def test_damaged_bytes_are_read_or_malformed(data: bytes, edits: list[tuple[int, int]]) -> None:
    damaged = bytearray(data * 2)
    for place, byte in edits:
        damaged[place % len(damaged)] = byte
    for check_crc in (True, False):
        with suppress(WireError):
            for record in read(damaged, check_crc=check_crc, limit=100_000):
                assert -(1 << 63) <= record.offset < 1 << 63
                assert -(1 << 63) <= record.timestamp < 1 << 63


@given(st.binary(max_size=300), st.integers(0, 2), st.integers(0, 255))
def test_noise_after_a_plausible_head_is_read_or_malformed(noise: bytes, magic: int, attributes: int) -> None:
    data = bytes(8) + len(noise + b"123456").to_bytes(4, "big") + b"1234" + bytes([magic, attributes]) + noise
    with suppress(WireError):
        for record in read(data, check_crc=False, limit=100_000):
            assert -(1 << 63) <= record.timestamp < 1 << 63


@given(st.binary(max_size=200))
def test_noise_is_read_or_malformed(noise: bytes) -> None:
    with suppress(WireError):
        list(read(noise))
