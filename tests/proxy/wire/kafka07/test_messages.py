"""Tests of messages of 0.7: offsets in bytes, cut ends, wrappers; against a writer of plain byte strings."""

import binascii
import gzip
import tracemalloc

import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.budget import Budget
from proxy.wire.errors import Malformed, OverBudget
from proxy.wire.kafka07.messages import (
    Cut,
    LogMessage,
    Tail,
    compressed,
    message,
    message_set,
    read,
    shallow,
    tail,
)
from proxy.wire.records.compression import DEEPEST
from proxy.wire.records.kinds import Compression
from tests.proxy.wire.kafka07.values import hostile, integer, sized
from tests.tables import each_row

PAYLOADS = st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 1)), max_size=6)
STARTS = st.integers(0, 1 << 60)
GZIP, SNAPPY = 1, 2


def obvious(payload: bytes, magic: int = 1, attributes: int = 0) -> bytes:
    head = integer(magic, 1) + (integer(attributes, 1) if magic else b"")
    return sized(head + binascii.crc32(payload).to_bytes(4, "big") + payload, 4)


def gzipped(*messages: bytes) -> bytes:
    return obvious(gzip.compress(b"".join(messages)), attributes=GZIP)


def log_of(payloads: list[tuple[bytes, int]]) -> bytes:
    return b"".join(obvious(payload, magic) for payload, magic in payloads)


@given(PAYLOADS, STARTS)
def test_messages_of_both_magics_are_read_with_their_places_in_the_log(
    payloads: list[tuple[bytes, int]], start: int
) -> None:
    log = log_of(payloads)
    for buffer in (log, bytearray(log), memoryview(log)):
        told = list(read(buffer, start))
        assert [(one.payload, one.magic) for one in told] == payloads
        assert told == list(shallow(buffer, start))
    place = start
    for one, (payload, magic) in zip(told, payloads, strict=True):
        assert (one.offset, one.next_offset) == (place, place + len(obvious(payload, magic)))
        assert (one.attributes, one.checksum, one.intact) == (0, binascii.crc32(payload), True)
        place = one.next_offset
    assert tail(log) == Tail(len(log), Cut.NOWHERE, None)


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(0, 1))
def test_messages_are_written_as_the_page_lays_them_out(payloads: list[bytes], magic: int) -> None:
    assert message_set(payloads, magic=magic) == b"".join(obvious(payload, magic) for payload in payloads)


@given(PAYLOADS)
def test_a_fetch_may_end_anywhere(payloads: list[tuple[bytes, int]]) -> None:
    log = log_of(payloads)
    whole = list(shallow(log))
    ends = [0, *(one.next_offset for one in whole)]
    for size in range(len(log) + 1):
        done = max(end for end in ends if end <= size)
        assert list(read(log[:size])) == whole[: ends.index(done)]
        rest = tail(log[:size])
        assert rest.whole == done
        if done == size:
            assert rest == Tail(size, Cut.NOWHERE, None)
        else:
            header = 4 + (6 if log[done + 4] else 5)
            needs = ends[ends.index(done) + 1] - done
            left = size - done
            # as long as the magic is missing, the header counts as the shorter one
            cut = Cut.LENGTH if left < 4 else Cut.HEADER if left < (header if left > 4 else 9) else Cut.PAYLOAD
            assert rest == Tail(done, cut, needs if left >= 4 else None)


def test_a_fetch_smaller_than_its_first_message_says_how_much_it_takes() -> None:
    log = obvious(bytes(1000))
    assert list(read(log[:300])) == []
    assert tail(log[:300]) == Tail(0, Cut.PAYLOAD, len(log))


@given(st.binary(max_size=200))
def test_hostile_bytes_raise_the_error_family_and_nothing_else(data: bytes) -> None:
    with hostile(data):
        assert tail(data).whole == sum(one.next_offset - one.offset for one in shallow(data))
    with hostile(data):
        list(read(data, check_crc=False))


@given(st.binary(max_size=60), st.integers(0, 3), st.integers(0, 1))
def test_hostile_payloads_raise_the_error_family_and_nothing_else(data: bytes, attributes: int, magic: int) -> None:
    log = obvious(data, magic, attributes)
    with hostile(log):
        list(read(log))


@each_row(
    ("data", "reason"),
    [
        (integer(4, 4) + b"\0", "4 bytes: its header has 5"),
        (integer(5, 4) + b"\1", "5 bytes: its header has 6"),
        (integer(-1, 4), "-1 bytes"),
        (integer(10, 4) + b"\2", "magic 2"),
        (integer(10, 4) + b"\xff", "magic 255"),
    ],
)
def test_lengths_and_magics_that_can_not_be_are_malformed(data: bytes, reason: str) -> None:
    log = obvious(b"good") + data
    for run in (shallow, read, lambda buf: [tail(buf)]):
        with pytest.raises(Malformed, match=reason) as caught:
            list(run(log))
        assert caught.value.api == "0.7 message"
        assert caught.value.offset in (len(log) - len(data), len(log) - 1)


def test_checksums_are_checked_on_demand() -> None:
    good, bad = obvious(b"good"), bytearray(obvious(b"bad"))
    bad[-1] ^= 1
    log = good + bad
    assert [one.intact for one in shallow(log)] == [True, False]
    assert [one.payload for one in read(log, check_crc=False)] == [b"good", b"bae"]
    messages = read(log, 100)
    assert next(messages).payload == b"good"
    with pytest.raises(Malformed, match="checksum") as caught:
        next(messages)
    assert caught.value.offset == len(good)


