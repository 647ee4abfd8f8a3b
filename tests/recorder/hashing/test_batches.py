"""Tests of batches with hashed values: every format and codec, against other codecs, and what can't be read."""

import struct
from itertools import product
from zlib import crc32

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from proxy.wire import catalog
from proxy.wire.compile.record_finder import ALL
from proxy.wire.framing import framed
from proxy.wire.keys import FETCH
from proxy.wire.records import (
    Compression,
    ControlType,
    Record,
    TimestampType,
    batches,
    compress,
    end_marker_batch,
    read,
    verify,
    write_batch,
    write_message_set,
)
from proxy.wire.records.blank import HEADS
from proxy.wire.records.walk import RecordWalk
from recorder.hashing.batches import DROPPED, HASHED, KEPT, FrameBudget, Rewritten, rewritten
from recorder.hashing.hasher import Hasher
from tests.proxy.wire.records.samples import BATCH_CODECS, MESSAGE_CODECS, few, record_lists
from tests.tables import each_row

HASHER = Hasher(b"a key of thirty-two bytes or more")
SECRET = b"4111-1111-1111-1111"
SECRETS = [Record(7, 1_700_000_000_000, SECRET, SECRET * 20, (("name", SECRET),)), Record(8, -1, None, SECRET)]
SETS = [*product([0, 1], MESSAGE_CODECS)]
every_batch_codec = each_row("codec", BATCH_CODECS)
every_set = each_row(("magic", "codec"), SETS)


def hashed(data: bytes, **options: bool) -> Rewritten:
    return rewritten(data, HASHER, FrameBudget(), **options)


def with_hashes(record: Record) -> Record:
    headers = tuple((name, HASHER.hashed(value)) for name, value in record.headers)
    return record._replace(key=HASHER.hashed(record.key), value=HASHER.hashed(record.value), headers=headers)


def filled(found: Rewritten) -> bytes:
    """The batches with zeros in place of what is left out."""
    out, data, at = bytearray(), found.data, 0
    for start, length in found.omitted:
        piece = start - len(out)
        out += data[at : at + piece] + bytes(length)
        at += piece
    return bytes(out) + data[at:]


# the header's fields that a rewrite changes: size, checksum, and the codec in the attributes
def header(data: bytes) -> tuple[object, ...]:
    (batch,) = batches(data)
    return batch._replace(end=0, crc=0, attributes=batch.attributes & ~7)


@every_batch_codec
@few
@given(records=record_lists(smallest=1), append=st.booleans(), horizon=st.none() | st.integers(0, 1 << 41))
def test_a_batch_keeps_its_header_and_its_records_but_for_their_values(
    codec: Compression, records: list[Record], append: bool, horizon: int | None
) -> None:
    data = write_batch(
        records,
        codec=codec,
        last_offset=records[-1].offset + 3,
        timestamp_type=TimestampType.LOG_APPEND if append else TimestampType.CREATE,
        max_timestamp=1_700_000_000_000 if append else None,
        delete_horizon=horizon,
        transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=41,
        leader_epoch=9,
    )
    found = hashed(data)
    assert header(found.data) == header(data)
    assert [batch.codec for batch in batches(found.data)] == [Compression.NONE]
    # reads with a check of the checksum
    assert [*read(found.data)] == [with_hashes(record) for record in read(data)]
    assert found.omitted == []
    assert found.told == [(HASHED, codec.value, len(data), True, 1)]


def test_own_times_of_records_stay_where_the_brokers_counts() -> None:
    data = write_batch(SECRETS, timestamp_type=TimestampType.LOG_APPEND, max_timestamp=5)
    plain = bytearray(hashed(data).data)
    plain[22] &= ~8
    assert [record.timestamp for record in read(plain, check_crc=False)] == [1_700_000_000_000, -1]


@every_set
@few
@given(records=record_lists(headers=False, smallest=1, tame=True), append=st.booleans())
def test_a_message_set_keeps_offsets_and_times(
    magic: int, codec: Compression, records: list[Record], append: bool
) -> None:
    kind = TimestampType.LOG_APPEND if append and magic else TimestampType.CREATE
    data = write_message_set(records, magic=magic, codec=codec, timestamp_type=kind)
    found = hashed(data)
    assert [*read(found.data)] == [with_hashes(record) for record in read(data)]
    assert {batch.magic for batch in batches(found.data)} == {magic}
    wrapped = [(HASHED, codec.value, len(data), True, len(records))]
    plain = [(HASHED, "none", batch.end - batch.start, True, 1) for batch in batches(data)]
    assert found.told == (plain if codec is Compression.NONE else wrapped)


