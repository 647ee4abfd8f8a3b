"""Segments of a session's log made into Parquet files, each frame exactly once, through any crash.

One segment is one range: its rows are those of the frames whose last byte stands in it, and its files are named after
it, so whoever does it again makes the same files. The order is what makes it safe: all files of the range and their
folders; the state that the next range starts from; the removal of the segment. A crash before the state was written
does the range again and replaces its files; a crash after it only has the segment left to remove.

    python -m recorder.capture.compactor FOLDER --session S --follow

A process of its own, started by the proxy. It ends when the session has; if the proxy dies it finishes what is written.
Meanwhile it takes over the sessions that earlier proxies left, when there is nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recorder.capture import session as sessions
from recorder.capture import spool
from recorder.capture.assembly import Assembly
from recorder.capture.progress import Progress, read_newest, states, write_progress
from recorder.capture.ranges import RangeFiles
from recorder.capture.session import FolderError, Lock, Status
from recorder.capture.spool import DamagedSegmentError, SegmentReader, UnknownSpoolError
from recorder.capture.storage import Steps, no_steps, publish, remove_unpublished, sync

# how often a compactor that has caught up looks for more
IDLE_SECONDS = 0.05
# how often it says how far it is
STATUS_SECONDS = 0.5
# the traffic goes before its recording: what the log holds can wait
NICENESS = 10


@dataclass(frozen=True, slots=True)
class Summary:
    """What `compact` did. `busy`: sessions that another process is making columns of; `live`: still being written."""

    sessions: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    frames: int = 0
    bytes: int = 0


class Compaction:
    """The compaction of one session. Whoever makes one holds the session's compactor lock.

    Args:
        steps: called before each step of the protocol, with its name.
        idle: waits for more; called when a live session's log has been read to its end.
    """

    def __init__(
        self, folder: Path, session: str, *, steps: Steps = no_steps, idle: Callable[[], None] | None = None
    ) -> None:
        self.folder = folder
        self.session = session
        self.spool = sessions.spool_folder(folder, session)
        self.frames = 0
        self.bytes = 0
        self._steps = steps
        self._idle = idle
        self._assembly = Assembly()
        self._writer_lock: Lock | None = None
        self._told = 0.0
        self._position = 0
        self._segment = 0

    def run(self) -> bool:
        """Compacts what there is; follows a live session if there is a way to idle. Returns whether it is finished."""
        remove_unpublished(self.folder, self.session)
        progress = self._restore()
        while not progress.finished:
            segment = self._next_segment(progress.segment)
            if segment is None:
                if self._ended():
                    # killed between two segments, or before the first: nothing is left but to say so
                    progress = self._last_words(progress.segment + 1, progress.cluster)
                elif not self._wait():
                    return False
                continue
            done = self._compact(segment, progress)
            if done is None:
                return False
            progress = done
        self._remove_session()
        return True

    # one range

    def _compact(self, segment: int, before: Progress) -> Progress | None:
        """Makes the files of a segment. None: it is still being written, and nobody wants to wait for its end."""
        self._segment, self._position = segment, 0
        files = RangeFiles(self.folder, self.session, segment, before.cluster)
        try:
            reader = self._open(segment)
            if reader is not None:
                files.cluster = reader.head.cluster
            clock_ns = reader.head.clock_ns if reader is not None else self._assembly.clock_ns
            self._assembly.begin_range(files, clock_ns)
            if segment != before.segment + 1 or reader is None:
                self._assembly.damage()
            if before.segment == 0 and reader is not None:
                self._assembly.events.session("started", reader.head.mono_ns, {"spool_format": spool.SPOOL_FORMAT})
            if reader is not None and not self._feed(reader, segment):
                files.discard()
                return None
            last = self._next_segment(segment) is None
            if last:
                self._assembly.finish()
            return self._publish(files, segment, finished=last)
        except BaseException:
            files.discard()
            raise

    def _open(self, segment: int) -> SegmentReader | None:
        """None where the segment's head is damaged."""
        try:
            return SegmentReader(spool.segment_path(self.spool, segment))
        except UnknownSpoolError:
            raise
        except DamagedSegmentError:
            return None

    def _feed(self, reader: SegmentReader, segment: int) -> bool:
        """All entries of a segment, to its end. False: its end isn't written yet."""
        try:
            while True:
                # asked before reading: what is read after the segment was sealed is all there is
                sealed = self._sealed(segment)
                limit = self._end_of(segment) if sealed else None
                if self._feed_next(reader, limit):
                    continue
                if sealed:
                    if limit is not None and reader.position != limit:
                        self._assembly.damage()
                    return True
                if not self._wait():
                    return False
        finally:
            reader.close()

    def _feed_next(self, reader: SegmentReader, limit: int | None) -> bool:
        """The entries that are there now, a block of them at most. False: there were none."""
        found = reader.read(limit)
        for entry in found:
            self._assembly.feed(entry)
        self._position = reader.position
        self._tell()
        return bool(found)

    def _sealed(self, segment: int) -> bool:
        """Whether nothing more will be written into a segment."""
        return self._next_segment(segment) is not None or self._ended()

    def _end_of(self, segment: int) -> int | None:
        """Where the entries of a segment end, as the next one's head says."""
        following = self._open(segment + 1) if self._next_segment(segment) == segment + 1 else None
        if following is None:
            return None
        following.close()
        return following.head.previous_end

    def _next_segment(self, segment: int) -> int | None:
        return next((number for number in spool.segments(self.spool) if number > segment), None)

    def _publish(self, files: RangeFiles, segment: int, *, finished: bool) -> Progress:
        """The protocol: files, state, removal."""
        rows = self._assembly.rows
        publish(files.finish(), self._steps)
        progress = Progress(segment, finished, files.cluster, self.frames + rows.frames, self.bytes + rows.bytes)
        self._steps("state")
        write_progress(self.spool, progress, self._assembly)
        self.frames, self.bytes = progress.frames, progress.bytes
        self._remove_done(segment)
        self._tell(now=True)
        return progress

    def _last_words(self, segment: int, cluster: str | None) -> Progress:
        files = RangeFiles(self.folder, self.session, segment, cluster)
        self._assembly.begin_range(files, self._assembly.clock_ns)
        self._assembly.finish()
        return self._publish(files, segment, finished=True)

    def _remove_done(self, segment: int) -> None:
        """What the state of this segment makes needless."""
        for number in spool.segments(self.spool):
            if number <= segment:
                self._steps(f"remove segment {number}")
                spool.segment_path(self.spool, number).unlink()
        for number, path in states(self.spool):
            if number < segment:
                self._steps(f"remove state {number}")
                path.unlink()

    def _restore(self) -> Progress:
        """Goes on behind the newest state, or begins."""
        progress = read_newest(self.spool, self._assembly)
        self.frames, self.bytes = progress.frames, progress.bytes
        return progress

    def _remove_session(self) -> None:
        """A finished session vanishes in one step: half of it would look like one that never began."""
        self._steps("remove session")
        gone = sessions.hide(self.spool)
        sync(gone.parent)
        self._steps("remove folder")
        sessions.remove_hidden(gone)

    # others

    def _ended(self) -> bool:
        """Whether the session's writer is gone; from then on its lock is held here."""
        if self._writer_lock is None:
            self._writer_lock = Lock.take(self.spool / sessions.WRITER_LOCK)
        return self._writer_lock is not None

    def _wait(self) -> bool:
        if self._idle is None:
            return False
        self._idle()
        return True

    def _tell(self, *, now: bool = False) -> None:
        seconds = time.monotonic()
        if not now and seconds - self._told < STATUS_SECONDS:
            return
        self._told = seconds
        rows = self._assembly.rows
        extra = (0, 0) if now else (rows.frames, rows.bytes)
        status = Status(
            frames=self.frames + extra[0],
            bytes=self.bytes + extra[1],
            segment=self._segment,
            position=self._position,
            at_ns=time.monotonic_ns(),
        )
        sessions.write_status(self.spool, status)


