"""Tests of reading a segment while it grows, and past damaged parts."""

import errno
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from proxy.files import Folder, StrangeFileError
from recorder.capture import segments as module
from recorder.capture import spool
from recorder.capture.direct_io import DirectFile
from recorder.capture.segments import MAX_PLACES, SegmentReader, segment_name
from recorder.capture.spool import DamagedSegmentError, Entry, EntryKind, SegmentHead, UnknownSpoolError
from tests.sweeps import examples

HEAD = SegmentHead("s", 3, 1_700_000_000_000_000_000, 5, 77, "prod", 300, 4000)
ENCODED, SEED = spool.encode_head(HEAD)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Folder]:
    (tmp_path / "s").mkdir()
    with Folder.at(tmp_path / "s") as opened:
        yield opened


def chunk(offset: int, size: int, number: int = 0) -> Entry:
    return Entry(EntryKind.BYTES, 0, 1, offset, 1, b"x" * size, (), number)


def log_of(found: list[Entry], seed: int = SEED) -> bytes:
    return b"".join(spool.encoded_entry(entry[:-1], entry.number, seed) for entry in found)


def write_segment(session: Folder, log: bytes, encoded: bytes = ENCODED) -> Path:
    path = session.path / segment_name(HEAD.number)
    path.write_bytes(encoded + log)
    return path


def read_all(reader: SegmentReader, limit: int | None = None) -> list[Entry]:
    found: list[Entry] = []
    while more := reader.read(limit):
        found += more
    return found


def read_past_damage(reader: SegmentReader, limit: int | None = None) -> list[Entry]:
    found = read_all(reader, limit)
    while reader.pass_over(limit):
        found += read_all(reader, limit)
    reader.close()
    return found


STRANGE = ("000000009.log", "00000000.log", "9.log", "9" * 22 + ".log", "\N{ARABIC-INDIC DIGIT NINE}" * 8 + ".log")


def test_segments_are_listed_by_number_and_nothing_else_is(session: Folder) -> None:
    for name in (
        "00000010.log",
        "00000009.log",
        ".00000011.log",
        "writer.lock",
        "00000009.state",
        "123456789.log",
        *STRANGE,
    ):
        (session.path / name).touch()
    assert module.segments(session) == [9, 10, 123456789]


def test_a_segment_is_read_in_blocks_and_entries_above_a_block_too(
    session: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SegmentReader, "BLOCK", 100)
    written = [chunk(0, 30), chunk(30, 500), chunk(530, 1), chunk(531, 99)]
    write_segment(session, log_of(written))
    assert read_all(SegmentReader(session, 3)) == written


def test_a_growing_segment_is_read_on_where_it_was_torn(session: Folder) -> None:
    log = log_of([chunk(0, 10), chunk(10, 10)])
    path = write_segment(session, log[:-1])
    reader = SegmentReader(session, 3)
    assert read_all(reader) == [chunk(0, 10)]
    with path.open("ab") as file:
        file.write(log[-1:])
    assert read_all(reader) == [chunk(10, 10)]


def test_only_the_beginning_of_an_entry_is_torn(session: Folder) -> None:
    log = log_of([chunk(0, 10), chunk(10, 10)])
    size = len(log) // 2
    for length in range(size, len(log) + 1):
        write_segment(session, log[:length])
        reader = SegmentReader(session, 3)
        assert read_all(reader) == [chunk(0, 10), chunk(10, 10)][: length // size]
        assert reader.is_torn()
        reader.close()


@pytest.mark.parametrize("place", [0, 8, 30, -1])
def test_a_last_entry_with_a_wrong_byte_is_not_torn(session: Folder, place: int) -> None:
    log = bytearray(log_of([chunk(0, 10)]))
    log[place] ^= 1
    write_segment(session, bytes(log))
    reader = SegmentReader(session, 3)
    assert read_all(reader) == []
    assert not reader.is_torn()


def test_zeros_where_a_crash_lost_the_end_are_torn(session: Folder) -> None:
    write_segment(session, log_of([chunk(0, 10)]) + bytes(4096))
    reader = SegmentReader(session, 3)
    assert read_all(reader) == [chunk(0, 10)]
    assert reader.is_torn()


def test_bytes_after_a_segments_end_are_not_read(session: Folder) -> None:
    whole = log_of([chunk(0, 10)])
    write_segment(session, whole + log_of([chunk(10, 10)]))
    reader = SegmentReader(session, 3)
    limit = reader.position + len(whole)
    assert read_past_damage(reader, limit) == [chunk(0, 10)]
    assert reader.passed_over == 0


@pytest.mark.parametrize("length", [0, 1 << 31, (1 << 32) - 1])
def test_a_damaged_length_asks_for_no_more_than_there_is(session: Folder, length: int) -> None:
    log = bytearray(log_of([chunk(0, 10), chunk(10, 10)]))
    log[4:8] = length.to_bytes(4, "big")
    write_segment(session, bytes(log))
    assert read_past_damage(SegmentReader(session, 3)) == [chunk(10, 10)]


def test_an_oversized_entry_is_skipped_unread(session: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_ENTRY", 1000)
    monkeypatch.setattr(SegmentReader, "BLOCK", 100)
    write_segment(session, log_of([chunk(0, 2000), chunk(2000, 10)]))
    assert read_past_damage(SegmentReader(session, 3)) == [chunk(2000, 10)]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 90), min_size=1, max_size=12), data=st.data())
