"""The log's format: every whole entry of a torn log is read, and nothing else is."""

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.capture import spool
from recorder.capture.blocks import LARGE, is_cached
from recorder.capture.spool import DamagedSegmentError, Entry, Kind, SegmentHead, SegmentReader, UnknownSpoolError

HEAD = SegmentHead("20261121T130000Z-abc", 3, 1_700_000_000_000_000_000, 5, 77, "prod")


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    data = draw(st.binary(max_size=60))
    spans = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), max_size=3)) if data else []
    return Entry(
        draw(st.sampled_from(list(Kind))),
        draw(st.integers(0, 1)),
        draw(st.integers(-1, 1 << 40)),
        draw(st.integers(-(1 << 31), 1 << 62)),
        draw(st.integers(0, 1 << 62)),
        data,
        tuple(spans),
    )


def log_of(found: list[Entry]) -> bytes:
    return b"".join(spool.entry_head(*entry) + entry.data for entry in found)


@given(st.lists(entries(), max_size=5))
def test_entries_are_read_as_they_were_written(written: list[Entry]) -> None:
    log = log_of(written)
    assert [entry for entry, _ in spool.entries(log)] == written
    assert [end for _, end in spool.entries(log)][-1:] == [len(log)][: len(written)]


@given(st.lists(entries(), min_size=1, max_size=4))
def test_of_a_log_torn_anywhere_every_whole_entry_is_read(written: list[Entry]) -> None:
    ends = [len(log_of(written[:count])) for count in range(len(written) + 1)]
    log = log_of(written)
    for length in range(len(log) + 1):
        whole = sum(end <= length for end in ends) - 1
        assert [entry for entry, _ in spool.entries(log[:length])] == written[:whole]


@given(st.lists(entries(), min_size=1, max_size=3), st.data())
def test_a_flipped_bit_is_never_read(written: list[Entry], data: st.DataObject) -> None:
    log = bytearray(log_of(written))
    at = data.draw(st.integers(0, len(log) * 8 - 1))
    log[at // 8] ^= 1 << at % 8
    ends = [len(log_of(written[:count])) for count in range(1, len(written) + 1)]
    before = sum(end <= at // 8 for end in ends)
    assert [entry for entry, _ in spool.entries(bytes(log))] == written[:before]


def test_a_head_is_read_as_it_was_written() -> None:
    encoded = spool.encode_head(HEAD)
    assert spool.decode_head(encoded + b"more") == (HEAD, len(encoded))


def test_a_torn_head_is_said_to_be_damaged_wherever_it_ends() -> None:
    encoded = spool.encode_head(HEAD)
    for length in range(len(encoded)):
        with pytest.raises(DamagedSegmentError):
            spool.decode_head(encoded[:length])


def test_a_newer_format_is_refused_by_its_number() -> None:
    encoded = bytearray(spool.encode_head(HEAD))
    encoded[9] = 9
    with pytest.raises(UnknownSpoolError, match="spool format 9"):
        spool.decode_head(bytes(encoded))


def test_segments_are_listed_by_number_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("00000010.log", "00000009.log", ".00000011.log", "writer.lock", "00000009.state", "123456789.log"):
        (tmp_path / name).touch()
    assert spool.segments(tmp_path) == [9, 10, 123456789]
    assert spool.segments(tmp_path / "missing") == []


def write_segment(tmp_path: Path, log: bytes) -> Path:
    path = spool.segment_path(tmp_path, HEAD.number)
    path.write_bytes(spool.encode_head(HEAD) + log)
    return path


def read_all(reader: SegmentReader, limit: int | None = None) -> list[Entry]:
    found: list[Entry] = []
    while more := reader.read(limit):
        found += more
    return found


def chunk(offset: int, size: int) -> Entry:
    return Entry(Kind.BYTES, 0, 1, offset, 1, b"x" * size)


def test_a_segment_is_read_in_blocks_and_entries_above_a_block_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SegmentReader, "BLOCK", 100)
    written = [chunk(0, 30), chunk(30, 500), chunk(530, 1), chunk(531, 99)]
    reader = SegmentReader(write_segment(tmp_path, log_of(written)))
    assert read_all(reader) == written


def test_a_growing_segment_is_read_on_where_it_was_torn(tmp_path: Path) -> None:
    log = log_of([chunk(0, 10), chunk(10, 10)])
    path = write_segment(tmp_path, log[:-1])
    reader = SegmentReader(path)
    assert read_all(reader) == [chunk(0, 10)]
    with path.open("ab") as file:
        file.write(log[-1:])
    assert read_all(reader) == [chunk(10, 10)]


def test_what_stands_behind_a_segments_end_is_not_read(tmp_path: Path) -> None:
    whole = log_of([chunk(0, 10)])
    reader = SegmentReader(write_segment(tmp_path, whole + log_of([chunk(10, 10)])))
    assert read_all(reader, reader.position + len(whole)) == [chunk(0, 10)]


def test_a_damaged_length_asks_for_no_more_than_there_is(tmp_path: Path) -> None:
    log = bytearray(log_of([chunk(0, 10)]))
    log[4:8] = b"\xff\xff\xff\xff"
    reader = SegmentReader(write_segment(tmp_path, bytes(log)))
    assert read_all(reader) == []


def test_the_facts_of_an_entry_are_its_json() -> None:
    assert Entry(Kind.CLOSED, 0, 7, 0, 9, b'{"cause":"drained"}').facts() == {"cause": "drained"}


@pytest.mark.parametrize("seed", range(5))
def test_what_is_not_in_the_page_cache_is_read_past_it(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    written = [chunk(number, rng.randint(1, 300_000)) for number in range(60)]
    path = write_segment(tmp_path, log_of(written))
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert not is_cached(file.fileno(), 5 * LARGE)
        reader = SegmentReader(path)
        assert read_all(reader) == written
        reader.close()
        assert not is_cached(file.fileno(), 3 * LARGE)


def test_where_it_can_only_be_read_through_the_cache_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [chunk(number, 300_000) for number in range(10)]
    path = write_segment(tmp_path, log_of(written))

    def refuses(*_: object) -> None:
        raise OSError("not here")

    monkeypatch.setattr(spool, "is_cached", lambda *_: False)
    monkeypatch.setattr(spool, "BlockFile", refuses)
    reader = SegmentReader(path)
    assert read_all(reader) == written
    reader.close()


def test_where_a_file_can_be_opened_so_but_not_read_it_is_read_through_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [chunk(number, 300_000) for number in range(10)]
    path, tries = write_segment(tmp_path, log_of(written)), []

    def refuses(_: object, at: int, size: int) -> bytes:
        tries.append(size)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(spool, "is_cached", lambda *_: False)
    monkeypatch.setattr(spool.BlockFile, "read", refuses)
    reader = SegmentReader(path)
    assert read_all(reader) == written
    assert len(tries) == 1
    reader.close()
