"""How far the compactor is behind. Computed whenever it is asked for, so the lag grows while no compactor runs.

The log notes when its entries arrived, in steps of a fraction of a second. The compactor reports the position up to
which it has read; entries behind that position are unread. The position of a compactor that has ended is ignored: the
next one reads that segment again, from its beginning.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import NamedTuple

from proxy.files import Folder
from proxy.threads import NoThread, start_thread
from recorder.capture.status import Status, read_status

# entries within this time are one step: the lag is exact to it
FINEST_NS = 250_000_000
# with more steps (the compactor is dead), every other one is left out and steps become twice as long; once the
# compactor has caught up, steps are fine again
MAX_STEPS = 2_048
# how long reading the newest report may take: it is a file, and a disk that hangs must not delay the metrics page
REPORT_SECONDS = 0.25


class Unread(NamedTuple):
    """The unread entries: their bytes, and when the oldest one arrived (None if there are none)."""

    size: int
    since_ns: int | None


class Trail:
    """The arrival times of a log's entries. Offsets count from the log's beginning, over all segments.

    One thread appends; any thread may call `unread`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # segment -> the offset of its beginning
        self._segments: dict[int, int] = {}
        # for each step: the offset behind its last entry, and when its first entry arrived
        self._ends: list[int] = []
        self._arrivals: list[int] = []
        self._finest_ns = FINEST_NS

    def begin(self, segment: int, offset: int) -> None:
        """Notes that a segment begins at this offset."""
        with self._lock:
            self._segments[segment] = offset

    def append(self, end: int, at_ns: int) -> None:
        """Notes that entries were written up to `end`; the first of them arrived at `at_ns` (monotonic)."""
        with self._lock:
            if self._arrivals and at_ns - self._arrivals[-1] < self._finest_ns:
                self._ends[-1] = end
                return
            self._ends.append(end)
            self._arrivals.append(at_ns)
            if len(self._ends) > MAX_STEPS:
                self._thin_out()

    def unread(self, segment: int, position: int) -> Unread:
        """The entries behind a position in a segment. Earlier segments are forgotten."""
        with self._lock:
            self._forget_before(segment)
            read = self._read(segment, position)
            first = bisect_right(self._ends, read)
            if first == len(self._ends):
                return Unread(0, None)
            return Unread(self._ends[-1] - read, self._arrivals[first])

    def _read(self, segment: int, position: int) -> int:
        """The log offset of a position; the earliest known offset if the segment is forgotten (an outdated report)."""
        if segment in self._segments:
            return self._segments[segment] + position
        return min(self._segments.values(), default=0)

    def _thin_out(self) -> None:
        """Joins steps in pairs: a pair begins when its first step began, and ends where its second one ends."""
        self._finest_ns *= 2
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
            self._finest_ns = FINEST_NS


class Reports:
    """The compactor's reports; a thread reads the newest one whenever it is asked for."""

    def __init__(self, session: Folder) -> None:
        self._session = session
        self._newest = Status()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._done.set()

    def newest(self) -> Status:
        """The newest report, or the one before if reading takes too long."""
        with self._lock:
            if self._done.is_set():
                self._done.clear()
                try:
                    start_thread(self._read, "compactor's report")
                except NoThread:
                    self._done.set()
        self._done.wait(REPORT_SECONDS)
        return self._newest

    def _read(self) -> None:
        try:
            self._newest = read_status(self._session) or self._newest
        finally:
            self._done.set()


class Lag:
    """The compactor's metrics: how far it is, how far it is behind, how often it was restarted."""

    def __init__(self, session: Folder, trail: Trail, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._reports = Reports(session)
        self._trail = trail
        self._clock = clock
        self._restarts = 0
        # when a compactor ended last
        self._ended_ns = -1
        # the greatest counts so far: a restarted compactor counts unpublished frames again
        self._frames = self._bytes = 0

    def compactor_ended(self) -> None:
        """Notes a restart: the next compactor begins at the last published segment."""
        self._ended_ns = self._clock()
        self._restarts += 1

    def counters(self) -> Mapping[str, float]:
        """The metrics by the names of the metrics' table. Called in any thread."""
        report = self._reports.newest()
        self._frames, self._bytes = max(self._frames, report.frames), max(self._bytes, report.bytes)
        position = report.position if report.at_ns > self._ended_ns else 0
        unread = self._trail.unread(report.segment, position)
        lag_ns = 0 if unread.since_ns is None else max(self._clock() - unread.since_ns, 0)
        return {
            "compacted_frames": self._frames,
            "compacted_bytes": self._bytes,
            "lag_bytes": unread.size,
            "lag_seconds": lag_ns / 1e9,
            "compactor_restarts": self._restarts,
        }
