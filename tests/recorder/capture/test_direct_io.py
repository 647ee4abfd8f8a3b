"""Tests of writing past the page cache: the same bytes, in whole blocks, and none in the cache."""

import errno
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from recorder.capture import direct_io
from recorder.capture.direct_io import (
    BLOCK,
    BUFFER,
    GROUPS_PER_TRIAL,
    MAX_WRITE_SECONDS,
    TRIAL_BYTES,
    DirectFile,
    DirectWriteLimit,
    ShortWrite,
    is_cached,
)

# more bytes than any file here
ALL = 1 << 40

BlocksOf = Callable[..., DirectFile]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "segment"


@pytest.fixture
def blocks_of(path: Path) -> Iterator[BlocksOf]:
    opened: list[DirectFile] = []

    def of(content: bytes = b"", flags: int = os.O_WRONLY) -> DirectFile:
        path.write_bytes(content)
        opened.append(DirectFile(os.open(path, flags | os.O_DIRECT)))
        return opened[-1]

    yield of
    for one in opened:
        one.close()


def pieces_of(rng: random.Random, total: int, largest: int) -> list[bytes]:
    pieces = []
    while total > 0:
        pieces.append(rng.randbytes(min(total, rng.randint(0, largest))))
        total -= len(pieces[-1])
    return pieces


@pytest.mark.parametrize("begun", [0, 1, 40, BLOCK - 1])
@pytest.mark.parametrize("total", [0, 1, BLOCK - 1, BLOCK, BUFFER - BLOCK, BUFFER, BUFFER + 1, 3 * BUFFER + 77])
def test_only_whole_blocks_are_appended(begun, total, blocks_of, path):
    rng = random.Random(begun * 7 + total)
    before = rng.randbytes(2 * BLOCK + begun)
    pieces = pieces_of(rng, total, 300_000)
    blocks_of(before).append(pieces, len(before), before[2 * BLOCK :], ALL)
    whole = before + b"".join(pieces)
    kept = len(whole) - len(whole) % BLOCK
    assert path.read_bytes() == (whole[:kept] if kept > len(before) else before)


@pytest.mark.parametrize("seed", range(5))
def test_pieces_may_be_tiny_and_many(seed, blocks_of, path):
    rng = random.Random(seed)
    pieces = [rng.randbytes(rng.randint(0, 60)) for _ in range(2_500)]
    blocks_of().append(pieces, 0, b"", ALL)
    whole = b"".join(pieces)
    assert path.read_bytes() == whole[: len(whole) - len(whole) % BLOCK]


def test_a_piece_may_be_larger_than_the_buffer(blocks_of, path):
    piece = random.Random(0).randbytes(2 * BUFFER + 5 * BLOCK)
    blocks_of().append([piece], 0, b"", ALL)
    assert path.read_bytes() == piece


def test_each_piece_is_copied_before_the_next_one_is_made(blocks_of, path):
    piece = bytearray(300_000)

    def made_in_one_place() -> Iterator[bytearray]:
        for number in range(40):
            piece[:] = bytes([number]) * len(piece)
            yield piece

    blocks_of().append(made_in_one_place(), 0, b"", ALL)
    whole = b"".join(bytes([number]) * len(piece) for number in range(40))
    assert path.read_bytes() == whole[: len(whole) - len(whole) % BLOCK]


def test_the_seconds_of_an_append_are_those_of_the_disk_alone(blocks_of, monkeypatch):
    now, write = [0.0], os.pwritev

    def slowly_made() -> Iterator[bytes]:
        for _ in range(3):
            now[0] += 100
            yield bytes(BUFFER)

    def at_a_pace(descriptor: int, pieces: Sequence[bytes], at: int) -> int:
        now[0] += 0.5
        return write(descriptor, pieces, at)

    monkeypatch.setattr("recorder.capture.direct_io.time.monotonic", lambda: now[0])
    monkeypatch.setattr("recorder.capture.direct_io.os.pwritev", at_a_pace)
    assert blocks_of().append(slowly_made(), 0, b"", ALL) == (3 * BUFFER, 1.5)


@pytest.mark.parametrize("seed", range(20))
def test_any_part_is_read_as_it_stands_in_the_file(seed, blocks_of):
    rng = random.Random(seed)
    content = rng.randbytes(rng.randint(1, 2 * BUFFER))
    at = rng.randrange(len(content))
    size = rng.choice([1, BLOCK, rng.randint(1, BUFFER), BUFFER])
    assert blocks_of(content, os.O_RDONLY).read(at, size) == content[at : at + size]