@every_batch_codec
@few
@given(records=record_lists(smallest=1, tame=True))
def test_other_clients_read_the_hashes(codec: Compression, records: list[Record]) -> None:
    found = hashed(write_batch(records, codec=codec)).data
    expected = [(one.offset, one.key, one.value, one.headers) for one in map(with_hashes, records)]
    theirs = []
    for batch in MemoryRecords(found):
        assert batch.validate_crc()
        theirs += [(one.offset, one.key, one.value, tuple(one.headers)) for one in batch]
    assert theirs == expected
    reader, theirs = AiokafkaRecords(found), []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        theirs += [(one.offset, one.key, one.value, tuple(one.headers)) for one in batch]
    assert theirs == expected


@every_set
@few
@given(records=record_lists(headers=False, smallest=1, tame=True))
def test_other_clients_read_hashed_message_sets(magic: int, codec: Compression, records: list[Record]) -> None:
    found = hashed(write_message_set(records, magic=magic, codec=codec)).data
    theirs = []
    for batch in MemoryRecords(found):
        assert batch.validate_crc()
        theirs += [(one.offset, one.key, one.value) for one in batch]
    assert theirs == [(one.offset, one.key, one.value) for one in map(with_hashes, records)]


def test_formats_may_follow_each_other_and_the_last_may_be_cut_off() -> None:
    whole = [write_message_set(SECRETS[1:], magic=0), write_message_set(SECRETS[1:], codec=Compression.GZIP)]
    whole.append(write_batch(SECRETS, codec=Compression.ZSTD))
    plain = write_batch(SECRETS)
    for cut in range(len(plain)):
        found = hashed(b"".join(whole) + plain[:cut])
        parts = [hashed(data).data for data in whole]
        assert found.data == b"".join(parts) + plain[: min(cut, 61) if cut > 16 else 0]
        assert filled(found).startswith(b"".join(parts))
        assert len(filled(found)) == sum(map(len, parts)) + cut
        assert len(found.told) == 3


@pytest.mark.parametrize("magic", [0, 1])
def test_of_a_message_that_is_cut_off_only_the_header_stays(magic: int) -> None:
    plain = write_message_set([SECRETS[1]._replace(key=SECRET)], magic=magic)
    for cut in range(len(plain)):
        found = hashed(plain[:cut])
        assert found.data == plain[: min(cut, HEADS[magic]) if cut > 16 else 0]
        assert len(filled(found)) == cut


MARKER = end_marker_batch(
    ControlType.COMMIT, offset=9, timestamp=1, producer_id=5, producer_epoch=1, coordinator_epoch=2
)


def test_the_markers_of_transactions_ends_stay_where_a_broker_sends_them() -> None:
    data = MARKER
    assert hashed(data) == (data, [], [(KEPT, "none", len(data), True, 1)])
    found = hashed(data, by_broker=False)
    assert (found.data, found.omitted) == (data[:61], [(61, len(data) - 61)])
    assert found.told == [(DROPPED, "none", len(data), True, 1)]


OTHER_CONTROL = [
    write_batch([SECRETS[0]], control=True),
    # as long as a marker
    write_batch([Record(0, 1, b"4", b""), Record(1, 1, b"1", b"1")], control=True),
]


@pytest.mark.parametrize("control", [MARKER, *OTHER_CONTROL])
def test_of_control_batches_the_same_are_kept_where_records_are_hashed_and_where_they_are_dropped(
    control: bytes,
) -> None:
    partition = {"partition_index": 0, "records": control}
    frame = framed(catalog.encode_response(FETCH, 12, 1, {"responses": [{"topic": "t", "partitions": [partition]}]}))
    walk = RecordWalk(catalog.must("response", FETCH, 12).find_records, lambda *_: ALL, head=8, by_broker=True)
    begin = frame.index(control)
    dropped = [(start - begin, stop - start) for start, stop in walk.feed(frame)]
    assert hashed(control).omitted == dropped
    assert bool(dropped) is (control != MARKER)


