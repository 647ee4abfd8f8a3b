"""The thread that writes the tap's entries, and the log that it writes to.

The tap appends tuples to `queue`; the thread takes them in bulk and gives the kernel their bytes from where they are
(`writev`). A disk that is slow, full or failing only makes the queue longer: an interrupted write is tried again from
the byte where it broke off. The tap decides what to do about a long queue.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from logging import ERROR, WARNING

from proxy.files import Folder
from proxy.log import log
from proxy.threads import begin
from recorder.capture import spool
from recorder.capture.blocks import BLOCK, LARGE, BlockFile, Pace, WrittenInPart
from recorder.capture.lag import Trail
from recorder.capture.lock import lock_segment
from recorder.capture.roll import Roll
from recorder.capture.segments import segment_name, segments
from recorder.capture.session import RecordSettings
from recorder.capture.spool import DATA, KIND, MONO_NS, NO_CONNECTION, EntryKind, Item, SegmentHead, data_size

Buffers = list[bytes]

# memory that an entry takes beyond its bytes: the tuple (96), the bytes object's own head (33), two large integers
# (64), its place in the queue (8). CPython 3.11 on 64 bits; a chunk may be a heartbeat of 30 bytes
ENTRY_COST = 208

# how long the thread waits for more work: one write serves many chunks, and the event loop's thread keeps the
# interpreter in between
LINGER_SECONDS = 0.01
# how often an idle thread looks at the segment's age and at the clock
IDLE_SECONDS = 0.5
# how soon a failed write is tried again
RETRY_SECONDS = 0.2
# a call to the disk that has not returned for so long hangs
HANG_SECONDS = 10.0
# how often the metrics' figure of older segments is renewed; the limit looks for itself
LOOK_SECONDS = 0.5
# a wall clock that moved by more than this against the monotonic one has been set
CLOCK_JUMP_NS = 10_000_000
# the kernel takes so many buffers in one call (IOV_MAX of Linux), and each entry needs two
GROUP = 1024 // 2

# errors of a file system that can't write past the cache, or has no memory for it
NOT_THIS_WAY = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOMEM})

Writev = Callable[[int, Sequence[bytes]], int]


def clock_offset() -> int:
    """Wall clock minus monotonic clock, in ns."""
    return time.time_ns() - time.monotonic_ns()


class SpoolFullError(OSError):
    """The log's folder has reached its limit; the compactor has to remove segments first."""


