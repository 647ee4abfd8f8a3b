"""Tests of the writer's thread: entries are written once and in order, whatever the disk does."""

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from proxy.files import Folder
from recorder.capture import writer as writing
from recorder.capture.direct_io import BLOCK, MAX_WRITE_SECONDS, MIN_DIRECT_BYTES, is_cached
from recorder.capture.segments import SegmentReader
from recorder.capture.session import RecordSettings
from recorder.capture.spool import DATA, KIND, OFFSET, EntryKind, Item
from recorder.capture.writer import ENTRY_COST, GROUP, Clock, Log, SpoolFullError, Writer, clock_offset
from tests.recorder.capture.looks import log_entries, segment_path, segments

MIB = 1024 * 1024
NOON_NS = 1_795_262_400 * 10**9


def item(number: int, size: int = 10) -> Item:
    return (int(EntryKind.BYTES), 0, 1, number, number, bytes([number % 256]) * size, ())


def offsets(folder: Path) -> list[int]:
    return [entry.offset for entry in log_entries(folder) if entry.kind == EntryKind.BYTES]


class Disk:
    """A disk whose writev fails or writes in part, as scripted: one result per call, then as usual."""

    def __init__(self, *answers: int | OSError) -> None:
        self.answers = list(answers)

    def __call__(self, descriptor: int, buffers: Sequence[bytes]) -> int:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, OSError):
            raise answer
        return os.write(descriptor, b"".join(buffers)[:answer])


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


LogOf = Callable[..., Log]


@pytest.fixture
def log_of(tmp_path: Path) -> Iterator[LogOf]:
    logs: list[Log] = []
    folder = Folder.at(tmp_path)

    def opened(disk: Disk | None = None, clock: Callable[[], int] = lambda: 5, **settings: int) -> Log:
        logs.append(Log(folder, RecordSettings(**settings), writev=disk or Disk(), clock=Clock(offset_ns=clock)))  # type: ignore[arg-type]
        return logs[-1]

    yield opened
    for log in logs:
        log.close()
    folder.close()


