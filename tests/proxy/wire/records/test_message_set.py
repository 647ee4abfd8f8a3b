"""Tests of messages of magic 0 and 1, plain and in wrappers, against bytes written field by field."""

import gzip
from struct import pack
from zlib import crc32

import pytest

from proxy.wire.errors import Malformed, OverBudget
from proxy.wire.records import Compression, Record, TimestampType, read, write_message_set
from proxy.wire.records.compression import DEEPEST
from proxy.wire.records.record import CHUNK
from tests.tables import each_row

NONE, CREATE, APPEND = TimestampType.NONE, TimestampType.CREATE, TimestampType.LOG_APPEND
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
STAMPED = 8


def field(data: bytes | None) -> bytes:
    return pack(">i", -1) if data is None else pack(">i", len(data)) + data


def message(
    magic: int,
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    timestamp: int = 0,
    attributes: int = 0,
    crc: int | None = None,
    rest: bytes = b"",
) -> bytes:
    summed = bytes([magic, attributes]) + (pack(">q", timestamp) if magic else b"") + field(key) + field(value) + rest
    return pack(">qiI", offset, 4 + len(summed), crc32(summed) if crc is None else crc) + summed


def wrapper(magic: int, offset: int, *inner: bytes, attributes: int = GZIP, timestamp: int = 0) -> bytes:
    packed = gzip.compress(b"".join(inner), mtime=0)
    return message(magic, offset, packed, attributes=attributes, timestamp=timestamp)


def offsets(data: bytes) -> list[int]:
    return [record.offset for record in read(data)]


def test_messages_of_magic_0_have_no_time() -> None:
    data = message(0, 5, b"v", key=b"k") + message(0, 9, None)
    assert list(read(data)) == [Record(5, -1, b"k", b"v", (), NONE), Record(9, -1, None, None, (), NONE)]


def test_messages_of_magic_1_have_their_producers_time_or_the_brokers() -> None:
    data = message(1, 5, b"v", timestamp=1000) + message(1, 6, b"", timestamp=2000, attributes=STAMPED)
    assert list(read(data)) == [Record(5, 1000, None, b"v", (), CREATE), Record(6, 2000, None, b"", (), APPEND)]


def test_offsets_inside_magic_0_are_absolute() -> None:
    assert offsets(wrapper(0, 12, message(0, 10, b"a"), message(0, 12, b"b"))) == [10, 12]
    # producers number the inner messages from 0, whatever the wrapper's offset
    assert offsets(wrapper(0, 99, message(0, 0, b"a"), message(0, 1, b"b"))) == [0, 1]


def test_offsets_inside_magic_1_count_back_from_the_wrappers() -> None:
    assert offsets(wrapper(1, 102, *(message(1, place, b"v") for place in range(3)))) == [100, 101, 102]
    # two of them were compacted away
    assert offsets(wrapper(1, 102, message(1, 1, b"v"), message(1, 4, b"v"))) == [99, 102]


def test_a_wrappers_offset_of_0_leaves_the_offsets_inside_as_they_are() -> None:
    assert offsets(wrapper(1, 0, *(message(1, place, b"v") for place in range(3)))) == [0, 1, 2]


def test_inside_a_wrapper_each_message_has_its_own_time() -> None:
    inner = [message(1, place, b"v", timestamp=1000 + place) for place in range(2)]
    found = list(read(wrapper(1, 1, *inner, timestamp=1001)))
    assert [(one.timestamp, one.timestamp_type) for one in found] == [(1000, CREATE), (1001, CREATE)]


def test_a_wrapper_that_a_broker_stamped_tells_the_time_of_all() -> None:
    inner = [message(1, place, b"v", timestamp=1000 + place) for place in range(2)]
    found = list(read(wrapper(1, 1, *inner, timestamp=5000, attributes=GZIP | STAMPED)))
    assert [(one.timestamp, one.timestamp_type) for one in found] == [(5000, APPEND)] * 2