def compact_session(
    folder: Path, session: str, *, steps: Steps = no_steps, idle: Callable[[], None] | None = None
) -> tuple[bool | None, Compaction]:
    """Compacts one session. The first value: finished, or not yet (its writer lives), or None: another is at it.

    Errors: FolderError where the capture can't be written, UnknownSpoolError for another format's spool.
    """
    compaction = Compaction(folder, session, steps=steps, idle=idle)
    try:
        lock = Lock.take(compaction.spool / sessions.COMPACTOR_LOCK)
    except FileNotFoundError:
        # finished and removed by another in the meantime
        return True, compaction
    except OSError as error:
        raise FolderError(
            f"the capture {folder} has a spool that isn't compacted, and can't be written: {error.strerror}"
        ) from error
    if lock is None:
        return None, compaction
    try:
        # it may have been finished and removed while its lock was waited for
        return not compaction.spool.is_dir() or compaction.run(), compaction
    finally:
        lock.release()


def compact(folder: Path) -> Summary:
    """Compacts every session of a capture that nobody else is at. Writes nothing where there is nothing to do.

    Errors: FolderError where there is something to do and the folder can't be written.
    """
    done: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    frames = size = 0
    for session in sessions.sessions(folder):
        finished, compaction = compact_session(folder, session)
        done[finished].append(session)
        frames += compaction.frames
        size += compaction.bytes
    sessions.remove_all_hidden(folder)
    return Summary(tuple(done[True]), tuple(done[None]), tuple(done[False]), frames, size)


def idle_for(folder: Path, session: str) -> Callable[[], None]:
    """What a session's compactor does while there is nothing to do: it takes over what earlier proxies left, one
    session at a time, and otherwise waits.
    """
    left = [name for name in sessions.sessions(folder) if name != session]

    def idle() -> None:
        if left:
            _take_over(folder, left.pop(0))
        else:
            time.sleep(IDLE_SECONDS)

    return idle


def _take_over(folder: Path, session: str) -> None:
    """Compacts another session if its writer is gone and nobody is at it. What is wrong with it stays its own."""
    if sessions.is_live(folder, session):
        # another worker's: its own compactor is about to begin
        return
    try:
        compact_session(folder, session)
    except Exception as error:
        print(f"compactor: session {session} is left as it is: {error}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """The process that the proxy starts. Exit code 0: the session is finished; 1: it isn't; 3: another is at it."""
    parser = argparse.ArgumentParser(prog="recorder.capture.compactor", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the capture")
    parser.add_argument("--session", required=True, help="the session to compact")
    parser.add_argument("--follow", action="store_true", help="go on until the session has ended")
    asked = parser.parse_args(arguments)
    # Ctrl-C is for the proxy; what it wrote is finished here
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    idle = idle_for(asked.folder, asked.session) if asked.follow else None
    try:
        finished, _ = compact_session(asked.folder, asked.session, idle=idle)
    except (OSError, UnknownSpoolError) as error:
        print(f"compactor: {error}", file=sys.stderr)
        return 1
    return 3 if finished is None else int(not finished)


if __name__ == "__main__":
    sys.exit(main())
