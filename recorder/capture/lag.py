"""Measures how far the compactor is behind the log, for the metrics.

The log's writer notes in `ArrivalTimes` when entries arrived, in steps of a fraction of a second. The compactor reports
the position up to which it has read (`status`); the entries after it are unread. The lag is computed at each query, so
it also grows while no compactor runs. A compactor that has ended counts as being at the beginning of its
segment, because the next compactor begins there.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from proxy.files import Folder
from proxy.threads import NoThread, start_thread
from recorder.capture.status import Status, read_status

# entries that arrive within this time are one step; the lag is no more exact than a step
SHORTEST_STEP_NS = 250_000_000
# the most steps. If much of the log is unread and there would be more, steps are joined in pairs, and new steps are
# twice as long. New steps are SHORTEST_STEP_NS long again once fewer than half of MAX_STEPS are left
MAX_STEPS = 2_048
# how long `StatusReader.newest` waits for the file
READ_SECONDS = 0.25
# fields of a status that count what one compactor did
_OF_A_COMPACTOR = ("facts_failed", "removed_files", "removed_bytes")


class UnreadEntries(NamedTuple):
    """The entries that the compactor has not read: their bytes, and when the oldest arrived (None: there is none)."""

    size: int
    since_ns: int | None


class ArrivalTimes:
    """The arrival times of a log's entries. Offsets count from the log's beginning, over all segments.

    One thread appends; any thread may call `unread`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # segment -> the log offset of its beginning
        self._segments: dict[int, int] = {}
        # for each step: the log offset after its last entry, and when its first entry arrived
        self._ends: list[int] = []
        self._arrivals: list[int] = []
        self._step_ns = SHORTEST_STEP_NS

    def begin(self, segment: int, offset: int) -> None:
        """Notes that a segment begins at this log offset."""
        with self._lock:
            self._segments[segment] = offset

    def append(self, end: int, at_ns: int) -> None:
        """Notes that entries were written up to `end`; the first of them arrived at `at_ns` (monotonic)."""
        with self._lock:
            if self._arrivals and at_ns - self._arrivals[-1] < self._step_ns:
                self._ends[-1] = end
                return
            self._ends.append(end)
            self._arrivals.append(at_ns)
            if len(self._ends) > MAX_STEPS:
                self._thin_out()

    def unread(self, segment: int, position: int) -> UnreadEntries:
        """The entries after a position in a segment. Forgets the segments before it."""
        with self._lock:
            self._forget_before(segment)
            read_up_to = self._log_offset(segment, position)
            first = bisect_right(self._ends, read_up_to)
            if first == len(self._ends):
                return UnreadEntries(0, None)
            return UnreadEntries(self._ends[-1] - read_up_to, self._arrivals[first])

    def _log_offset(self, segment: int, position: int) -> int:
        """The log offset of a position; the earliest known offset if the segment is forgotten (an outdated status)."""
        if segment in self._segments:
            return self._segments[segment] + position
        return min(self._segments.values(), default=0)

    def _thin_out(self) -> None:
        """Joins steps in pairs: a pair begins when its first step began, and ends where its second one ends."""
        self._step_ns *= 2
        self._ends = [*self._ends[1::2], *self._ends[len(self._ends) - len(self._ends) % 2 :]]
        self._arrivals = self._arrivals[::2]

    def _forget_before(self, segment: int) -> None:
        if segment not in self._segments:
            return
        for number in [number for number in self._segments if number < segment]:
            del self._segments[number]
        done = bisect_right(self._ends, self._segments[segment])
        del self._ends[:done], self._arrivals[:done]
        if len(self._ends) < MAX_STEPS // 2:
            self._step_ns = SHORTEST_STEP_NS


Told = TypeVar("Told")


class StatusReader(Generic[Told]):
    """Reads what another process tells in a file, in a thread: a disk that hangs must not delay the metrics page.

    Args:
        read: reads the file; None: it can't be read.
        first: what counts until it was read.
    """

    def __init__(self, read: Callable[[], Told | None], first: Told) -> None:
        self._read_file = read
        self._newest = first
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._done.set()

    def newest(self) -> Told:
        """What the file tells; if reading takes too long, what was read last."""
        with self._lock:
            if self._done.is_set():
                self._done.clear()
                try:
                    start_thread(self._read, "status")
                except NoThread:
                    self._done.set()
        self._done.wait(READ_SECONDS)
        return self._newest

    def _read(self) -> None:
        try:
            found = self._read_file()
            self._newest = self._newest if found is None else found
        finally:
            self._done.set()


class CompactorMetrics:
    """The compactor's metrics: the frames and bytes that it has compacted, its lag, its restarts."""

    def __init__(
        self, session: Folder, arrival_times: ArrivalTimes, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._status_reader = StatusReader(lambda: read_status(session), Status())
        self._arrival_times = arrival_times
        self._clock = clock
        self._restarts = 0
        # when a compactor ended last
        self._ended_ns = -1
        # the greatest counts so far: a restarted compactor counts frames again that were not published
        self._frames = self._bytes = 0
        # counts that begin anew with each compactor: of those that have ended, and of all so far
        self._before, self._so_far = dict.fromkeys(_OF_A_COMPACTOR, 0), dict.fromkeys(_OF_A_COMPACTOR, 0)

    def compactor_ended(self) -> None:
        """Notes a restart. The position of the compactor that has ended no longer counts."""
        self._ended_ns = self._clock()
        self._restarts += 1
        self._before = dict(self._so_far)

    def counters(self) -> Mapping[str, float]:
        """The metrics by the names of the metrics' table. Called in any thread."""
        status = self._status_reader.newest()
        self._frames, self._bytes = max(self._frames, status.frames), max(self._bytes, status.bytes)
        if status.at_ns > self._ended_ns:
            for name in _OF_A_COMPACTOR:
                self._so_far[name] = max(self._so_far[name], self._before[name] + getattr(status, name))
        position = status.position if status.at_ns > self._ended_ns else 0
        unread = self._arrival_times.unread(status.segment, position)
        lag_ns = 0 if unread.since_ns is None else max(self._clock() - unread.since_ns, 0)
        return {
            "compacted_frames": self._frames,
            "compacted_bytes": self._bytes,
            "lag_bytes": unread.size,
            "lag_seconds": lag_ns / 1e9,
            "compactor_restarts": self._restarts,
            "folder_bytes": status.folder_bytes,
            **self._so_far,
        }