@each_row(
    ("data", "reason"),
    [
        (message(1, 0, None, attributes=GZIP), "a compressed message without a value"),
        (message(1, 0, b"not gzip", attributes=GZIP), "in gzip records: no gzip member"),
        (message(1, 0, b"", attributes=ZSTD), "zstd in a message set"),
        (message(1, 0, b"", attributes=5), "in unknown records: an unknown codec"),
        (wrapper(1, 0), "a compressed message set of nothing"),
        (wrapper(1, 0, message(1, 0, b"v")[:-1]), "a compressed message set that is cut off"),
        (wrapper(1, 0, message(1, 0, b"v"), b"x"), "a compressed message set that is cut off"),
        (
            wrapper(1, 0, message(0, 0, b"v")),
            "byte 0 of what they unfold to: a wrapper holds messages of its own magic",
        ),
        (
            wrapper(0, 0, message(1, 0, b"v")),
            "byte 0 of what they unfold to: a wrapper holds messages of its own magic",
        ),
        (wrapper(1, 0, wrapper(1, 0, message(1, 0, b"v"))), "a wrapper of magic 1 holds plain messages alone"),
        (
            wrapper(0, 0, wrapper(0, 0)),
            "byte 0 of what they unfold to: in gzip records: a compressed message set of nothing",
        ),
        (
            wrapper(0, 0, message(0, 0, b"v"), message(0, 0, b"not gzip", attributes=GZIP)),
            "byte 27 of what they unfold to: in gzip records: no gzip member",
        ),
        (
            wrapper(0, 0, message(0, 0, gzip.compress(message(0, 0, b"v")), attributes=GZIP, crc=1)),
            "byte 0 of what they unfold to: CRC-32 .*, the message says 00000001",
        ),
        (
            wrapper(0, 0, wrapper(0, 0, message(0, 0, b"v", crc=1))),
            "byte 0 of what they unfold to: in gzip records, at byte 0 of what they unfold to: CRC-32",
        ),
        (wrapper(1, 0, message(1, 0, b"v", crc=1)), "CRC-32 .*, the message says 00000001"),
        (wrapper(1, 1, message(1, 0, b"v"), message(1, 2, b"v")), "a wrapper at offset 1, whose last message says 2"),
        (wrapper(1, 5, message(1, 0, b"v") + message(1, -(1 << 63), b"v")), "more than 64 bits"),
    ],
)
def test_a_wrapper_that_holds_no_set_is_malformed_at_its_offset(data: bytes, reason: str) -> None:
    before = message(1, 0, b"before")
    with pytest.raises(Malformed, match=reason) as caught:
        list(read(before + data))
    assert caught.value.offset == len(before)


@each_row(
    ("data", "reason", "offset"),
    [
        (message(1, 0, b"v", rest=b"more"), "4 bytes behind a message's value", 35),
        (message(0, 0, b"v", rest=b"more"), "4 bytes behind a message's value", 27),
        (message(1, 0, b"v").replace(field(b"v"), pack(">i", 2) + b"v"), "a field of 2 bytes", 30),
        (message(1, 0, b"v").replace(field(b"v"), pack(">i", -2) + b"v"), "a field of -2 bytes", 30),
        (message(1, 0, b"v")[:26] + pack(">i", -2) + field(b"v"), "a field of -2 bytes", 26),
        (message(1, 0, None, key=b"k")[:-4] + pack(">i", -2), "a field of -2 bytes", 31),
        (message(1, 0, b"", key=b"1234").replace(field(b"1234"), pack(">i", 6) + b"1234"), "goes beyond its end", 36),
    ],
)
def test_a_message_whose_fields_do_not_fill_it_is_malformed(data: bytes, reason: str, offset: int) -> None:
    with pytest.raises(Malformed, match=reason) as caught:
        list(read(data, check_crc=False))
    assert caught.value.offset == offset


def test_wrappers_in_wrappers_of_magic_0_are_read_with_the_offsets_that_stand_inside() -> None:
    inner = wrapper(0, 11, message(0, 10, b"a", key=b"k"), message(0, 11, b"b"))
    last = wrapper(0, 14, wrapper(0, 14, message(0, 13, b"d"), message(0, 14, None)))
    data = wrapper(0, 14, inner, message(0, 12, b"c"), last)
    wanted = [Record(10, -1, b"k", b"a", (), NONE), Record(11, -1, None, b"b", (), NONE)]
    wanted += [Record(12, -1, None, b"c", (), NONE), Record(13, -1, None, b"d", (), NONE)]
    assert list(read(data + message(0, 15, b"e"))) == [
        *wanted,
        Record(14, -1, None, None, (), NONE),
        Record(15, -1, None, b"e", (), NONE),
    ]


def nested(depth: int, *inner: bytes) -> bytes:
    """Compresses a set so many times."""
    for _ in range(depth):
        inner = (wrapper(0, 0, *inner),)
    return b"".join(inner)


