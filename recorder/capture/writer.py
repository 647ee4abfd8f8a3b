"""The thread that writes the tap's entries (`Writer`), and the log that it appends to (`Log`).

The tap appends items to `Writer.queue`. The thread writes them in groups: as one buffer, or, if they are large, by
direct I/O, and what that leaves by `writev` without a copy. A disk that is slow, full or failing only makes the queue
longer: a write that failed is tried again from the byte where it broke off. The tap decides what to do about a long
queue.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from logging import ERROR, WARNING
from typing import NamedTuple

from proxy.files import Folder
from proxy.log import log
from proxy.threads import begin
from recorder.capture import spool
from recorder.capture.cipher import LogCipher
from recorder.capture.direct_io import BLOCK, MIN_DIRECT_BYTES, DirectFile, DirectWriteLimit, ShortWrite
from recorder.capture.inventory import Inventory
from recorder.capture.lag import ArrivalTimes
from recorder.capture.lock import lock_segment
from recorder.capture.segments import segment_name, segments
from recorder.capture.session import Fsync, RecordSettings
from recorder.capture.spool import DATA, KIND, MONO_NS, NO_CONNECTION, EntryKind, Item, SegmentHead, data_size

# memory that a queued item takes beyond its bytes: the tuple (96), the bytes object's head (33), two integers (64), the
# pointer in the queue (8), rounded up. CPython 3.11 on 64 bits. Small chunks, such as heartbeats, are mostly this
ENTRY_COST = 208

# how long the thread waits for more items: one write serves many chunks, and the event loop's thread keeps the
# interpreter's lock, and its processor, meanwhile. Small items may wait longer: while large ones do, the queue fills
LINGER_SECONDS, SMALL_LINGER_SECONDS = 0.01, 0.025
# how often an idle thread checks the segment's age
IDLE_SECONDS = 0.5
# how soon a failed write is tried again
RETRY_SECONDS = 0.2
# a call to the disk that has not returned after so long counts as hanging
HANG_SECONDS = 10.0
# how often the size of the older segments is renewed for the metrics; the check of the limit renews it itself
SUM_SECONDS = 0.5
# if the wall clock has moved by so much against the monotonic clock, somebody has set it
CLOCK_JUMP_NS = 10_000_000
CLOCK_READINGS = 20
# entries in one `writev`: the kernel takes 1024 buffers (IOV_MAX of Linux), and each entry needs two
GROUP = 1024 // 2

# errors of a file system without direct I/O, or without memory for it
NO_DIRECT_IO = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOMEM})

Writev = Callable[[int, Sequence[bytes]], int]


def clock_offset() -> int:
    """Wall clock minus monotonic clock, in ns.

    On a busy machine a process may stand still between both readings, as if somebody had set the clock. Then they are
    read again, CLOCK_READINGS times at most.
    """
    for _ in range(CLOCK_READINGS):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if after - before < CLOCK_JUMP_NS // 4:
            break
    return wall - (before + after) // 2


class Clock(NamedTuple):
    """A clock of the log, as two functions: the monotonic time, and wall clock minus monotonic clock; both in ns."""

    now_ns: Callable[[], int] = time.monotonic_ns
    offset_ns: Callable[[], int] = clock_offset


MACHINE_CLOCK = Clock()


class SpoolFullError(OSError):
    """The log has reached the limit of its size; the compactor has to remove segments first."""


class Log:
    """A session's log: appends to its newest segment, and rolls to the next one.

    Attributes:
        folder: the session's folder.
        segment: the number of the newest segment.
        clock: the clock of the entries' times.
        clock_offset_ns: wall clock minus monotonic clock, as the log's entries have it.
        arrival_times: when the log's entries arrived, for `lag`.
    """

    def __init__(
        self,
        folder: Folder,
        settings: RecordSettings,
        *,
        writev: Writev = os.writev,
        clock: Clock = MACHINE_CLOCK,
        cipher: LogCipher | None = None,
    ) -> None:
        self.folder = folder
        # None: the log is not encrypted
        self._cipher = cipher
        self._settings = settings
        self._writev = writev
        self.clock = clock
        # the limit must allow for several segments, because the compactor removes only closed ones
        self._segment_bytes = min(settings.segment, max(settings.spool // 4, 1))
        # the group of items that is being written: the bytes that are not written yet, and the number of its items
        self._unfinished: list[bytes] = []
        self._group_items = 0
        # the newest segment, opened again for direct I/O; None if the file system has none
        self._direct_file: DirectFile | None = None
        self._direct_limit = DirectWriteLimit()
        self._older_bytes = 0
        self.arrival_times = ArrivalTimes()
        # when the first item of the unfinished group arrived
        self._group_arrived = 0
        # the inventory of the log so far, and the log's length before the newest segment
        self._inventory = Inventory()
        self._log_bytes = 0
        # the seed of the checksums of the newest segment's entries
        self._seed = 0
        self.segment = 0
        # offsets in the newest segment: of its end, and of its first entry after the inventory
        self._end = self._start = 0
        # True once the log's END is written: no segment follows
        self._ended = False
        self._descriptor = -1
        self._segment_begun = 0.0
        # the end of the newest segment when it was synced last, and when that was (monotonic)
        self._synced_end, self._synced_at = 0, time.monotonic()
        self._sync_failed = False
        self.clock_offset_ns = 0
        self._begin(1)

    @property
    def spool_bytes(self) -> int:
        """Bytes of all segments; those of older segments as of the last `sum_older_segments`."""
        return self._older_bytes + self._end

    @property
    def interrupted(self) -> bool:
        """True if a write was interrupted: `resume` must finish it."""
        return bool(self._unfinished)

    def append(self, items: Sequence[Item], *, limited: bool = True) -> int:
        """Writes the first items, GROUP at most; returns their number. `limited`: keep to the limit of the log's size.

        Raises OSError if it can't write now. If the log is `interrupted` then, the caller must go on with `resume`.
        """
        group = items[:GROUP]
        size = data_size(group)
        if limited:
            self._check_room(size)
        self._group_items, self._group_arrived = len(group), group[0][MONO_NS]
        pieces = self._encoded(group)
        if size < MIN_DIRECT_BYTES:
            self._unfinished = [b"".join(pieces)]
            return self.resume()
        made = self._unfinished = []
        try:
            if self._direct_file is not None:
                self._append_direct(self._direct_file, _noted(pieces, made))
        finally:
            # what direct I/O has left
            made.extend(pieces)
        return self.resume()

    def _encoded(self, group: Sequence[Item]) -> Iterator[bytes]:
        """The bytes of the items as the log's next entries, two pieces each (`spool.encoded`)."""
        numbers, seed = self._inventory.number_entries(group), self._seed
        if group[-1][KIND] == EntryKind.END:
            self._ended = True
            group = [*group[:-1], (*group[-1][:DATA], self._inventory.text(), ())]
        fields = spool.entry_fields(group, numbers)
        if self._cipher is not None:
            return _encrypted(self._cipher, group, fields, self.segment, seed)
        return spool.encoded(fields, [item[DATA] for item in group], seed)

    def _append_direct(self, direct_file: DirectFile, pieces: Iterable[bytes]) -> None:
        """Writes a part of the pieces of the unfinished group with direct I/O; `resume` writes the rest."""
        allowed = self._direct_limit.allowed_bytes()
        if not allowed:
            return
        begun_size = self._end % BLOCK
        begun = os.pread(self._descriptor, begun_size, self._end - begun_size)
        try:
            appended = direct_file.append(pieces, self._end, begun, allowed)
        except ShortWrite:
            return
        except OSError as error:
            if error.errno not in NO_DIRECT_IO:
                raise
            self._close_direct_file()
        else:
            self._direct_limit.note(appended.seconds, appended.size)

    def resume(self) -> int:
        """Finishes an interrupted `append`; returns its number of items. Raises OSError."""
        # a failed call may have written a part: the file's size tells how much
        self._drop_written(self._size() - self._end)
        while self._unfinished:
            self._drop_written(self._writev(self._descriptor, self._unfinished))
        self.arrival_times.append(self._log_bytes + self._end, self._group_arrived)
        return self._group_items

    def roll_if_due(self, seconds: float) -> None:
        """Begins the next segment if this one is large or old enough. `seconds`: monotonic time. Raises OSError."""
        if self._ended:
            return
        # the inventory at its beginning is not counted: it may be larger than a segment should be
        large = self._end - self._start >= self._segment_bytes
        if large or (self._end > self._start and seconds - self._segment_begun >= self._settings.segment_seconds):
            self._begin(self.segment + 1)

    def sync_if_due(self, seconds: float) -> None:
        """With `fsync = "interval"`, syncs what was written if it is time. `seconds`: monotonic time. Blocks."""
        settings = self._settings
        is_due = settings.fsync is Fsync.INTERVAL and seconds - self._synced_at >= settings.fsync_interval
        if is_due and self._end > self._synced_end:
            self._synced_at, self._synced_end = seconds, self._end
            self._sync(self._descriptor)

    def _sync(self, *descriptors: int) -> None:
        """Syncs files, in this order. A disk that can't costs no recording: the log says so, once until it can again.

        An error is not raised: after a failed sync the kernel takes the pages for written, and a second try would
        succeed without them.
        """
        try:
            for descriptor in descriptors:
                os.fsync(descriptor)
        except OSError as error:
            if not self._sync_failed:
                self._sync_failed = True
                log(WARNING, "the log can't be synced", folder=self.folder.path, reason=error.strerror or error)
        else:
            self._sync_failed = False

    def _sync_closed(self) -> None:
        """Syncs a segment that gets no more entries."""
        if self._settings.fsync is not Fsync.NEVER and self._descriptor >= 0:
            self._sync(self._descriptor)

    def clock_jump(self) -> Item | None:
        """A CLOCK item if the wall clock was set after the segment's head or the last CLOCK item; otherwise None."""
        now = self.clock.offset_ns()
        if abs(now - self.clock_offset_ns) < CLOCK_JUMP_NS:
            return None
        self.clock_offset_ns = now
        return (int(EntryKind.CLOCK), 0, NO_CONNECTION, now, self.clock.now_ns(), b"", ())

    def close(self) -> None:
        """Syncs and closes the log's files; a second call does nothing."""
        if self._descriptor >= 0:
            self._sync_closed()
            os.close(self._descriptor)
            self._descriptor = -1
        self._close_direct_file()

    def _close_direct_file(self) -> None:
        if self._direct_file is not None:
            self._direct_file.close()
            self._direct_file = None

    def _size(self) -> int:
        """The segment's size on disk. Raises FileNotFoundError if the file was removed: writes would succeed still."""
        status = os.fstat(self._descriptor)
        if not status.st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the log has been removed", str(self.folder.path))
        return status.st_size

    def _drop_written(self, count: int) -> None:
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
        self.sum_older_segments()
        if self.spool_bytes + wanted > self._settings.spool and self.spool_bytes > self._start:
            if self._end > self._start:
                # the compactor removes only closed segments
                self._begin(self.segment + 1)
            raise SpoolFullError("the spool has reached its limit")

    def sum_older_segments(self) -> None:
        """Renews the size of the older segments. Raises OSError if the newest segment was removed or moved."""
        self._size()
        if not self.folder.is_in_place:
            raise FileNotFoundError(errno.ENOENT, "the log has been moved", str(self.folder.path))
        older = (number for number in segments(self.folder) if number != self.segment)
        self._older_bytes = sum(self.folder.size(segment_name(number)) for number in older)

    def _begin(self, number: int) -> None:
        clock_offset_ns, mono_ns, log_bytes = self.clock.offset_ns(), self.clock.now_ns(), self._log_bytes + self._end
        head_facts = self._settings.cluster, self._settings.segment_seconds, log_bytes
        is_encrypted = self._cipher is not None
        head = SegmentHead(
            self.folder.path.name, number, clock_offset_ns, mono_ns, self._end, *head_facts, is_encrypted
        )
        encoded, seed = spool.encode_head(head)
        inventory: Item = (int(EntryKind.INVENTORY), 0, NO_CONNECTION, 0, mono_ns, self._inventory.text(), ())
        if self._cipher is None:
            encoded += spool.encoded_entry(inventory, 0, seed)
        else:
            fields = spool.entry_fields([inventory], [0])
            encoded += b"".join(_encrypted(self._cipher, [inventory], fields, number, seed))
        # before the next segment is there: entries of a segment are lost only with all of the following ones
        self._sync_closed()
        descriptor = self._create(number, encoded)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self.segment, self.clock_offset_ns, self._seed = descriptor, number, clock_offset_ns, seed
        self._close_direct_file()
        with suppress(OSError):
            self._direct_file = DirectFile(self.folder.open(segment_name(number), os.O_WRONLY | os.O_DIRECT))
        self._log_bytes = log_bytes
        self.arrival_times.begin(number, log_bytes)
        self._start = self._end = self._synced_end = len(encoded)
        self._segment_begun = time.monotonic()
        self.sum_older_segments()

    def _create(self, number: int, encoded: bytes) -> int:
        """Makes a segment with these first bytes. It is hidden until they are written: no process sees half a head."""
        name = segment_name(number)
        descriptor = self.folder.create("." + name, os.O_RDWR | os.O_APPEND)
        try:
            lock_segment(descriptor)
            if os.write(descriptor, encoded) != len(encoded):
                raise OSError("a segment's head was written in part")
            if self._settings.fsync is not Fsync.NEVER:
                self._sync(descriptor)
            self.folder.rename("." + name, name)
            if self._settings.fsync is not Fsync.NEVER:
                self._sync(self.folder.descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _noted(pieces: Iterator[bytes], made: list[bytes]) -> Iterator[bytes]:
    """The pieces, each added to `made` before it is passed on."""
    for piece in pieces:
        made.append(piece)
        yield piece


def _encrypted(
    cipher: LogCipher, group: Sequence[Item], fields: Sequence[bytes], segment: int, seed: int
) -> Iterator[bytes]:
    """As `spool.encoded`, for entries of an encrypted log."""
    for item, of_item in zip(group, fields, strict=True):
        count, stored = cipher.encrypted(item[KIND], item[DATA], of_item, segment)
        yield from spool.encoded([of_item + count], [stored], seed)


class Writer:
    """The writing thread, and the queue that it empties.

    Attributes:
        segment: the number of the log's newest segment; later items go into it or into a later one.
        idle: True if the thread sleeps; the tap must call `wake` after it has queued an item.
        written: the size of everything that has left the queue: bytes, and ENTRY_COST for each item.
        written_bytes, written_items: the bytes in the items that have left the queue, and the number of these items.
        failed: True while writes fail, and after a fault of the thread.
        ended: True if nothing will be written any more.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        # called by the idle thread every IDLE_SECONDS
        self.when_idle: Callable[[], None] = lambda: None
        # called by the thread after each write, and every IDLE_SECONDS
        self.when_due: Callable[[], None] = lambda: None
        self.queue: list[Item] = []
        self.segment = log.segment
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
        self._summed_at = 0.0
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
        """Wakes the thread: the queue has items."""
        self.idle = False
        self._wake.set()
        if self.ended:
            # the thread may have ended after the caller read `idle`
            self.idle = True

    def wait_until(self, enough: Callable[[], bool]) -> None:
        """Blocks until `enough()` is true or the thread has ended. `enough` is called after every write."""
        with self._progress:
            self._progress.wait_for(lambda: enough() or self.ended)

    def call_when(self, enough: Callable[[], bool], call: Callable[[], None]) -> None:
        """Calls `call` once, in any thread, as soon as `enough()` is true or the thread has ended. Never blocks."""
        with self._progress:
            self._callbacks.append((enough, call))
        self._call_due()

    def flush(self) -> None:
        """Blocks until all queued entries are written, or a write has failed."""
        self._stuck = False
        self._hurry.set()
        self._wake.set()
        # items leave the queue only once they are written
        self.wait_until(lambda: self._stuck or not self.queue)
        self._hurry.clear()

    def close(self) -> None:
        """Writes the queue, whatever the size limit, with one last try if the disk is failing. Ends the thread."""
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
            # `closing` is read before each try: a try that began before `close`, and fails, is repeated
            while not ((closing := self._closing) and not self.queue):
                if not self.queue:
                    self._wait_for_items()
                elif not self._try(self._work) and closing:
                    return
        except Exception:
            # a bug, not the disk: it would fail again with every try
            self.failed = True
            log(ERROR, "nothing is recorded any more", trace=True, folder=self.log.folder.path)
        finally:
            self.ended = True
            # so that the tap looks at `ended` after its next item
            self.idle = True
            self._notify()

    def _wait_for_items(self) -> None:
        self.idle = True
        if not self.queue:
            self._wake.wait(IDLE_SECONDS)
        self._wake.clear()
        self.idle = False
        if self.queue:
            self._hurry.wait(LINGER_SECONDS)
        self._try(self._do_idle_work)

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
            if not self.log.interrupted:
                self._note_clock()
            count = self.log.resume() if self.log.interrupted else self.log.append(queue, limited=not self._closing)
            size = data_size(queue[:count])
            self.written_bytes += size
            self.written += size + count * ENTRY_COST
            self.written_items += count
            del queue[:count]
            # before other threads are notified, so that they see that the write succeeded
            self._note_success()
            self._notify()
            self._roll_if_due()
            if len(queue) < GROUP:
                self._hurry.wait(LINGER_SECONDS if size >= MIN_DIRECT_BYTES else SMALL_LINGER_SECONDS)

    def _note_clock(self) -> None:
        jump = self.log.clock_jump()
        if jump is not None:
            self.queue.insert(0, jump)
            # the tap never counted it as queued
            self.written -= ENTRY_COST

    def _do_idle_work(self) -> None:
        now = self._roll_if_due()
        self.when_idle()
        if now - self._summed_at >= SUM_SECONDS:
            self._summed_at = now
            self.log.sum_older_segments()

    def _roll_if_due(self) -> float:
        now = time.monotonic()
        self.log.roll_if_due(now)
        self.log.sync_if_due(now)
        self.segment = self.log.segment
        self.when_due()
        return now

    def _notify(self) -> None:
        with self._progress:
            self._progress.notify_all()
        self._call_due()

    def _call_due(self) -> None:
        with self._progress:
            due = [(enough, call) for enough, call in self._callbacks if self.ended or enough()]
            self._callbacks = [callback for callback in self._callbacks if callback not in due]
        for _, call in due:
            call()
