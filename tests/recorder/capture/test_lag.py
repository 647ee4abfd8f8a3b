from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.files import Folder
from recorder.capture import lag as lags
from recorder.capture.lag import (
    MAX_STEPS,
    SHORTEST_STEP_NS,
    ArrivalTimes,
    CompactorMetrics,
    StatusReader,
    UnreadEntries,
)
from recorder.capture.status import STATUS_FILE, Status, read_status, write_status
from tests.brokers.waiting import PATIENCE

SECOND = 1_000_000_000
HEAD = 100


class Log:
    """The notes of a log, and the plain way to find its unread entries: the end of each group of entries."""

    def __init__(self) -> None:
        self.arrival_times = ArrivalTimes()
        self.now = 0
        self.number = 0
        self.groups: list[tuple[int, int, int, int]] = []
        self._before = self._end = 0
        self.roll()

    def roll(self) -> None:
        self._before += self._end
        self.number += 1
        self._end = HEAD
        self.arrival_times.begin(self.number, self._before)

    def write(self, size: int) -> None:
        self._end += size
        self.groups.append((self.number, self._end, size, self.now))
        self.arrival_times.append(self._before + self._end, self.now)

    def unread(self, segment: int, position: int) -> list[tuple[int, int]]:
        """Returns the size and time of each group after this position."""
        return [(size, at) for number, end, size, at in self.groups if (number, end) > (segment, position)]


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 3 * SECOND)),
        st.tuples(st.just("write"), st.integers(1, 1000)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("ask"), st.integers(0, 100)),
    ),
    max_size=60,
)