def test_the_checksum_of_a_wrapper_is_of_what_is_compressed() -> None:
    wrapper = bytearray(gzipped(obvious(b"a")))
    wrapper[6] ^= 1
    with pytest.raises(Malformed, match="checksum"):
        list(read(wrapper))
    assert [one.payload for one in read(wrapper, check_crc=False)] == [b"a"]


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), STARTS)
def test_nested_messages_have_the_wrappers_place_and_the_last_one_leads_behind_it(
    payloads: list[bytes], start: int
) -> None:
    before = obvious(b"before")
    wrapper = gzipped(*map(obvious, payloads))
    first, *nested, last = read(before + wrapper + obvious(b"after"), start)
    place, behind = start + len(before), start + len(before) + len(wrapper)
    assert first.next_offset == place
    assert [one.payload for one in nested] == payloads
    assert {one.offset for one in nested} == {place}
    assert [one.next_offset for one in nested] == [place] * (len(payloads) - 1) + [behind]
    assert last == LogMessage(behind, behind + len(obvious(b"after")), 1, 0, binascii.crc32(b"after"), b"after")


def test_wrappers_are_shown_as_they_stand_on_demand() -> None:
    wrapper = gzipped(obvious(b"a"), obvious(b"b"))
    (one,) = shallow(wrapper, 70)
    assert (one.codec, one.offset, one.next_offset) == (Compression.GZIP, 70, 70 + len(wrapper))
    assert gzip.decompress(one.payload) == obvious(b"a") + obvious(b"b")


@given(st.lists(st.binary(max_size=40), max_size=5), st.sampled_from([Compression.GZIP, Compression.SNAPPY]))
def test_a_compressed_message_set_is_read_back(payloads: list[bytes], codec: Compression) -> None:
    wrapper = compressed(message_set(payloads), codec)
    assert [one.payload for one in read(wrapper)] == payloads
    assert [one.codec for one in shallow(wrapper)] == [codec]


def test_gzip_is_what_gzip_reads() -> None:
    (one,) = shallow(compressed(message_set([b"a", b"b"]), Compression.GZIP))
    assert gzip.decompress(one.payload) == obvious(b"a") + obvious(b"b")


def test_snappy_may_come_as_one_bare_block() -> None:
    block = snappy.compress(obvious(b"a") + obvious(b"b"))
    assert [one.payload for one in read(obvious(block, attributes=SNAPPY))] == [b"a", b"b"]


def test_only_two_bits_of_the_attributes_say_how_it_is_compressed() -> None:
    payload = gzip.compress(obvious(b"a"))
    (wrapper,) = shallow(obvious(payload, attributes=0x7D))
    assert (wrapper.attributes, wrapper.codec) == (0x7D, Compression.GZIP)
    assert [one.payload for one in read(obvious(payload, attributes=0x7D))] == [b"a"]


def test_a_batch_of_a_missing_codec_is_malformed_once_its_records_are_read() -> None:
    log = obvious(b"a") + obvious(b"?", attributes=3)
    assert [one.codec for one in shallow(log)] == [Compression.NONE, Compression.UNKNOWN]
    with pytest.raises(Malformed, match="codec") as caught:
        list(read(log))
    assert caught.value.offset == len(obvious(b"a"))


def test_an_empty_wrapper_is_no_message_but_takes_its_place() -> None:
    wrapper = gzipped()
    (after,) = read(wrapper + obvious(b"after"), 10)
    assert (after.payload, after.offset) == (b"after", 10 + len(wrapper))
    assert list(read(wrapper)) == []
    assert tail(wrapper).whole == len(wrapper)


def test_a_wrapper_whose_contents_are_cut_is_malformed() -> None:
    with pytest.raises(Malformed, match="cut"):
        list(read(gzipped(obvious(b"a"), obvious(b"b")[:-1])))


def test_wrappers_in_wrappers_are_read_as_deep_as_is_sane() -> None:
    log, place = obvious(b"core"), 0
    for _ in range(DEEPEST):
        log = gzipped(log)
    (core,) = read(log, place)
    assert (core.payload, core.offset, core.next_offset) == (b"core", 0, len(log))
    with pytest.raises(Malformed, match="more than"):
        list(read(gzipped(log)))


def test_a_budget_is_one_of_all_wrappers_and_replaces_the_limit() -> None:
    log = gzipped(obvious(bytes(1000))) * 3
    found = read(log, limit=10, budget=Budget(2500))
    assert [len(next(found).payload) for _ in range(2)] == [1000, 1000]
    with pytest.raises(OverBudget) as caught:
        next(found)
    assert caught.value.offset == 2 * len(log) // 3


def test_a_bomb_stops_at_the_limit_however_it_is_packed() -> None:
    plain = obvious(bytes(50 << 20))
    many = gzipped(*[gzipped(obvious(bytes(60_000)))] * 20)
    assert len(list(read(many, limit=20 * 61_000))) == 20
    tracemalloc.start()
    try:
        bomb = gzipped(plain)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for log in (bomb, many):
            with pytest.raises(OverBudget, match="unfolding makes more") as caught:
                list(read(log, limit=1 << 20))
            assert caught.value.offset == 0
        assert tracemalloc.get_traced_memory()[1] - before < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("magic", "codec"), [(2, Compression.NONE), (-1, Compression.NONE), (0, Compression.GZIP), (1, Compression.LZ4)]
)
def test_a_message_that_0_7_lacks_is_not_written(magic: int, codec: Compression) -> None:
    with pytest.raises(ValueError, match="no message"):
        message(b"", magic=magic, codec=codec)


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD, Compression.UNKNOWN])
def test_messages_are_not_compressed_with_later_codecs(codec: Compression) -> None:
    with pytest.raises(ValueError, match="no message"):
        compressed(b"", codec)
