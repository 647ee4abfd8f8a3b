"""Tests of writing batches against bytes packed here, and of changing a batch but not its records."""

from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import Malformed
from proxy.wire.records import (
    Compression,
    ControlType,
    Record,
    TimestampType,
    batches,
    end_marker_batch,
    read,
    with_base_offset,
    with_producer,
    with_records,
    write_batch,
    write_message_set,
)
from proxy.wire.records.checksums import crc32c
from tests.proxy.wire.records.samples import BATCH_CODECS, plain_records
from tests.tables import each_row


def test_a_batch_is_written_byte_for_byte_as_here() -> None:
    records = [Record(100, 1000, b"k", b"v"), Record(103, 1064, None, None, (("h", b"x"), ("\N{SNOWMAN}", None)))]
    first = b"\x10" + b"\0" + b"\0" + b"\0" + b"\2k" + b"\2v" + b"\0"
    second = b"\x20" + b"\0" + b"\x80\x01" + b"\6" + b"\1" + b"\1" + b"\4" + b"\2h\2x" + b"\6\xe2\x98\x83\1"
    summed = pack(">hiqqqhii", 16, 3, 1000, 1064, 77, 4, 9, 2) + first + second
    head = pack(">qiib", 100, 9 + len(summed), 8, 2) + pack(">I", crc32c(summed))
    written = write_batch(
        records, transactional=True, producer_id=77, producer_epoch=4, base_sequence=9, leader_epoch=8
    )
    assert written == head + summed


def test_a_marker_is_written_byte_for_byte_as_here() -> None:
    record = b"\x20" + b"\0" + b"\0" + b"\0" + b"\x08\0\0\0\1" + b"\x0c\0\0\0\0\0\7" + b"\0"
    summed = pack(">hiqqqhii", 48, 0, 1000, 1000, 77, 4, -1, 1) + record
    head = pack(">qiib", 9, 9 + len(summed), -1, 2) + pack(">I", crc32c(summed))
    commit = ControlType.COMMIT
    assert head + summed == end_marker_batch(
        commit, offset=9, timestamp=1000, producer_id=77, producer_epoch=4, coordinator_epoch=7
    )
    with pytest.raises(ValueError, match="ends no transaction"):
        end_marker_batch(
            ControlType.LEADER_CHANGE, offset=9, timestamp=0, producer_id=7, producer_epoch=4, coordinator_epoch=7
        )
    for epoch in (2**31, -(2**31) - 1):
        with pytest.raises(Malformed, match=r"^records v2: no record or batch can hold that"):
            end_marker_batch(commit, offset=9, timestamp=0, producer_id=7, producer_epoch=4, coordinator_epoch=epoch)


@given(
    st.fixed_dictionaries(
        {
            "codec": st.sampled_from(BATCH_CODECS),
            "timestamp_type": st.sampled_from([TimestampType.CREATE, TimestampType.LOG_APPEND]),
            "max_timestamp": st.integers(-1, 1 << 62),
            "transactional": st.booleans(),
            "producer_id": st.integers(-1, 1 << 62),
            "producer_epoch": st.integers(-1, 32767),
            "base_sequence": st.integers(-1, (1 << 31) - 1),
            "leader_epoch": st.integers(-1, (1 << 31) - 1),
            "delete_horizon": st.none() | st.integers(0, 1 << 62),
        }
    ),
    st.integers(0, 1 << 62),
)
def test_every_field_of_a_header_is_read_as_it_was_written(fields: dict[str, Any], offset: int) -> None:
    data = write_batch(plain_records(3, offset=offset), base_offset=offset, last_offset=offset + 7, **fields)
    (batch,) = batches(data)
    assert {name: getattr(batch, name) for name in fields} == fields
    assert (batch.base_offset, batch.last_offset, batch.count, batch.control) == (offset, offset + 7, 3, False)
    assert len(list(read(data))) == 3


def test_the_largest_timestamp_is_the_batchs_where_none_is_given() -> None:
    (batch,) = batches(write_batch([Record(0, 5), Record(1, 9), Record(2, 7)]))
    assert (batch.base_timestamp, batch.max_timestamp) == (5, 9)
    (empty,) = batches(write_batch([]))
    assert (empty.base_timestamp, empty.max_timestamp, empty.base_offset, empty.last_offset) == (-1, -1, 0, 0)