@given(ACTS)
def test_the_lag_is_the_bytes_after_the_position_and_the_age_of_the_oldest(acts):
    log = Log()
    segment = position = 0
    for act, number in acts:
        match act:
            case "wait":
                log.now += number
            case "write":
                log.write(number)
            case "roll":
                log.roll()
            case "ask":
                behind = [(one, end) for one, end, *_ in log.groups if (one, end) >= (segment, position)]
                if behind:
                    # read on, up to the end of some group
                    segment, position = behind[number * len(behind) // 101]
                assert_told_right(log, segment, position)


def assert_told_right(log: Log, segment: int, position: int) -> None:
    told, wanted = log.arrival_times.unread(segment, position), log.unread(segment, position)
    if not wanted:
        assert told == UnreadEntries(0, None)
        return
    sizes, arrivals = zip(*wanted, strict=True)
    # the size may include the heads of the segments between
    assert sum(sizes) <= told.size <= sum(sizes) + HEAD * log.number
    assert told.since_ns is not None
    assert min(arrivals) - SHORTEST_STEP_NS < told.since_ns <= min(arrivals)


def test_a_segment_in_which_nothing_stands_yet_is_nothing_unread():
    log = Log()
    log.write(10)
    log.now += 60 * SECOND
    log.roll()
    assert log.arrival_times.unread(1, HEAD + 10) == UnreadEntries(0, None)


def test_days_without_a_compactor_take_no_more_memory_and_show_in_the_lag():
    log = Log()
    for _ in range(20 * MAX_STEPS):
        log.now += SECOND
        log.write(10)
    assert len(log.arrival_times._ends) == len(log.arrival_times._arrivals) <= MAX_STEPS
    assert log.arrival_times.unread(0, 0).since_ns == SECOND
    half = len(log.groups) // 2
    _, position, _, at = log.groups[half - 1]
    told = log.arrival_times.unread(1, position)
    assert told.since_ns is not None
    assert at - log.arrival_times._step_ns < told.since_ns <= at + SECOND


@pytest.mark.real
def test_once_the_compactor_has_caught_up_the_lag_is_exact_again():
    log = Log()
    for number in range(20 * MAX_STEPS):
        log.now += SECOND
        log.write(10)
        if not number % 100:
            log.roll()
    log.roll()
    assert log.arrival_times.unread(log.number, HEAD) == UnreadEntries(0, None)
    for _ in range(100):
        log.now += SECOND // 2
        log.write(10)
        number, end, size, _ = log.groups[-1]
        # all but the newest group has been read
        assert_told_right(log, number, end - size)


def test_a_report_that_is_older_than_one_before_counts_what_is_still_unread():
    log = Log()
    log.write(1_000_000)
    log.roll()
    log.now += SECOND
    log.write(10)
    assert log.arrival_times.unread(2, HEAD) == UnreadEntries(10, SECOND)
    assert log.arrival_times.unread(1, HEAD) == UnreadEntries(HEAD + 10, SECOND)


# what the metrics show


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def lag(log: Log, session: Folder) -> CompactorMetrics:
    return CompactorMetrics(session, log.arrival_times, lambda: log.now)


@pytest.fixture
def report(log: Log, session: Folder) -> Callable[..., None]:
    """Writes a status with the compactor's position."""

    def report(segment: int, position: int, frames: int = 0) -> None:
        write_status(session, Status(frames, frames * 10, segment, position, log.now))

    return report


def seconds(lag: CompactorMetrics) -> float:
    return lag.counters()["lag_seconds"]


def test_without_a_compactor_the_lag_grows_from_the_first_entry_on(log, lag):
    assert seconds(lag) == 0
    log.now = 5 * SECOND
    log.write(10)
    for age in (0, 1, 1000):
        log.now = (5 + age) * SECOND
        assert seconds(lag) == age
    assert lag.counters()["lag_bytes"] == HEAD + 10


def test_a_compactor_that_has_read_the_whole_log_has_no_lag_however_long_nothing_comes(log, lag, report):
    log.write(10)
    report(1, HEAD + 10)
    log.now += 3600 * SECOND
    assert seconds(lag) == 0
    assert lag.counters()["lag_bytes"] == 0


def test_the_lag_grows_behind_one_that_no_longer_reports(log, lag, report):
    log.write(10)
    log.now += SECOND
    report(1, HEAD + 10)
    log.write(20)
    log.now += 50 * SECOND
    log.write(30)
    assert seconds(lag) == 50
    assert lag.counters()["lag_bytes"] == 50


def test_the_position_of_an_ended_compactor_does_not_count(log, lag, report):
    """The position of an ended compactor does not count: the next compactor reads the segment again."""
    log.write(10)
    log.now += 9 * SECOND
    report(1, HEAD + 10)
    log.now += SECOND
    assert seconds(lag) == 0
    lag.compactor_ended()
    assert seconds(lag) == 10
    log.now += SECOND
    # the next compactor reads the segment again
    report(1, HEAD + 10)
    assert seconds(lag) == 0


def test_a_compactor_that_ends_before_it_reports_leaves_the_lag_growing(log, lag):
    log.write(10)
    for restarts in range(1, 4):
        log.now += 30 * SECOND
        lag.compactor_ended()
        assert seconds(lag) == 30 * restarts
        assert lag.counters()["compactor_restarts"] == restarts


def test_facts_that_failed_are_counted_over_all_compactors(log, lag, session):
    def report(failed: int) -> int:
        log.now += SECOND
        write_status(session, Status(at_ns=log.now, facts_failed=failed))
        return int(lag.counters()["facts_failed"])

    assert [report(0), report(2), report(3)] == [0, 2, 3]
    lag.compactor_ended()
    assert lag.counters()["facts_failed"] == 3
    # the next compactor counts from 0 again
    assert [report(0), report(1)] == [3, 4]


def test_finished_segments_do_not_count_for_the_lag(log, lag, report):
    log.write(10)
    log.roll()
    log.now += SECOND
    log.write(10)
    report(2, 0)
    lag.compactor_ended()
    log.now += SECOND
    assert seconds(lag) == 1
    assert lag.counters()["lag_bytes"] == HEAD + 10


def test_the_compacted_counts_never_fall(log, lag, report):
    log.write(10)
    report(1, HEAD + 10, frames=7)
    assert lag.counters()["compacted_frames"] == 7
    lag.compactor_ended()
    report(1, 0, frames=2)
    assert (lag.counters()["compacted_frames"], lag.counters()["compacted_bytes"]) == (7, 70)
    report(1, HEAD + 10, frames=9)
    assert lag.counters()["compacted_frames"] == 9


def test_a_report_that_cannot_be_read_is_the_one_before(log, lag, report, tmp_path):
    log.write(10)
    report(1, HEAD + 10, frames=7)
    assert lag.counters()["compacted_frames"] == 7
    (tmp_path / STATUS_FILE).write_text("{")
    assert lag.counters()["compacted_frames"] == 7
    assert seconds(lag) == 0


@pytest.fixture
def goes_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Until this event is set, reads of the status file hang, as on a disk that hangs."""
    goes_on = threading.Event()

    def hang(_: Folder) -> Status:
        goes_on.wait()
        return Status()

    monkeypatch.setattr(lags, "READ_SECONDS", 0.01)
    monkeypatch.setattr(lags, "read_status", hang)
    return goes_on


def test_a_report_that_hangs_is_waited_for_by_one_thread_and_the_lag_grows(log, lag, goes_on):
    log.write(10)
    for _ in range(3):
        log.now += 10 * SECOND
        assert lag.counters()["lag_seconds"] == log.now / SECOND
    assert lag._status_reader._done.is_set() is False
    goes_on.set()
    assert lag._status_reader._done.wait(PATIENCE)


def test_without_a_thread_to_be_had_the_report_is_the_one_before(session, monkeypatch):
    reports = StatusReader(lambda: read_status(session), Status())

    def none_to_be_had(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_to_be_had)
        assert reports.newest() == Status()
    write_status(session, Status(frames=3))
    assert reports.newest() == Status(frames=3)