class Log:
    """A session's log: appends to the newest segment, begins the next one.

    `folder`: the session's. `trail`: the arrival times of its entries.
    """

    def __init__(
        self,
        folder: Folder,
        settings: RecordSettings,
        *,
        writev: Writev = os.writev,
        clock: Callable[[], int] = clock_offset,
    ) -> None:
        self.folder = folder
        self._settings = settings
        self._writev = writev
        self._clock = clock
        # the spool must hold several segments, so that the compactor can remove closed ones
        self._segment_bytes = min(settings.segment, max(settings.spool // 4, 1))
        self._unfinished: Buffers = []
        self._group = 0
        # the newest segment, opened once more for writes past the page cache; None if that is impossible
        self._blocks: BlockFile | None = None
        self._pace = Pace()
        self._older_bytes = 0
        self.trail = Trail()
        self._arrived = 0
        # the account of the log so far, and the log's length at the newest segment's beginning
        self._roll = Roll()
        self._log_bytes = 0
        # the seed of the checksums of the newest segment's entries
        self._seed = 0
        self.number = 0
        self._end = self._start = 0
        # True once the log's END is written: no segment follows
        self._ended = False
        self._descriptor = -1
        self._begun = 0.0
        self.clock_ns = 0
        self._begin(1)

    @property
    def spool_bytes(self) -> int:
        """Bytes of all segments; of the older ones as of the last `look`."""
        return self._older_bytes + self._end

    @property
    def busy(self) -> bool:
        """True if a write has begun and not finished."""
        return bool(self._unfinished)

    def append(self, items: Sequence[Item], *, limited: bool = True) -> int:
        """Writes up to GROUP of the items; returns how many.

        OSError: not possible now. If `busy` then, a part has been written, and the caller goes on with `resume`.
        """
        group = items[:GROUP]
        size = data_size(group)
        if limited:
            self._check_room(size)
        self._unfinished, self._group, self._arrived = self._encoded(group), len(group), group[0][MONO_NS]
        if size >= LARGE and self._blocks is not None:
            self._append_blocks(self._blocks)
        return self.resume()

    def _encoded(self, group: Sequence[Item]) -> Buffers:
        numbers, seed = self._roll.numbers(group), self._seed
        if group and group[-1][KIND] == EntryKind.END:
            self._ended = True
            group = [*group[:-1], (*group[-1][:DATA], self._roll.text(), ())]
        buffers: Buffers = []
        for item, number in zip(group, numbers, strict=True):
            buffers.append(spool.entry_head(*item, number, seed))
            buffers.append(item[DATA])
        return buffers

    def _append_blocks(self, blocks: BlockFile) -> None:
        """Writes a part of the unfinished group past the page cache; `resume` writes the rest."""
        allowed = self._pace.allowance()
        if not allowed:
            return
        started = self._end % BLOCK
        begun = os.pread(self._descriptor, started, self._end - started)
        at = time.monotonic()
        try:
            written = blocks.append(self._unfinished, self._end, begun, allowed)
        except WrittenInPart:
            return
        except OSError as error:
            if error.errno not in NOT_THIS_WAY:
                raise
            self._end_blocks()
        else:
            self._pace.note(time.monotonic() - at, written)

    def resume(self) -> int:
        """Finishes an interrupted `append`; returns its number of items."""
        # a failed call may have written a part: the file's size tells
        self._drop(self._size() - self._end)
        while self._unfinished:
            self._drop(self._writev(self._descriptor, self._unfinished))
        self.trail.append(self._log_bytes + self._end, self._arrived)
        return self._group

    def turn(self, seconds: float) -> None:
        """Begins the next segment if this one is large or old enough. OSError: not possible now."""
        if self._ended:
            return
        # a roll may be larger than a segment is to be
        large = self._end - self._start >= self._segment_bytes
        if large or (self._end > self._start and seconds - self._begun >= self._settings.segment_seconds):
            self._begin(self.number + 1)

    def clock_jump(self) -> Item | None:
        """A CLOCK entry if the wall clock has been set since the last one."""
        now = self._clock()
        if abs(now - self.clock_ns) < CLOCK_JUMP_NS:
            return None
        self.clock_ns = now
        return (int(EntryKind.CLOCK), 0, NO_CONNECTION, now, time.monotonic_ns(), b"", ())

    def close(self) -> None:
        """Closes the log; a second call does nothing. Nothing can be appended any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._end_blocks()

    def _end_blocks(self) -> None:
        if self._blocks is not None:
            self._blocks.close()
            self._blocks = None

    def _size(self) -> int:
        """The segment's size on disk. Raises FileNotFoundError for a removed file, which would take every write."""
        status = os.fstat(self._descriptor)
        if not status.st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the log has been removed", str(self.folder.path))
        return status.st_size

    def _drop(self, count: int) -> None:
        self._end += count
        buffers = self._unfinished
        whole = 0
        while whole < len(buffers) and count >= len(buffers[whole]):
            count -= len(buffers[whole])
            whole += 1
        del buffers[:whole]
        if count:
            buffers[0] = buffers[0][count:]

    def _check_room(self, wanted: int) -> None:
        if self.spool_bytes + wanted <= self._settings.spool:
            return
        self.look()
        if self.spool_bytes + wanted > self._settings.spool and self.spool_bytes > self._start:
            if self._end > self._start:
                # the compactor removes only closed segments
                self._begin(self.number + 1)
            raise SpoolFullError("the spool has reached its limit")

    def look(self) -> None:
        """Sums up the older segments that are still there. OSError: the newest one was removed or moved."""
        self._size()
        if not self.folder.is_in_place:
            raise FileNotFoundError(errno.ENOENT, "the log has been moved", str(self.folder.path))
        older = (number for number in segments(self.folder) if number != self.number)
        self._older_bytes = sum(self.folder.size(segment_name(number)) for number in older)

    def _begin(self, number: int) -> None:
        clock_ns, mono_ns, log_bytes = self._clock(), time.monotonic_ns(), self._log_bytes + self._end
        head_facts = self._settings.cluster, self._settings.segment_seconds, log_bytes
        head = SegmentHead(self.folder.path.name, number, clock_ns, mono_ns, self._end, *head_facts)
        encoded, seed = spool.encode_head(head)
        roll = self._roll.text()
        encoded += spool.entry_head(int(EntryKind.ROLL), 0, NO_CONNECTION, 0, mono_ns, roll, (), 0, seed) + roll
        descriptor = self._create(number, encoded)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self.number, self.clock_ns, self._seed = descriptor, number, clock_ns, seed
        self._end_blocks()
        with suppress(OSError):
            self._blocks = BlockFile(self.folder.open(segment_name(number), os.O_WRONLY | os.O_DIRECT))
        self._log_bytes = log_bytes
        self.trail.begin(number, log_bytes)
        self._start = self._end = len(encoded)
        self._begun = time.monotonic()
        self.look()

    def _create(self, number: int, encoded: bytes) -> int:
        """Makes a segment with these first bytes; renamed when whole, so that no process sees one without a head."""
        name = segment_name(number)
        descriptor = self.folder.create("." + name, os.O_RDWR | os.O_APPEND)
        try:
            lock_segment(descriptor)
            if os.write(descriptor, encoded) != len(encoded):
                raise OSError("a segment's head was written in part")
            self.folder.rename("." + name, name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


class Writer:
    """The thread, and the queue that it writes.

    `segment`: the number of the log's newest one; entries queued later go into it or into a later one.
    `written`: the part of the tap's count that has reached the log: bytes, and ENTRY_COST an entry. `written_bytes`:
    the bytes alone. `ended`: nothing will be written any more; if `failed` too, because of a fault of the thread.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.queue: list[Item] = []
        self.segment = log.number
        self.idle = False
        self.failed = False
        self.ended = False
        self.written = 0
        self.written_bytes = 0
        self.written_items = 0
        self._stuck = False
        # when the current call to the disk began; None outside of calls
        self._calling_since: float | None = None
        self._closing = False
        self._looked = 0.0
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._progress = threading.Condition()
        # (condition, function to call once it holds)
        self._callbacks: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._thread = threading.Thread(target=self._run, name="wiretap-log", daemon=True)

    def start(self) -> None:
        """Starts the thread. Raises OSError if the machine refuses one."""
        begin(self._thread)

    @property
    def hangs(self) -> bool:
        """True if a call to the disk has not returned for longer than a working disk takes."""
        since = self._calling_since
        return since is not None and time.monotonic() - since > HANG_SECONDS

    def wake(self) -> None:
        """Wakes the idle thread: there is work."""
        self.idle = False
        self._wake.set()
        if self.ended:
            # it may have ended after the caller read `idle`
            self.idle = True

    def wait_until(self, enough: Callable[[], bool]) -> None:
        """Blocks until `enough()`, called after every write, is true, or until the thread has ended."""
        with self._progress:
            self._progress.wait_for(lambda: enough() or self.ended)

    def call_when(self, enough: Callable[[], bool], call: Callable[[], None]) -> None:
        """Calls `call` once, in any thread, when `wait_until` would return. Never blocks."""
        with self._progress:
            self._callbacks.append((enough, call))
        self._call_due()

    def flush(self) -> None:
        """Blocks until all queued entries are written, or a write has failed."""
        self._stuck = False
        self._hurry.set()
        self._wake.set()
        # items leave the queue only once written: all of an empty queue is in the log
        self.wait_until(lambda: self._stuck or not self.queue)
        self._hurry.clear()

    def close(self) -> None:
        """Writes the queue, with one more try if the disk fails, and ends the thread."""
        self._closing = True
        self._hurry.set()
        self._wake.set()
        self._thread.join()
        if self.queue:
            lost = data_size(self.queue)
            log(ERROR, "the end of the recording is lost", folder=self.log.folder.path, bytes=lost)
        self.log.close()

    def _run(self) -> None:
        try:
            # read before each try: only a try after closing has begun is the last one, which has no limit
            while not ((closing := self._closing) and not self.queue):
                if not self.queue:
                    self._rest()
                elif not self._try(self._work) and closing:
                    return
        except Exception:
            # a bug, not the disk: it would fail again with every try
            self.failed = True
            log(ERROR, "nothing is recorded any more", trace=True, folder=self.log.folder.path)
        finally:
            self.ended = True
            # so the tap calls `wake` with its next entry, and sees `ended`
            self.idle = True
            self._notify()

    def _rest(self) -> None:
        self.idle = True
        if not self.queue:
            self._wake.wait(IDLE_SECONDS)
        self._wake.clear()
        self.idle = False
        if self.queue:
            self._hurry.wait(LINGER_SECONDS)
        self._try(self._look_around)

    def _try(self, work: Callable[[], None]) -> bool:
        self._calling_since = time.monotonic()
        try:
            work()
        except OSError as error:
            self._calling_since = None
            if not self.failed and not isinstance(error, SpoolFullError):
                self.failed = True
                log(WARNING, "nothing can be recorded", folder=self.log.folder.path, reason=error.strerror or error)
            self._stuck = True
            self._notify()
            if not self._closing:
                self._hurry.wait(RETRY_SECONDS)
            return False
        self._calling_since = None
        self._note_success()
        return True

    def _note_success(self) -> None:
        if self.failed:
            self.failed = False
            log(WARNING, "recording goes on", folder=self.log.folder.path, reason="the disk takes it again")

    def _work(self) -> None:
        queue = self.queue
        while queue:
            self._calling_since = time.monotonic()
            if not self.log.busy:
                self._note_clock()
            count = self.log.resume() if self.log.busy else self.log.append(queue, limited=not self._closing)
            size = data_size(queue[:count])
            self.written_bytes += size
            self.written += size + count * ENTRY_COST
            self.written_items += count
            del queue[:count]
            # before waiting threads are notified
            self._note_success()
            self._notify()
            self._turn()
            if len(queue) < GROUP:
                self._hurry.wait(LINGER_SECONDS)

    def _note_clock(self) -> None:
        jump = self.log.clock_jump()
        if jump is not None:
            self.queue.insert(0, jump)
            # the tap has not counted this entry
            self.written -= ENTRY_COST

    def _look_around(self) -> None:
        now = self._turn()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self.log.look()

    def _turn(self) -> float:
        now = time.monotonic()
        self.log.turn(now)
        self.segment = self.log.number
        return now

    def _notify(self) -> None:
        with self._progress:
            self._progress.notify_all()
        self._call_due()

    def _call_due(self) -> None:
        with self._progress:
            due = [(enough, call) for enough, call in self._callbacks if self.ended or enough()]
            self._callbacks = [one for one in self._callbacks if one not in due]
        for _, call in due:
            call()
