"""Tests of batch headers against bytes written field by field."""

from struct import pack

import pytest

from proxy.wire.errors import Malformed
from proxy.wire.records import Compression, Record, TimestampType, batches, partial, write_batch, write_message_set
from tests.proxy.wire.records.samples import plain_records
from tests.tables import each_row


def batch(
    *,
    offset: int = 100,
    size: int = 49,
    epoch: int = 5,
    magic: int = 2,
    attributes: int = 0,
    delta: int = 9,
    times: tuple[int, int] = (1000, 2000),
    producer: tuple[int, int, int] = (77, 3, 41),
    count: int = 10,
    payload: bytes = b"",
) -> bytes:
    """Returns a batch's bytes with any payload."""
    head = pack(">qiibIhi", offset, size + len(payload), epoch, magic, 0xDEADBEEF, attributes, delta)
    return head + pack(">qqqhii", *times, *producer, count) + payload


def test_a_header_is_read_field_by_field() -> None:
    data = b"before" + batch(payload=b"not looked at")
    (found,) = batches(data, 6)
    assert (found.start, found.end) == (6, len(data))
    assert (found.magic, found.base_offset, found.last_offset, found.count) == (2, 100, 109, 10)
    assert (found.crc, found.leader_epoch) == (0xDEADBEEF, 5)
    assert (found.base_timestamp, found.max_timestamp) == (1000, 2000)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (77, 3, 41)


@each_row(
    ("attributes", "word", "value"),
    [
        (0, "codec", Compression.NONE),
        (1, "codec", Compression.GZIP),
        (2, "codec", Compression.SNAPPY),
        (3, "codec", Compression.LZ4),
        (4, "codec", Compression.ZSTD),
        (7, "codec", Compression.UNKNOWN),
        (0, "timestamp_type", TimestampType.CREATE),
        (8, "timestamp_type", TimestampType.LOG_APPEND),
        (16, "transactional", True),
        (0x7FEF, "transactional", False),
        (32, "control", True),
        (0x7FDF, "control", False),
        (64, "delete_horizon", 1000),
        (0x7FBF, "delete_horizon", None),
    ],
)
def test_a_batchs_attributes_are_named(attributes: int, word: str, value: object) -> None:
    (found,) = batches(batch(attributes=attributes))
    assert getattr(found, word) == value


def test_a_message_is_a_batch_of_its_own() -> None:
    records = [Record(7, 1000, b"k", b"v"), Record(9, 2000, None, b"w")]
    zero, one = batches(write_message_set(records, magic=0))
    assert (zero.magic, zero.base_offset, zero.last_offset, zero.count) == (0, 7, 7, 1)
    assert (zero.max_timestamp, zero.timestamp_type) == (-1, TimestampType.NONE)
    assert (one.start, one.last_offset) == (zero.end, 9)
    first, _ = batches(write_message_set(records, magic=1))
    assert (first.magic, first.base_timestamp, first.max_timestamp) == (1, 1000, 1000)
    assert (first.timestamp_type, first.codec, first.producer_id) == (TimestampType.CREATE, Compression.NONE, -1)
    assert not first.transactional
    assert not first.control
    assert first.delete_horizon is None


def test_a_wrapper_does_not_tell_what_it_holds() -> None:
    (found,) = batches(write_message_set([Record(7), Record(9)], codec=Compression.GZIP))
    assert (found.codec, found.base_offset, found.last_offset, found.count) == (Compression.GZIP, None, 9, None)


def test_formats_follow_each_other() -> None:
    data = write_message_set([Record(0)], magic=0) + write_message_set([Record(1)]) + write_batch([Record(2)]) * 2
    found = list(batches(data))
    assert [(one.magic, one.last_offset) for one in found] == [(0, 0), (1, 1), (2, 2), (2, 2)]
    assert [one.end for one in found] == [one.start for one in found[1:]] + [len(data)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_cut_batch_is_partial_wherever_it_is_cut(kind: type) -> None:
    first = write_batch(plain_records(3))
    second = write_message_set([Record(3, 5, b"k", b"v")])
    data = first + second
    for cut in range(len(data) + 1):
        buf = kind(data[:cut])
        whole = [] if cut < len(first) else [0] if cut < len(data) else [0, len(first)]
        assert [one.start for one in batches(buf)] == whole
        assert partial(buf) == cut - [0, len(first), len(data)][len(whole)]


def test_a_part_of_a_buffer_is_read_as_if_it_were_all() -> None:
    data = write_batch([Record(0)]) * 3
    third = len(data) // 3
    assert [one.start for one in batches(data, third, 2 * third + 5)] == [third]
    assert partial(data, third, 2 * third + 5) == 5
    assert [one.start for one in batches(data, third, 999)] == [third, 2 * third]
    assert partial(data, len(data) + 7) == 0


@each_row(
    ("data", "reason", "offset"),
    [
        (batch(magic=3), "magic 3", 16),
        (batch(magic=-1), "magic 255", 16),
        (batch(size=-1), "a batch of -1 bytes", 8),
        (batch(size=4), "a batch of 4 bytes", 8),
        (batch(size=48), "60 bytes for magic 2, which has 61 at least", 8),
        (batch(size=13, magic=0), "25 bytes for magic 0, which has 26 at least", 8),
        (batch(size=21, magic=1), "33 bytes for magic 1, which has 34 at least", 8),
        (batch(count=-1), "a batch of -1 records", 0),
        (batch(delta=-1), "the last offset -1 behind its first", 0),
        (batch(offset=(1 << 63) - 9), "an offset of more than 64 bits", 0),
    ],
)
def test_an_impossible_batch_header_is_malformed(data: bytes, reason: str, offset: int) -> None:
    before = write_batch([Record(0)])
    for read in (lambda buf: list(batches(buf)), lambda buf: list(batches(buf, len(before)))):
        with pytest.raises(Malformed, match=reason) as caught:
            read(before + data)
        assert caught.value.offset == len(before) + offset


def test_the_last_offset_of_all_may_be_used() -> None:
    (found,) = batches(batch(offset=(1 << 63) - 10))
    assert found.last_offset == (1 << 63) - 1