def test_a_group_is_as_large_as_the_kernel_takes_at_once(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of()
    assert log.append([item(number) for number in range(GROUP + 1)]) == GROUP
    assert offsets(tmp_path) == list(range(GROUP))


@pytest.mark.parametrize("first", [0, 1, 39, 40, 41, 49, 50, 51, 149])
def test_a_write_that_broke_off_continues_at_the_byte(log_of: LogOf, tmp_path: Path, first: int) -> None:
    log = log_of(Disk(first, full()))
    with pytest.raises(OSError, match="No space"):
        log.append([item(number) for number in range(3)])
    assert log.interrupted
    assert log.resume() == 3
    assert not log.interrupted
    assert offsets(tmp_path) == [0, 1, 2]


def test_a_failed_call_that_wrote_some_is_believed_to_the_file(log_of: LogOf, tmp_path: Path) -> None:
    class Lying(Disk):
        def __call__(self, descriptor: int, buffers: Sequence[bytes]) -> int:
            if self.answers:
                os.write(descriptor, b"".join(buffers)[:60])
            return super().__call__(descriptor, buffers)

    log = log_of(Lying(full()))
    with pytest.raises(OSError, match="No space"):
        log.append([item(0), item(1)])
    log.resume()
    assert offsets(tmp_path) == [0, 1]


def test_a_large_segment_is_followed_by_the_next_which_says_where_it_ends(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(segment=300)
    for number in range(10):
        log.append([item(number, 50)])
        log.roll_if_due(0.0)
    assert offsets(tmp_path) == list(range(10))
    numbers = segments(tmp_path)
    assert len(numbers) > 2
    before = [segment_path(tmp_path, number).stat().st_size for number in numbers]
    for number in numbers[1:]:
        reader = SegmentReader(log.folder, number)
        assert reader.head.previous_end == before[number - 2]
        assert reader.head.log_bytes == sum(before[: number - 1])
        reader.close()


def large_items(rng: random.Random, numbers: range, total: int) -> list[Item]:
    return [item(number, rng.randint(0, 2 * total // len(numbers))) for number in numbers]


def kept(items: Sequence[Item]) -> list[tuple[int, bytes]]:
    return [(item[OFFSET], item[DATA]) for item in items]


def in_log(folder: Path) -> list[tuple[int, bytes]]:
    return [(entry.offset, entry.data) for entry in log_entries(folder) if entry.kind == EntryKind.BYTES]


@pytest.mark.parametrize("seed", range(10))
def test_large_and_small_groups_stand_one_behind_the_other(log_of: LogOf, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    log, written = log_of(queue=rng.choice([1, 64]) * MIB, segment=rng.choice([3, 30]) * MIB), list[Item]()
    for _ in range(8):
        group = large_items(rng, range(len(written), len(written) + rng.randint(1, 20)), rng.choice([100, 3 * MIB]))
        assert log.append(group) == len(group)
        log.roll_if_due(0.0)
        written += group
    assert in_log(tmp_path) == kept(written)


def test_a_large_group_goes_past_the_page_cache(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of()
    log._direct_limit.note(0.001, 100 * MIB)
    log.append([item(0, 3 * MIB)])
    assert not is_cached(log._descriptor, MIB)
    log.append([item(1, MIN_DIRECT_BYTES - 1)])
    assert is_cached(log._descriptor, 3 * MIB + MIN_DIRECT_BYTES // 2)


def test_a_log_is_written_through_the_cache_where_direct_writes_are_impossible(
    log_of: LogOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def without(path: str | Path, flags: int, mode: int = 0o777, **at: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, mode, **at)

    monkeypatch.setattr(os, "open", without)
    log = log_of()
    group = [item(0, 3 * MIB), item(1, 7)]
    log.append(group)
    assert in_log(tmp_path) == kept(group)
    assert is_cached(log._descriptor, MIB)


class FailingBlocks:
    """A disk whose writes past the page cache fail after so many calls; `pwritev` for all callers."""

    def __init__(self, log: Log, calls: int, error: int | None) -> None:
        assert log._direct_file is not None
        log._direct_limit.note(0.001, 100 * MIB)
        self.write, self.disk, self.calls, self.error = os.pwritev, log._direct_file._descriptor, calls, error

    def __call__(self, descriptor: int, pieces: Sequence[bytes], at: int) -> int:
        if descriptor == self.disk:
            self.calls -= 1
            if self.calls < 0:
                if self.error is None:
                    return self.write(descriptor, [memoryview(pieces[0])[: 2 * BLOCK]], at)
                raise OSError(self.error, os.strerror(self.error))
        return self.write(descriptor, pieces, at)


LARGE_GROUP = [item(1, 3 * MIB), item(2, 10 * MIB), item(3, 5)]


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOMEM, None])
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_the_written_part_of_a_large_group_is_not_written_twice(
    log_of: LogOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, error: int | None
) -> None:
    log = log_of()
    log.append([item(0, 100)])
    monkeypatch.setattr(os, "pwritev", FailingBlocks(log, calls, error))
    assert log.append(LARGE_GROUP) == 3
    assert in_log(tmp_path) == kept([item(0, 100), *LARGE_GROUP])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_disk_error_amid_a_large_group_is_raised_and_writing_continues_at_the_byte(
    log_of: LogOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int, error: int
) -> None:
    log = log_of()
    log.append([item(0, 100)])
    monkeypatch.setattr(os, "pwritev", FailingBlocks(log, calls, error))
    with pytest.raises(OSError, match=os.strerror(error)):
        log.append(LARGE_GROUP)
    assert log.interrupted
    assert log.resume() == 3
    assert in_log(tmp_path) == kept([item(0, 100), *LARGE_GROUP])


@pytest.mark.real
def test_a_disk_slower_than_the_traffic_does_not_keep_the_queue_waiting(
    log_of: LogOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the cache, the disk writes 20 MB a second: of 90 groups of 6 MiB, hardly any takes that way."""
    log, write, slow = log_of(), os.pwritev, 0.0
    now = [0.0]
    monkeypatch.setattr("recorder.capture.writer.time.monotonic", lambda: now[0])

    def at_a_pace(descriptor: int, pieces: Sequence[bytes], at: int) -> int:
        count = write(descriptor, pieces, at)
        if log._direct_file is not None and descriptor == log._direct_file._descriptor:
            now[0] += count / 20e6
        return count

    monkeypatch.setattr(os, "pwritev", at_a_pace)
    for number in range(90):
        before = now[0]
        log.append([item(number, 6 * MIB)])
        slow = max(slow, now[0] - before)
    assert slow < 1.1 * MAX_WRITE_SECONDS
    assert len(in_log(tmp_path)) == 90


def test_an_old_segment_is_followed_by_the_next_unless_it_is_empty(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(segment_seconds=60)
    log.roll_if_due(1e12)
    assert segments(tmp_path) == [1]
    log.append([item(0)])
    log.roll_if_due(0.0)
    assert segments(tmp_path) == [1]
    log.roll_if_due(1e12)
    assert segments(tmp_path) == [1, 2]


def test_an_inventory_larger_than_a_segment_makes_no_segment_of_each_write(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(segment=1000)
    log.append([(int(EntryKind.END_OF_STREAM), 0, connection, 0, 0, b"", ()) for connection in range(400)])
    log.roll_if_due(0.0)
    assert segment_path(tmp_path, 2).stat().st_size > 3000
    for number in range(7):
        log.append([item(number, 100)])
        log.roll_if_due(0.0)
    assert segments(tmp_path) == [1, 2]


def test_no_segment_follows_the_end(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(segment=1)
    log.append([item(0), (int(EntryKind.END), 0, -1, 0, 0, b"", ())])
    log.roll_if_due(1e12)
    assert segments(tmp_path) == [1]


def test_a_full_spool_takes_nothing_until_a_segment_is_taken_away(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(spool=2000, segment=1000)

    def fill() -> None:
        for number in range(100):
            log.append([item(number, 100)])

    with pytest.raises(SpoolFullError):
        fill()
    written = offsets(tmp_path)
    assert len(written) > 3
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2000 + 400
    with pytest.raises(SpoolFullError):
        log.append([item(99, 100)])
    for number in segments(tmp_path)[:-1]:
        segment_path(tmp_path, number).unlink()
    log.append([item(99, 100)])
    assert offsets(tmp_path) == [99]
    assert written == list(range(len(written)))


def test_the_last_words_are_written_even_into_a_full_spool(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(spool=300, segment=1000)
    log.append([item(0, 100)])
    log.append([item(1, 500)], limited=False)
    assert offsets(tmp_path) == [0, 1]


def test_a_set_clock_is_reported_once(log_of: LogOf) -> None:
    now = [1_000]
    log = log_of(clock=lambda: now[0])
    assert log.clock_jump() is None
    now[0] += 3_600_000_000_000
    jump = log.clock_jump()
    assert jump is not None
    assert jump[KIND] == EntryKind.CLOCK
    assert jump[OFFSET] == now[0]
    assert log.clock_jump() is None


@pytest.mark.parametrize("reading", range(3))
def test_a_process_that_stands_still_while_it_reads_the_clock_is_no_set_clock(
    reading: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings, now = count(), 0

    def read(since: int) -> int:
        nonlocal now
        # it stands still for a second before this reading
        now += 10**9 * (next(readings) == reading)
        return since + now

    clocks = SimpleNamespace(monotonic_ns=lambda: read(0), time_ns=lambda: read(NOON_NS))
    monkeypatch.setattr(writing, "time", clocks)
    assert clock_offset() == NOON_NS


def test_queued_entries_are_written_once_and_in_order(log_of: LogOf, tmp_path: Path) -> None:
    rng = random.Random(1)

    def answer() -> int | OSError:
        choices: list[int | OSError] = [1, 7, 100, full()]
        return rng.choice(choices)

    answers = [answer() for _ in range(40)]
    writer = Writer(log_of(Disk(*answers), segment=5_000))
    writer.start()
    for number in range(2_000):
        writer.queue.append(item(number))
        if number % 50 == 0:
            writer.wake()
    while writer.queue:
        writer.flush()
    writer.close()
    assert offsets(tmp_path) == list(range(2_000))
    assert writer.written_bytes == 20_000
    assert writer.written == 20_000 + 2_000 * ENTRY_COST
    assert writer.written_items == 2_000


def test_a_failing_disk_and_its_recovery_are_logged(log_of: LogOf, tmp_path: Path) -> None:
    disk = Disk(*[full() for _ in range(3)])
    writer = Writer(log_of(disk))
    writer.queue.append(item(0))
    writer.start()
    writer.wait_until(lambda: writer.failed)
    assert writer.queue
    while writer.queue:
        writer.flush()
    assert not writer.failed
    writer.close()
    assert offsets(tmp_path) == [0]


def test_a_hanging_disk_is_reported_until_it_continues(log_of: LogOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "HANG_SECONDS", 0)
    hangs, may_go_on = threading.Event(), threading.Event()

    def hanging(descriptor: int, buffers: Sequence[bytes]) -> int:
        hangs.set()
        may_go_on.wait()
        return os.writev(descriptor, buffers)

    writer = Writer(log_of(hanging))
    assert not writer.hangs
    writer.queue.append(item(0))
    writer.start()
    hangs.wait()
    assert writer.hangs
    may_go_on.set()
    writer.close()
    assert not writer.hangs


def test_a_fault_of_the_writers_thread_is_logged_once_and_blocks_no_task(
    log_of: LogOf, caplog: pytest.LogCaptureFixture
) -> None:
    def faulty(*arguments: object) -> int:
        raise ValueError("a bug")

    writer = Writer(log_of(faulty))
    writer.queue.append(item(0))
    writer.start()
    writer.wait_until(lambda: False)
    writer.flush()
    assert writer.ended
    assert writer.failed
    (record,) = [record for record in caplog.records if record.exc_info]
    assert isinstance(record.exc_info[1], ValueError)  # type: ignore[index]
    writer.wake()
    assert writer.idle
    writer.close()
    assert writer.failed


def test_a_waiting_task_is_released_when_the_writers_thread_ends(log_of: LogOf) -> None:
    writer = Writer(log_of())
    writer.start()
    waiting = threading.Thread(target=writer.wait_until, args=(lambda: False,), daemon=True)
    waiting.start()
    writer.close()
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_try_that_fails_while_closing_begins_is_made_once_more(log_of: LogOf, tmp_path: Path) -> None:
    def closed_meanwhile(descriptor: int, buffers: Sequence[bytes]) -> int:
        if not writer._closing:
            writer._closing = True
            raise SpoolFullError("the spool has reached its limit")
        return os.write(descriptor, b"".join(buffers))

    writer = Writer(log_of(closed_meanwhile))
    writer.queue.append(item(0))
    writer.start()
    writer.wait_until(lambda: writer._closing)
    writer.close()
    assert offsets(tmp_path) == [0]


def test_closing_on_a_disk_that_fails_ends_all_the_same(log_of: LogOf) -> None:
    writer = Writer(log_of(Disk(*[full() for _ in range(1000)])))
    writer.queue.append(item(0))
    writer.start()
    writer.close()
    assert writer.failed


def test_a_log_that_was_removed_takes_nothing_more(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of()
    log.append([item(0)])
    segment_path(tmp_path, 1).unlink()
    for attempt in (log.sum_older_segments, partial(log.append, [item(1)])):
        with pytest.raises(FileNotFoundError, match="the log has been removed"):
            attempt()


def test_a_folder_that_was_removed_is_not_made_again(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(segment=1)
    log.append([item(0)])
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    with pytest.raises(FileNotFoundError):
        log.roll_if_due(0)
    assert not tmp_path.exists()


def test_a_failed_disk_and_its_recovery_are_logged_once_each(log_of: LogOf, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer(log_of(Disk(full(), full())))
    writer.queue.append(item(1))
    writer.start()
    while writer.queue:
        writer.flush()
    writer.close()
    told = [record.getMessage() for record in caplog.records]
    assert told == ["nothing can be recorded", "recording goes on"]


def test_entries_lost_at_the_end_are_logged(log_of: LogOf, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer(log_of(Disk(*[full() for _ in range(9)])))
    writer.queue.append(item(1, size=10))
    writer.start()
    writer.close()
    assert caplog.records[-1].getMessage() == "the end of the recording is lost"
    assert caplog.records[-1].keys["bytes"] == 10  # type: ignore[attr-defined]


def test_at_the_end_a_full_spool_is_no_reason_to_leave_something_out(log_of: LogOf, tmp_path: Path) -> None:
    log = log_of(spool=300)
    log.append([item(0, size=200)])
    writer = Writer(log)
    writer.queue.append(item(1, size=200))
    writer.start()
    writer.flush()
    assert writer.queue
    writer.close()
    assert offsets(tmp_path) == [0, 1]
