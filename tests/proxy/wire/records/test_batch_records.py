"""Tests of the flat loop against its slow twin, and of every byte that it must validate."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.budget import Budget
from proxy.wire.errors import Malformed
from proxy.wire.primitives import uvarint
from proxy.wire.records import Compression, Record, TimestampType, batch_records, batches, read, write_batch
from proxy.wire.records.batch import BATCH_HEAD, Batch
from proxy.wire.records.batch_records import chunks
from proxy.wire.records.record import CHUNK, Raw
from tests.proxy.wire.records import twin
from tests.proxy.wire.records.samples import INT64, plain_records, record_lists
from tests.tables import each_row

# attributes, timestamp, offset, null key, null value, no headers
SMALLEST = b"\0\0\0\1\1\0"


def one(body: bytes, *, size: bytes | None = None, count: int = 1) -> list[Record]:
    """Reads the records of a batch whose payload is `body` with its length before it."""
    empty = write_batch([Record(0, 0)])
    (batch,) = batches(empty)
    data = (bytes([2 * len(body)]) if size is None else size) + body
    found = chunks(iter([data]), batch._replace(count=count), Budget().values)
    return [Record(*raw) for chunk in found for raw in chunk]


@given(record_lists(), st.sampled_from([Compression.NONE, Compression.GZIP]), st.sampled_from(list(TimestampType)[1:]))
def test_the_flat_loop_reads_what_its_slow_twin_reads(
    records: list[Record], codec: Compression, kind: TimestampType
) -> None:
    data = write_batch(records, codec=codec, timestamp_type=kind)
    assert list(read(data)) == twin.read_batch(data)


@given(record_lists(), st.data())
def test_pieces_are_read_as_the_whole_is_whatever_is_wrong_with_it(records: list[Record], data: st.DataObject) -> None:
    payload = bytearray(write_batch(records)[BATCH_HEAD.size :])
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=2)):
        if payload:
            payload[place % len(payload)] = byte
    (batch,) = batches(write_batch(records))
    count = data.draw(st.sampled_from([len(records), len(records) + 1]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=5)))
    pieces = [bytes(payload[at:end]) for at, end in pairwise([0, *cuts, len(payload)])]
    whole = outcome(iter([bytes(payload)]), batch._replace(count=count))
    assert outcome(filter(None, pieces), batch._replace(count=count)) == whole


def outcome(pieces: Iterator[bytes], batch: Batch) -> tuple[list[Raw], bool]:
    """Returns the records, and whether an error followed them."""
    found: list[Raw] = []
    try:
        for chunk in chunks(pieces, batch, Budget().values):
            found += chunk
    except Malformed:
        return found, True
    return found, False


def test_a_record_behind_its_batch_is_counted_in_all_pieces() -> None:
    (batch,) = batches(write_batch([Record(0)]))
    record = write_batch([Record(0)])[BATCH_HEAD.size :]
    with pytest.raises(Malformed, match="1000 bytes behind the last record") as caught:
        list(chunks(iter([record, bytes(400), bytes(600)]), batch, Budget().values))
    assert caught.value.offset == len(record)


def test_more_records_than_a_chunk_holds_are_read_in_order() -> None:
    records = plain_records(2 * CHUNK + 17)
    data = write_batch(records)
    assert list(read(data)) == twin.read_batch(data) == records


@given(INT64, INT64)
def test_timestamps_wrap_as_javas_long_does(first: int, second: int) -> None:
    records = [Record(0, first), Record(1, second)]
    assert [record.timestamp for record in read(write_batch(records))] == [first, second]


def test_a_base_timestamp_near_the_end_of_64_bits_wraps() -> None:
    (batch,) = batches(write_batch([Record(0, (1 << 63) - 1)]))
    ((raw,),) = chunks(iter([b"\x0c\0\x02\0\1\1\0"]), batch, Budget().values)
    assert raw[1] == -(1 << 63)


@each_row("width", [1, 2, 3, 4, 5])
def test_varints_need_not_be_as_short_as_they_could(width: int) -> None:
    def wide(value: int) -> bytes:
        return uvarint(value, width)

    header = wide(2) + b"h" + wide(1)
    body = b"\0" + wide(6) + wide(8) + wide(2) + b"k" + wide(4) + b"vv" + wide(2) + header
    assert one(body, size=wide(2 * len(body))) == [Record(4, 3, b"k", b"vv", (("h", None),))]


def test_a_count_of_none_reads_nothing() -> None:
    assert one(b"", size=b"", count=0) == []


@each_row(
    ("body", "reason"),
    [
        (b"\0\0\1\1\1\0", "-1 where a number from 0 on must stand"),
        (b"\0\0\x81\0\1\1\0", "-1 where a number from 0 on must stand"),
        (b"\0\0\0\3\1\0", "a field of -2 bytes"),
        (b"\0\0\0\1\3\0", "a field of -2 bytes"),
        (b"\0\0\0\1\x83\0\0", "a field of -2 bytes"),
        (b"\0\0\0\1\1\1", "-1 where a number from 0 on must stand"),
        (b"\0\0\0\1\1\2\1\1", "a header without a name"),
        (b"\0\0\0\1\1\2\3\1", "a field of -2 bytes"),
        (b"\0\0\0\1\xfe\xff\xff\xff\x0f\0", "a field of 2147483647 bytes"),
        (b"\0\0\0\1\xff\xff\xff\xff\x1f\0", "a varint of more than 32 bits"),
        (b"\0\0\0\1\x80\x80\x80\x80\x80\0\0", "a varint of more than 5 bytes"),
        (b"\0" + b"\x80" * 10 + b"\0\0\1\1\0", "a varint of more than 10 bytes"),
        (b"\0" + b"\xff" * 9 + b"\x02\0\1\1\0", "a varint of more than 64 bits"),
        (b"\0\0\0\x40\1\0", "beyond the end of its batch"),
        (b"\0\0\0\1\x40\0", "beyond the end of its batch"),
        (b"\0\0\0\1\xc0\1\0", "beyond the end of its batch"),
        (b"\0\0\0\1\1", "beyond the end of its batch"),
        (b"", "beyond the end of its batch"),
        (SMALLEST + b"\0", "length leads to byte 8, its fields to 7"),
    ],
)
def test_an_impossible_record_is_malformed(body: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        one(body)


@each_row("size", [b"\x0d", b"\x0b", b"\x8d\0", b"\x8b\x80\0", b"\x0e", b"\x0a"])
def test_a_length_that_the_fields_do_not_fill_is_malformed(size: bytes) -> None:
    assert one(SMALLEST) == [Record(0, 0)]
    with pytest.raises(Malformed):
        one(SMALLEST, size=size)


def test_bytes_after_the_last_record_are_malformed() -> None:
    with pytest.raises(Malformed, match="7 bytes behind the last record") as caught:
        one(SMALLEST + b"\x0c" + SMALLEST, size=b"\x0c")
    assert caught.value.offset == 7


def test_records_before_the_damage_are_shown_first() -> None:
    data = write_batch(plain_records(CHUNK + 40))
    cut = data[61:-1]
    (batch,) = batches(data)
    seen: list[int] = []
    with pytest.raises(Malformed, match="beyond the end of its batch"):
        seen.extend(raw[0] for chunk in chunks(iter([cut]), batch, Budget().values) for raw in chunk)
    assert seen == list(range(CHUNK + 39))


def test_a_record_with_too_many_headers_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million headers take 70 MB. As many as fit into 64 MiB of plain bytes would take 2.4 GB."""
    monkeypatch.setattr(batch_records, "MAX_HEADERS", 3)
    head = b"\0\0\0\1\1"
    assert one(head + b"\6" + b"\0\1" * 3)[0].headers == (("", None),) * 3
    with pytest.raises(Malformed, match="a record of 4 headers, at most 3 are read"):
        one(head + b"\x08" + b"\0\1" * 4)


def test_a_headers_name_that_is_no_utf8_is_read_as_java_reads_it() -> None:
    assert one(b"\0\0\0\1\1\2\4a\xff\1")[0].headers == (("a\N{REPLACEMENT CHARACTER}", None),)


def test_offsets_near_the_end_of_64_bits_stay_within_the_batch() -> None:
    last = (1 << 63) - 1
    (batch,) = batches(write_batch([Record(last - 1), Record(last)]))
    good = b"\x0c" + SMALLEST + b"\x0c\0\0\2\1\1\0"
    assert [raw[0] for chunk in chunks(iter([good]), batch, Budget().values) for raw in chunk] == [last - 1, last]
    with pytest.raises(Malformed, match="beyond the batch's last"):
        list(chunks(iter([good[:-4] + b"\4\1\1\0"]), batch, Budget().values))
