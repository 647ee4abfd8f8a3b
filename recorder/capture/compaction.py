"""Compacts one session: makes Parquet files of the segments of its log, each frame exactly once, through any crash.

Used by `compactor`. The rows of one segment are a *range*: the frames whose last byte stands in the segment, and the
frames that a connection's end in the segment cuts off. A range's files are named after the segment, so a second run
makes the same files. The steps of a range have a safe order:

    publish the files     after a crash here, the range is made again and replaces its files
    write the state       from which the next range starts; after a crash here, only the removal is done again
    remove the segment
    sync the folder       or a crash of the machine may bring back the segment, and not the state before it
    remove older states

An encrypted log can only be compacted with its key. Where that is gone with both processes that knew it, each
connection has a gap of the cause `key_lost`, exact to the byte: entries' heads tell what there was.

A part of the log that is missing or unreadable becomes a row of `events`, with its size if that is known. Only the torn
last write of a killed writer has no row of its own: its size is in the session's closing event. `assembly` finds out
what each connection has lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxy.files import Folder
from proxy.wire.errors import in_bytes
from recorder.capture import session as sessions
from recorder.capture.assembly import Assembly
from recorder.capture.cipher import LogCipher
from recorder.capture.lock import WRITER_LOCK, Lock, take_writer_lock
from recorder.capture.progress import Progress, segments_with_state, state_name, write_progress
from recorder.capture.ranges import RangeFiles
from recorder.capture.record_hashing import RecordHashing
from recorder.capture.resuming import Resuming
from recorder.capture.retention import Keeper
from recorder.capture.segments import SegmentReader, segment_name, segments
from recorder.capture.spool import DamagedSegmentError
from recorder.capture.status import Status, write_status
from recorder.capture.storage import BeforeStep, ignore_step, publish, remove_unpublished, unpublish

# how often the status file is renewed
STATUS_SECONDS = 0.5


class Compaction:
    """The compaction of one session. The caller holds the session's compactor lock.

    Args:
        folder: the capture.
        session: the session's folder.
        before_step: called before each step, with the step's name.
        idle: called when the log of a live session has been read to its end: waits, or uses the time to compact a
            session that an earlier proxy has left. None: don't wait.
        facts_failed: the number of files whose facts could not be made, for the status.
        keeper: what was removed of the capture, for events and the status.
        cipher: that of an encrypted log; None: the log is in clear, or its key is gone.
        hashing: what hashes records; None if no rule does.

    Attributes:
        frames, bytes: the number of frames in published rows, and their bytes.
        lost_parts: descriptions of the lost parts of the log.
    """

    def __init__(
        self,
        folder: Path,
        session: Folder,
        *,
        before_step: BeforeStep = ignore_step,
        idle: Callable[[], None] | None = None,
        facts_failed: Callable[[], int] = int,
        keeper: Keeper | None = None,
        cipher: LogCipher | None = None,
        hashing: RecordHashing | None = None,
    ) -> None:
        self.folder = folder
        self._cipher, self._hashing = cipher, hashing
        self.name = session.path.name
        self.frames = 0
        self.bytes = 0
        self.lost_parts: list[str] = []
        self._session = session
        self._before_step = before_step
        self._idle = idle
        self._facts_failed = facts_failed
        self._keeper = keeper
        self._assembly = Assembly()
        # readable segments that are lost, because the compaction resumes with the state of a later segment
        self._unread_segments: list[int] = []
        self._writer_lock: Lock | None = None
        self._reported_at = 0.0
        self._position = 0
        self._segment = 0

    def run(self) -> bool:
        """Compacts the log, and removes the session's folder at its end. Returns False if the session is still written.

        With `idle`, waits for the end of a live session. Without the key of an encrypted log, leaves it while it is
        written: its proxy knows the key.
        """
        if self._lacks_key() and not self._writer_has_ended():
            return False
        resuming = Resuming(self.folder, self._session, self._cipher, self._hashing)
        progress, self._assembly, self._unread_segments = resuming.resume()
        self.frames, self.bytes = progress.frames, progress.bytes
        remove_unpublished(self.folder, self.name)
        if self._lacks_key():
            # the state behind these rows was not written, and they can't be made again: their frames are in the gap
            unpublish(self.folder, self.name, progress.segment)
        while not progress.finished:
            reader = self._next_readable(progress.segment)
            if reader is None:
                if self._writer_has_ended():
                    # the writer was killed between two segments, or before the first: only the end is missing
                    progress = self._publish_end(progress)
                elif not self._wait():
                    return False
                continue
            new_progress = self._compact(reader, progress)
            if new_progress is None:
                return False
            progress = new_progress
        sessions.remove(self.folder, self.name, self._before_step)
        return True

    def close(self) -> None:
        """Releases the writer's lock, if it was taken."""
        if self._writer_lock is not None:
            self._writer_lock.release()

    # one range

    def _compact(self, reader: SegmentReader, before: Progress) -> Progress | None:
        """Publishes the rows of a segment; returns the new progress.

        Returns None, and publishes nothing, if the segment is still written and there is no `idle`.
        """
        segment = self._segment = reader.head.number
        self._position = 0
        files = RangeFiles(self.folder, self.name, segment, reader.head.cluster)
        try:
            self._begin(files, reader, before)
            if not self._feed(reader, segment):
                files.discard()
                return None
            last = self._next_segment(segment) is None
            end = self._add_unread_bytes(reader, segment, is_last=last)
            if last:
                self._assembly.finish()
            return self._publish(files, segment, before, finished=last, log_bytes=end)
        except BaseException:
            files.discard()
            raise
        finally:
            reader.close()

    def _begin(self, files: RangeFiles, reader: SegmentReader, before: Progress) -> None:
        """Begins a range, with the losses before its segment. The first range also gets the event `started`."""
        assembly, head = self._assembly, reader.head
        if reader.lacks_key:
            assembly.lose_key()
        assembly.begin_range(files, head.clock_ns)
        assembly.begin_segment(head.mono_ns)
        self._add_losses_before(before)
        if head.number != before.segment + 1:
            size = None if before.log_bytes is None else max(head.log_bytes - before.log_bytes, 0)
            self._add_lost_segments(before.segment + 1, head.number - 1, size)

    def _open(self, segment: int) -> SegmentReader | None:
        """The reader of a segment; None if the segment's head is damaged."""
        try:
            return SegmentReader(self._session, segment, self._cipher)
        except DamagedSegmentError:
            return None

    def _lacks_key(self) -> bool:
        """True if the log is encrypted, and its key is not there."""
        reader = None if self._cipher else self._next_readable(0)
        if reader is None:
            return False
        reader.close()
        return reader.lacks_key

    def _next_readable(self, segment: int) -> SegmentReader | None:
        """The reader of the first later segment whose head is whole; None if there is none."""
        later = (number for number in segments(self._session) if number > segment)
        return next((reader for number in later if (reader := self._open(number)) is not None), None)

    def _feed(self, reader: SegmentReader, segment: int) -> bool:
        """Feeds all entries of a segment to the assembly. Returns False if its end isn't written yet."""
        while True:
            # asked before reading: if the segment was sealed before, the following read finds all of its entries
            sealed = self._sealed(segment)
            limit = self._end_of(segment) if sealed else None
            if self._feed_next(reader, limit):
                continue
            if sealed:
                if not reader.pass_over(limit):
                    return True
                self._assembly.damage()
            elif not self._wait():
                return False

    def _feed_next(self, reader: SegmentReader, limit: int | None) -> bool:
        """Feeds the next block of entries. Returns False if there are none now."""
        entries = reader.read(limit)
        for entry in entries:
            self._assembly.feed(entry)
        self._position = reader.position
        self._report()
        return bool(entries)

    def _sealed(self, segment: int) -> bool:
        """True if nothing more will be written into a segment."""
        return self._next_segment(segment) is not None or self._writer_has_ended()

    def _end_of(self, segment: int) -> int | None:
        """The offset after a segment's last entry, if the next segment's head tells it."""
        following = self._open(segment + 1) if self._next_segment(segment) == segment + 1 else None
        if following is None:
            return None
        following.close()
        return following.head.previous_end

    def _next_segment(self, segment: int) -> int | None:
        return next((number for number in segments(self._session) if number > segment), None)

    def _publish(
        self, files: RangeFiles, segment: int, before: Progress, *, finished: bool, log_bytes: int | None
    ) -> Progress:
        """Publishes the files, writes the state, and removes the segment and the older states, in this order."""
        rows = self._assembly.rows
        self._add_removals(before, segment)
        self._assembly.end_range(files.hours)
        publish(files.finish(), self._before_step)
        counts = self.frames + rows.frames, self.bytes + rows.bytes
        progress = Progress(segment, finished, files.cluster, *counts, log_bytes)
        self._before_step("state")
        write_progress(self._session, progress, self._assembly, self._cipher)
        self.frames, self.bytes = counts
        if lost := self._assembly.lost_bytes:
            self._assembly.lost_bytes = 0
            self.lost_parts.append(f"{in_bytes(lost)} of traffic in segment {segment}, whose key is lost")
        self._remove_done(segment)
        self._report(published=True)
        return progress

    def _publish_end(self, before: Progress) -> Progress:
        """Publishes the session's end as a range of its own. Unreadable last segments count as part of that range."""
        unread = [number for number in segments(self._session) if number > before.segment]
        segment = unread[-1] if unread else before.segment + 1
        files = RangeFiles(self.folder, self.name, segment, before.cluster)
        self._assembly.begin_range(files, self._assembly.clock_offset_ns or self._session_began_ns())
        self._add_losses_before(before)
        if unread:
            whole = len(unread) == segment - before.segment
            sizes = (self._session.size(segment_name(number)) for number in unread)
            self._add_lost_segments(before.segment + 1, segment, sum(sizes) if whole else None)
        self._assembly.finish()
        return self._publish(files, segment, before, finished=True, log_bytes=None)

    def _session_began_ns(self) -> int:
        """When the session began, by its writer's lock file; used if no segment tells the time. 0: unknown."""
        lock = self._session.stat(WRITER_LOCK)
        return 0 if lock is None else lock.st_mtime_ns

    def _remove_done(self, segment: int) -> None:
        """Removes the segments up to this one, and then, durably after them, the older states."""
        for number in segments(self._session):
            if number <= segment:
                self._before_step(f"remove segment {number}")
                self._session.remove(segment_name(number))
        self._session.sync()
        for number in segments_with_state(self._session):
            if number != segment:
                self._before_step(f"remove state {number}")
                self._session.remove(state_name(number))

    # losses

    def _add_removals(self, before: Progress, segment: int) -> None:
        """Adds what was removed of the capture, and is in no event yet."""
        for removed in self._keeper.to_tell(self.name, before.segment, segment) if self._keeper else ():
            mono_ns = self._assembly.last_mono_ns
            self._assembly.events.removed(mono_ns, removed.reason, removed.files, removed.bytes, removed.until_ns)

    def _add_unread_bytes(self, reader: SegmentReader, segment: int, *, is_last: bool) -> int | None:
        """Adds a segment's unreadable bytes to the losses. Returns where in the log it ends; None: unknown."""
        assembly, limit = self._assembly, self._end_of(segment)
        end = self._session.size(segment_name(segment)) if limit is None else limit
        rest = max(end - reader.position, 0)
        if is_last and not assembly.ended and reader.is_torn(limit):
            # a writer that was killed leaves its last write torn
            assembly.torn_bytes, rest = rest, 0
        if rest:
            assembly.damage()
        lost = reader.passed_over + rest + assembly.invalid_bytes
        if lost:
            self._add_loss(
                {"segments": [segment, segment], "log_bytes": lost}, f"{in_bytes(lost)} of segment {segment}"
            )
        return reader.head.log_bytes + end

    def _add_lost_segments(self, first: int, last: int, size: int | None) -> None:
        self._assembly.damage()
        description = f"segment {first}" if first == last else f"segments {first} to {last}"
        self._add_loss({"segments": [first, last], "log_bytes": size}, description)

    def _add_losses_before(self, before: Progress) -> None:
        """Adds the losses before this range: a lost state, and readable segments that won't be read."""
        if before.is_damaged:
            self._add_loss(
                {"state": before.segment}, f"what was known of the connections after segment {before.segment}"
            )
        for segment in self._unread_segments:
            self._add_lost_segments(segment, segment, self._session.size(segment_name(segment)))
        self._unread_segments = []

    def _add_loss(self, detail: dict[str, Any], description: str) -> None:
        """Adds the loss of a part of the log. `detail`: of its event; `description`: for the compactor's output."""
        self._assembly.events.log_lost(self._assembly.last_mono_ns, detail)
        self.lost_parts.append(description)

    # the writer, and the status

    def _writer_has_ended(self) -> bool:
        """True if the session's writer has ended. From then on this compaction holds the writer's lock."""
        if self._writer_lock is None:
            self._writer_lock = take_writer_lock(self._session)
        return self._writer_lock is not None

    def _wait(self) -> bool:
        if self._idle is None:
            return False
        self._idle()
        return True

    def _report(self, *, published: bool = False) -> None:
        """Renews the status file, if it is old enough.

        `published`: True just after the range was published. `frames` and `bytes` then count its rows already, and the
        file is renewed in any case.
        """
        seconds = time.monotonic()
        if not published and seconds - self._reported_at < STATUS_SECONDS:
            return
        self._reported_at = seconds
        rows = self._assembly.rows
        extra = (0, 0) if published else (rows.frames, rows.bytes)
        status = Status(
            frames=self.frames + extra[0],
            bytes=self.bytes + extra[1],
            segment=self._segment,
            position=self._position,
            at_ns=time.monotonic_ns(),
            facts_failed=self._facts_failed(),
            folder_bytes=self._keeper.size if self._keeper else 0,
            removed_files=self._keeper.files if self._keeper else 0,
            removed_bytes=self._keeper.bytes if self._keeper else 0,
        )
        write_status(self._session, status)
