"""How far the compactor is behind, worked out when somebody asks: so it grows while no compactor works.

The log notes when the entries in it arrived, in steps of a fraction of a second. The compactor reports up to where it
has read; what stands behind that place is unread. The report of a compactor that has ended counts no more: the next one
reads the segment that it was at again, from its beginning.
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

# entries of so short a time are one step: a lag is exact to it
FINEST_NS = 250_000_000
# then every other step is left out, and steps are twice as long: with a compactor that is dead they become many. Once
# it has caught up they are fine again
MOST_STEPS = 2_048
# how long the newest report may take to be read: it is in a file, and a disk that hangs keeps no page waiting
REPORT_SECONDS = 0.25


class Unread(NamedTuple):
    """What the compactor has not read: its bytes, and when the oldest of it arrived; None: there is nothing."""

    size: int
    since_ns: int | None


class Trail:
    """When the entries of a log arrived. Offsets count from the log's beginning, over all of its segments.

    One thread appends, any may ask.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # of each segment, the offset of its beginning
        self._segments: dict[int, int] = {}
        # of each step, the offset behind its last entry, and when its first one arrived
        self._ends: list[int] = []
        self._arrivals: list[int] = []
        self._finest_ns = FINEST_NS

    def begin(self, segment: int, offset: int) -> None:
        """A segment begins there."""
        with self._lock:
            self._segments[segment] = offset

    def append(self, end: int, at_ns: int) -> None:
        """Entries have been written up to there, of which the first arrived at this time (monotonic)."""
        with self._lock:
            if self._arrivals and at_ns - self._arrivals[-1] < self._finest_ns:
                self._ends[-1] = end
                return
            self._ends.append(end)
            self._arrivals.append(at_ns)
            if len(self._ends) > MOST_STEPS:
                self._thin_out()

    def unread(self, segment: int, position: int) -> Unread:
        """What stands behind a position in a segment. Segments before it count no more, whatever is asked later."""
        with self._lock:
            self._forget_before(segment)
            read = self._read(segment, position)
            first = bisect_right(self._ends, read)
            if first == len(self._ends):
                return Unread(0, None)
            return Unread(self._ends[-1] - read, self._arrivals[first])

    def _read(self, segment: int, position: int) -> int:
        """The offset of a position. Segments that are forgotten have been read: a report may be older than another."""
        if segment in self._segments:
            return self._segments[segment] + position
        return min(self._segments.values(), default=0)

    def _thin_out(self) -> None:
        """Makes one step of two: it ends where the second did, and began when the first did."""
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
        if len(self._ends) < MOST_STEPS // 2:
            self._finest_ns = FINEST_NS


class Reports:
    """The compactor's reports, read in a thread of its own whenever somebody asks."""

    def __init__(self, session: Folder) -> None:
        self._session = session
        self._newest = Status()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._done.set()

    def newest(self) -> Status:
        """The newest one, or the one before where that can't be had in time."""
        with self._lock:
            if self._done.is_set():
                self._done.clear()
                self._begin_to_read()
        self._done.wait(REPORT_SECONDS)
        return self._newest

    def _begin_to_read(self) -> None:
        try:
            start_thread(self._read, "compactor's report")
        except NoThread:
            self._done.set()

    def _read(self) -> None:
        try:
            self._newest = read_status(self._session) or self._newest
        finally:
            self._done.set()


class Lag:
    """What the metrics show of the compactor: how far it is, how far behind, and how often it was started again."""

    def __init__(self, session: Folder, trail: Trail, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._reports = Reports(session)
        self._trail = trail
        self._clock = clock
        self._restarts = 0
        # when one ended last
        self._ended_ns = -1
        # a compactor that begins again counts again what it had not published
        self._frames = self._bytes = 0

    def compactor_ended(self) -> None:
        """It is started again, and knows of nothing that it had not published."""
        self._ended_ns = self._clock()
        self._restarts += 1

    def counters(self) -> Mapping[str, float]:
        """By the names of the metrics' table. Called in any thread."""
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