def test_whole_entries_around_damage_are_read_and_the_damaged_bytes_counted(
    session: Folder, sizes: list[int], data: st.DataObject
) -> None:
    written = [chunk(number, size, number) for number, size in enumerate(sizes)]
    ends = [len(log_of(written[:count])) for count in range(len(written) + 1)]
    log = bytearray(log_of(written))
    hit = set()
    for at in data.draw(st.sets(st.integers(0, len(log) - 1), max_size=3)):
        log[at] ^= 1 << data.draw(st.integers(0, 7))
        hit.add(sum(end <= at for end in ends) - 1)
    write_segment(session, bytes(log))
    reader = SegmentReader(session, 3)
    size = reader.size
    assert read_past_damage(reader) == [entry for entry in written if entry.number not in hit]
    lost = sum(ends[number + 1] - ends[number] for number in hit)
    assert reader.passed_over + size - reader.position == lost


def test_an_entry_is_found_after_damage_of_any_length(session: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry may begin anywhere in the stretches that are searched."""
    monkeypatch.setattr(SegmentReader, "BLOCK", 4096)
    last = chunk(7, 20)
    for length in (1, 4095, 4096, 4097, 12_250, 12_288, *range(4060, 4120)):
        write_segment(session, bytes(length) + log_of([last]))
        reader = SegmentReader(session, 3)
        assert read_past_damage(reader) == [last]
        assert reader.passed_over == length


@pytest.mark.parametrize("is_hole", [True, False], ids=["hole", "zeros"])
def test_a_run_of_zeros_is_skipped(session: Folder, monkeypatch: pytest.MonkeyPatch, is_hole: bool) -> None:
    """A hole takes no space on the disk, so it may have gigabytes."""
    size, first, last = (40 << 30) if is_hole else (16 << 20), chunk(0, 20), chunk(7, 20)
    path = write_segment(session, log_of([first]))
    with path.open("rb+") as file:
        for at in (size - 5, size + (1 << 20)):
            file.seek(at)
            file.write(log_of([last]))
        if not is_hole:
            file.seek(len(ENCODED) + len(log_of([first])))
            file.write(bytes(size - 5 - file.tell()))
    read, pread = [0], os.pread
    monkeypatch.setattr(os, "pread", lambda *told: (read.__setitem__(0, read[0] + told[1]), pread(*told))[1])
    likely: list[int] = []
    is_entry = SegmentReader._is_entry

    def noted(*told: Any) -> Any:
        likely.append(told[1])
        return is_entry(*told)

    monkeypatch.setattr(SegmentReader, "_is_entry", noted)
    assert read_past_damage(SegmentReader(session, 3)) == [first, last, last]
    assert read[0] < 100 << 20
    assert len(likely) < 100


def test_an_entry_with_more_spans_than_bytes_is_not_read(session: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_SPANS", 10)
    many = chunk(0, 20)._replace(spans=((0, 1),) * 11)
    write_segment(session, log_of([many, chunk(20, 5)._replace(spans=((0, 1),) * 3)]))
    assert [len(entry.spans) for entry in read_past_damage(SegmentReader(session, 3))] == [3]


def test_recorded_bytes_that_look_like_an_entry_are_not_read_as_one(session: Folder) -> None:
    """Takes a log that was itself sent through the proxy: its checksums begin with another segment's head."""
    other_head, other_seed = spool.encode_head(replace(HEAD, mono_ns=6))
    sent = other_head + log_of([chunk(0, 50)], other_seed)
    damaged = bytearray(log_of([chunk(0, 0)._replace(data=sent), chunk(len(sent), 10)]))
    damaged[0] ^= 1
    write_segment(session, bytes(damaged))
    assert read_past_damage(SegmentReader(session, 3)) == [chunk(len(sent), 10)]


def readings(session: Folder, log: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """Counts the bytes that are read of a segment until its end."""
    write_segment(session, log)
    reader, pread, total = SegmentReader(session, 3), os.pread, [0]

    def counted(descriptor: int, size: int, at: int) -> bytes:
        found = pread(descriptor, size, at)
        total[0] += len(found)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", counted)
        read_past_damage(reader)
    return total[0]


def test_forged_damage_takes_no_time(session: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentReader, "BLOCK", 1 << 16)
    good, bad = log_of([chunk(0, 1)]), log_of([chunk(0, 1)], SEED ^ 1)
    # every second entry is damaged, and an entry of half the segment seems to begin anywhere
    often = (good + bad) * 20_000
    everywhere = b"\x01" + (b"\0\0\0\0\0\x07\xff\xff\1\0\0\0\0\0\0\0" + bytes(10)) * 40_000
    for log in (often, everywhere):
        assert readings(session, log, monkeypatch) < MAX_PLACES * 4 * (1 << 16) + 8 * len(log)


@pytest.mark.parametrize("wrong", [{"session": "other"}, {"number": 4}], ids=["session", "number"])
def test_a_segment_of_another_place_is_refused(session: Folder, wrong: dict[str, Any]) -> None:
    write_segment(session, b"", spool.encode_head(replace(HEAD, **wrong))[0])
    with pytest.raises(UnknownSpoolError, match=r"00000003\.log says that it is segment"):
        SegmentReader(session, 3)


def test_a_bad_segment_raises_at_once(session: Folder) -> None:
    os.mkfifo(session.path / segment_name(1))
    (session.path / segment_name(2)).write_bytes(b"")
    with pytest.raises(StrangeFileError):
        SegmentReader(session, 1)
    with pytest.raises(DamagedSegmentError):
        SegmentReader(session, 2)
    with pytest.raises(FileNotFoundError):
        SegmentReader(session, 3)


@pytest.mark.parametrize("seed", range(5))
def test_a_segment_outside_the_page_cache_is_read_directly(
    session: Folder, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    written = [chunk(number, rng.randint(1, 300_000)) for number in range(60)]
    write_segment(session, log_of(written))
    # the kernel drops pages whenever it likes, so a test can't make it drop them
    monkeypatch.setattr(module, "is_cached", lambda *_: False)
    past: list[tuple[Any, ...]] = []
    read = DirectFile.read

    def noted(file: DirectFile, *where: Any) -> Any:
        past.append(where)
        return read(file, *where)

    monkeypatch.setattr(DirectFile, "read", noted)
    reader = SegmentReader(session, 3)
    assert read_all(reader) == written
    reader.close()
    assert sum(size for _, size in past) > sum(len(entry.data) for entry in written) // 2


def test_a_segment_is_read_through_the_cache_where_direct_reads_are_impossible(
    session: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [chunk(number, 300_000) for number in range(10)]
    write_segment(session, log_of(written))

    def refuses(*_: object) -> None:
        raise OSError("not here")

    monkeypatch.setattr(module, "is_cached", lambda *_: False)
    monkeypatch.setattr(module, "DirectFile", refuses)
    reader = SegmentReader(session, 3)
    assert read_all(reader) == written
    reader.close()


def test_a_segment_whose_direct_read_fails_is_read_through_the_cache(
    session: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [chunk(number, 300_000) for number in range(10)]
    write_segment(session, log_of(written))
    tries = []

    def refuses(_: object, at: int, size: int) -> bytes:
        tries.append(size)
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(module, "is_cached", lambda *_: False)
    monkeypatch.setattr(DirectFile, "read", refuses)
    reader = SegmentReader(session, 3)
    assert read_all(reader) == written
    assert len(tries) == 1
    reader.close()