def test_sets_are_nested_as_deep_as_is_sane() -> None:
    assert [record.value for record in read(nested(DEEPEST, message(0, 0, b"v")))] == [b"v"]
    for depth in (DEEPEST + 1, 300):
        with pytest.raises(Malformed, match=f"compressed more than {DEEPEST} times"):
            list(read(nested(depth, message(0, 0, b"v"))))


def test_the_limit_counts_the_unfolded_bytes_of_all_nested_wrappers() -> None:
    """Ten in ten in ten: each wrapper alone is far below the limit."""
    leaf = wrapper(0, 0, message(0, 0, bytes(1000)))
    bomb = nested(1, *[nested(1, *[leaf] * 10)] * 10)
    plain = 10 * 10 * 1026 + 10 * 10 * len(leaf) + 10 * len(nested(1, *[leaf] * 10))
    assert len(list(read(bomb, limit=plain))) == 100
    with pytest.raises(OverBudget, match="unfolding makes more"):
        list(read(bomb, limit=plain - 1))


def test_a_damaged_message_is_malformed_unless_checksums_are_left_out() -> None:
    data = message(1, 0, b"first") + message(1, 1, b"second", crc=0xBAD)
    with pytest.raises(Malformed, match=r"CRC-32 [0-9a-f]{8}, the message says 00000bad") as caught:
        list(read(data))
    assert caught.value.offset == len(message(1, 0, b"first"))
    assert [record.value for record in read(data, check_crc=False)] == [b"first", b"second"]
    inside = wrapper(1, 0, message(1, 0, b"v", crc=0xBAD))
    assert [record.value for record in read(inside, check_crc=False)] == [b"v"]


def test_sets_are_written_byte_for_byte_as_here() -> None:
    records = [Record(5, 1000, b"k", b"v"), Record(6, 2000, None, None)]
    for magic in (0, 1):
        times = [1000, 2000]
        data = message(magic, 5, b"v", key=b"k", timestamp=times[0]) + message(magic, 6, None, timestamp=times[1])
        assert write_message_set(records, magic=magic) == data
    stamped = [message(1, 5, b"v", key=b"k", timestamp=3000, attributes=8)]
    stamped += [message(1, 6, None, timestamp=3000, attributes=8)]
    assert write_message_set(records, timestamp_type=APPEND, log_append_time=3000) == b"".join(stamped)


@pytest.mark.parametrize(("magic", "value_at", "inside"), [(0, 26, (5, 8)), (1, 34, (0, 3))])
def test_a_written_wrapper_holds_relative_offsets_in_magic_1_and_absolute_ones_in_magic_0(
    magic: int, value_at: int, inside: tuple[int, int]
) -> None:
    data = write_message_set([Record(5, 2000, b"k", b"v"), Record(8, 1000)], magic=magic, codec=Compression.GZIP)
    plain = gzip.decompress(data[value_at:])
    first, second = inside
    assert plain == message(magic, first, b"v", key=b"k", timestamp=2000) + message(magic, second, None, timestamp=1000)
    assert data == message(magic, 8, data[value_at:], attributes=GZIP, timestamp=2000)


@pytest.mark.parametrize("magic", [0, 1])
def test_runs_of_any_length_are_read_up_to_what_is_no_part_of_them(magic: int) -> None:
    many = [message(magic, place, b"v%d" % place, key=b"k", timestamp=place) for place in range(2 * CHUNK + 5)]
    other = message(1 - magic, 9000, b"other")
    packed = wrapper(magic, 9001, message(magic, 9001, b"packed"))
    data = b"".join(many) + other + packed + many[7]
    assert offsets(data) == [*range(2 * CHUNK + 5), 9000, 9001, 7]
    assert offsets(data[:-1]) == [*range(2 * CHUNK + 5), 9000, 9001]
    inside = wrapper(magic, 2 * CHUNK + 4, *many)
    assert [record.value for record in read(inside)] == [b"v%d" % place for place in range(2 * CHUNK + 5)]


def test_a_run_stops_at_another_magic_that_would_fit_it() -> None:
    """In magic 0, this time would be an empty key and a value up to the end."""
    data = message(0, 0, b"a") + message(1, 1, b"v", timestamp=9)
    assert list(read(data)) == [Record(0, -1, None, b"a", (), NONE), Record(1, 9, None, b"v", (), CREATE)]


def test_messages_before_a_damaged_one_are_shown_first() -> None:
    data = b"".join(message(1, place, b"v") for place in range(5)) + message(1, 5, b"v", crc=1)
    found = read(data)
    assert [next(found).offset for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(Malformed, match="the message says 00000001"):
        next(found)