def test_direct_writes_and_reads_leave_no_pages_in_the_cache(blocks_of, path):
    blocks_of().append([bytes(BUFFER)], 0, b"", ALL)
    with path.open("rb+", buffering=0) as file:
        assert not is_cached(file.fileno(), BUFFER // 2)
        assert DirectFile(os.open(path, os.O_RDONLY | os.O_DIRECT)).read(0, BUFFER) == bytes(BUFFER)
        assert not is_cached(file.fileno(), BUFFER // 4)
        file.write(b"x")
        assert is_cached(file.fileno(), 0)


def test_a_direct_read_sees_unsynced_writes(blocks_of, path):
    one = blocks_of(b"", os.O_RDONLY)
    path.write_bytes(b"a" * BLOCK)
    assert one.read(0, BLOCK) == b"a" * BLOCK
    path.write_bytes(b"b" * 10)
    assert one.read(0, BLOCK) == b"b" * 10


def test_asking_brings_nothing_into_the_cache(blocks_of, path):
    blocks_of().append([bytes(BUFFER)], 0, b"", ALL)
    with path.open("rb") as file:
        for _ in range(2):
            assert not any(is_cached(file.fileno(), at) for at in range(0, BUFFER, BLOCK))


@pytest.mark.parametrize("at", [BUFFER, BUFFER + BLOCK, 1 << 62])
def test_pages_beyond_a_files_end_count_as_cached(blocks_of, path, at):
    blocks_of().append([bytes(BUFFER)], 0, b"", ALL)
    with path.open("rb") as file:
        assert is_cached(file.fileno(), at)


def test_pages_of_unknown_state_count_as_cached(monkeypatch, blocks_of, path):
    blocks_of().append([bytes(BUFFER)], 0, b"", ALL)
    monkeypatch.setattr("recorder.capture.direct_io._LIBC.mincore", lambda *_: -1)
    with path.open("rb") as file:
        assert is_cached(file.fileno(), 0)
    assert is_cached(-1, 0)


def test_a_file_system_without_direct_io_raises_and_leaves_no_descriptor(monkeypatch, path):
    path.touch()
    before = len(os.listdir("/proc/self/fd"))

    def no_memory(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr("recorder.capture.direct_io.mmap.mmap", no_memory)
    with pytest.raises(OSError, match="no memory"):
        DirectFile(os.open(path, os.O_RDONLY | os.O_DIRECT))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_disk_that_takes_a_part_is_an_error(blocks_of, monkeypatch, path):
    monkeypatch.setattr("recorder.capture.direct_io.os.pwritev", lambda *_: 0)
    with pytest.raises(ShortWrite):
        blocks_of().append([bytes(BUFFER)], 0, b"", ALL)
    assert path.stat().st_size == 0


def test_a_direct_file_may_be_closed_twice(blocks_of):
    one = blocks_of()
    one.close()
    one.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        one.append([bytes(BLOCK)], 0, b"", ALL)


@pytest.mark.parametrize("most", [1, BLOCK, BUFFER - BLOCK, BUFFER, 2 * BUFFER])
def test_a_direct_write_stops_at_its_limit(most, blocks_of, path):
    piece = random.Random(0).randbytes(5 * BUFFER)
    written = blocks_of().append([piece], 0, b"", most).size
    assert path.read_bytes() == piece[:written]
    assert most - BLOCK < written <= most + BUFFER - BLOCK
    if most <= BUFFER:
        assert written <= most


# how much


def test_the_first_direct_write_is_small():
    assert DirectWriteLimit().allowed_bytes() == TRIAL_BYTES


def test_a_fast_disk_gets_direct_writes():
    pace = DirectWriteLimit()
    pace.note(1.0, 10**9)
    assert [pace.allowed_bytes() for _ in range(100)] == [int(MAX_WRITE_SECONDS * 10**9)] * 100


def test_a_disk_that_takes_too_long_is_tried_again_now_and_then():
    pace = DirectWriteLimit()
    pace.note(1.0, 10**6)
    tried = [pace.allowed_bytes() for _ in range(10 * GROUPS_PER_TRIAL)]
    assert tried.count(TRIAL_BYTES) == 10
    assert tried.count(0) == 9 * GROUPS_PER_TRIAL + (GROUPS_PER_TRIAL - 10)
    pace.note(1.0, 10**9)
    assert pace.allowed_bytes() == int(MAX_WRITE_SECONDS * 10**9)


def test_the_buffer_holds_whole_blocks():
    assert BUFFER % BLOCK == 0
    assert direct_io.MIN_DIRECT_BYTES >= BLOCK