def test_other_records_under_a_header_leave_the_header_as_it_was() -> None:
    records = [Record(5, 1000, b"k", b"v"), Record(9, 900, None, b"w", (("h", None),))]
    fields: dict[str, Any] = {
        "last_offset": 11,
        "max_timestamp": 1000,
        "transactional": True,
        "delete_horizon": 950,
        "producer_id": 7,
        "producer_epoch": 2,
        "base_sequence": 3,
        "leader_epoch": 4,
    }
    folded, plain = (write_batch(records, codec=codec, **fields) for codec in (Compression.ZSTD, Compression.NONE))
    (batch,) = batches(folded)
    assert with_records(batch, records) == plain


@each_row(
    ("records", "fields"),
    [
        ([Record(5), Record(4)], {}),
        ([Record(5)], {"base_offset": 6}),
        ([Record(5)], {"last_offset": 4}),
        ([Record(5)], {"last_offset": 5 + (1 << 31)}),
        ([Record(1 << 63)], {}),
        ([Record(0, 1 << 63)], {}),
        ([Record(0)], {"producer_id": 1 << 63}),
        ([Record(0)], {"producer_epoch": 32768}),
        ([Record(0), Record(1 << 32)], {"last_offset": 1}),
        ([Record(0), Record(5)], {"last_offset": 4}),
        ([Record(0, key="text")], {}),  # type: ignore[arg-type]
        ([Record("0")], {}),  # type: ignore[arg-type]
        ([Record(0, headers=((b"name", b""),))], {}),  # type: ignore[arg-type]
        ([], {"codec": Compression.UNKNOWN}),
        ([], {"codec": "gzip"}),
    ],
)
def test_a_batch_with_impossible_values_is_malformed(records: list[Record], fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        write_batch(records, **fields)


def test_a_message_set_with_impossible_values_is_malformed() -> None:
    for records, fields in [
        ([Record(0, headers=(("h", b""),))], {}),
        ([Record(0)], {"codec": Compression.ZSTD}),
        ([], {"codec": Compression.GZIP}),
        ([Record(1 << 63)], {}),
        ([Record(0, 1 << 63)], {}),
        ([Record(0, value="text")], {}),  # type: ignore[arg-type]
    ]:
        with pytest.raises(Malformed):
            write_message_set(records, **fields)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not 2"):
        write_message_set([], magic=2)
    assert write_message_set([]) == b""


@each_row("codec", BATCH_CODECS)
def test_a_batch_moves_to_another_offset_with_its_checksum_and_records(codec: Compression) -> None:
    data = write_batch(plain_records(5), codec=codec)
    moved = with_base_offset(memoryview(data), 1 << 40, leader_epoch=6)
    assert (moved[8:12], moved[16:]) == (data[8:12], data[16:])
    assert [one.offset for one in read(moved)] == [(1 << 40) + place for place in range(5)]
    assert [one.value for one in read(moved)] == [one.value for one in plain_records(5)]
    (batch,) = batches(moved)
    assert batch.leader_epoch == 6
    assert with_base_offset(data, 1 << 40)[12:16] == data[12:16]


@each_row("codec", BATCH_CODECS)
def test_another_producers_batch_has_the_same_records_and_a_checksum_that_fits(codec: Compression) -> None:
    data = write_batch(plain_records(5), codec=codec)
    expected = write_batch(plain_records(5), codec=codec, producer_id=9, producer_epoch=8, base_sequence=7)
    assert with_producer(bytearray(data), 9, 8, 7) == expected


def test_only_one_whole_batch_of_magic_2_is_changed() -> None:
    data = write_batch([Record(0)])
    for wrong in (b"", data[:-1], data + data, data + b"x", write_message_set([Record(0)])):
        with pytest.raises(Malformed):
            with_base_offset(wrong, 5)
        with pytest.raises(Malformed):
            with_producer(wrong, 1, 2, 3)
    for change in (lambda: with_base_offset(data, 1 << 63), lambda: with_producer(data, 1, 32768, 0)):
        with pytest.raises(Malformed, match="no record or batch can hold that"):
            change()
    with pytest.raises(Malformed):
        with_base_offset(write_batch([Record(0), Record(1)]), (1 << 63) - 1)


def test_errors_name_the_format() -> None:
    with pytest.raises(Malformed, match=r"^records v2: no record or batch can hold that"):
        write_batch([Record(0, headers=(("\udc80", b""),))])
    for magic in (0, 1):
        with pytest.raises(Malformed, match=rf"^records v{magic}: headers in a message set"):
            write_message_set([Record(0, headers=(("name", b""),))], magic=magic)