def damaged(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


def test_a_batch_of_a_wrong_checksum_that_can_be_read_is_hashed_and_told() -> None:
    data = write_batch(SECRETS)
    found = hashed(damaged(data, 20, data[20] ^ 1))
    assert [*read(found.data)] == [with_hashes(record) for record in SECRETS]
    assert [told.is_intact for told in found.told] == [False]


@pytest.mark.parametrize(
    "data",
    [
        damaged(write_batch(SECRETS, codec=Compression.GZIP), 22, 7),
        damaged(write_batch(SECRETS, codec=Compression.ZSTD), 70, 0),
        damaged(write_batch(SECRETS), 22, 4),
        damaged(write_batch(SECRETS), 60, 3),
        damaged(write_message_set(SECRETS[1:], codec=Compression.SNAPPY), 60, 255),
    ],
    ids=["unknown codec", "broken codec", "plain under a codec", "more records than there are", "broken wrapper"],
)
def test_what_cannot_be_read_is_dropped_and_what_follows_is_hashed(data: bytes) -> None:
    (batch,) = batches(data)
    after = write_batch(SECRETS)
    found = hashed(data + after)
    size = HEADS[batch.magic]
    assert found.data == data[:size] + hashed(after).data
    assert found.omitted == [(size, len(data) - size)]
    assert [told.rule for told in found.told] == [DROPPED, HASHED]
    assert [told.size for told in found.told] == [len(data), len(after)]


@pytest.mark.parametrize("codec", [codec for codec in BATCH_CODECS if codec is not Compression.NONE])
def test_a_bomb_is_dropped_and_takes_its_own_part_alone(codec: Compression) -> None:
    bomb = write_batch([Record(0, 0, value=bytes(4 << 20))], codec=codec)
    usual = write_batch(SECRETS, codec=codec)
    found = rewritten(bomb + usual, HASHER, FrameBudget(3 << 20))
    assert [told.rule for told in found.told] == [DROPPED, DROPPED]
    found = rewritten(usual + bomb, HASHER, FrameBudget(3 << 20))
    assert [told.rule for told in found.told] == [HASHED, DROPPED]


def test_hashes_that_would_fill_the_memory_are_not_made() -> None:
    many = write_batch([Record(place, 0, b"", b"") for place in range(30_000)], codec=Compression.GZIP)
    assert [told.rule for told in rewritten(many, HASHER, FrameBudget(3 << 20)).told] == [DROPPED]
    assert [told.rule for told in rewritten(many, HASHER, FrameBudget(5 << 20)).told] == [HASHED]


def test_behind_so_many_batches_nothing_is_kept() -> None:
    one = write_batch(SECRETS)
    found = rewritten(one * 5, HASHER, FrameBudget(batches=3))
    assert found.data == hashed(one).data * 3 + one[:61]
    assert [told.rule for told in found.told] == [HASHED] * 3
    assert SECRET not in rewritten(one * 5, HASHER, FrameBudget(batches=0)).data


def test_bytes_that_are_no_batch_are_left_out_with_all_that_follows() -> None:
    usual = write_batch(SECRETS)
    strange = damaged(usual, 16, 9)
    found = hashed(usual + strange + usual)
    assert found.data == hashed(usual).data
    assert found.omitted == [(len(found.data), len(strange + usual))]
    assert len(found.told) == 1


@few
@given(
    st.binary(max_size=200) | st.integers(0, 200).map(lambda size: write_batch(SECRETS)[:size]), st.binary(max_size=30)
)
def test_no_bytes_end_it_and_all_that_are_no_header_are_left_out(before: bytes, after: bytes) -> None:
    data = before + SECRET + after
    found = hashed(data)
    assert len(filled(found)) == len(found.data) + sum(length for _, length in found.omitted)
    if not found.told:
        # at most the header of a batch that is cut off
        assert len(found.data) <= HEADS[2]
        assert data.startswith(found.data)


@pytest.mark.parametrize(("magic", "codec"), [*SETS, *product([2], BATCH_CODECS)])
def test_no_planted_value_is_left(magic: int, codec: Compression) -> None:
    records = [record._replace(headers=record.headers if magic == 2 else ()) for record in SECRETS]
    data = write_batch(records, codec=codec) if magic == 2 else write_message_set(records, magic=magic, codec=codec)
    assert SECRET not in hashed(data).data


def test_a_wrapper_in_a_wrapper_becomes_plain_messages() -> None:
    inner = write_message_set([Record(3, -1, None, SECRET), Record(4, -1, b"k", None)], magic=0, codec=Compression.GZIP)
    wrapper = Record(4, -1, None, compress(Compression.SNAPPY, inner))
    plain = bytearray(write_message_set([wrapper], magic=0))
    plain[17] = 2
    struct.pack_into(">I", plain, 12, crc32(plain[16:]))
    (batch,) = batches(plain)
    verify(plain, batch)
    found = hashed(bytes(plain))
    assert [(one.offset, one.key, one.value) for one in read(found.data)] == [
        (3, None, HASHER.hashed(SECRET)),
        (4, HASHER.hashed(b"k"), None),
    ]
    assert found.told == [(HASHED, "snappy", len(plain), True, 2)]
