"""Determines the segment after which the compaction of a session resumes, and the state with which it resumes.

Used by `compaction`. Compares the state files, the segments that still exist, and the published ranges (a range is the
rows of one segment, and has its number). A state file may be damaged or forged, so a state that contradicts segments or
rows is ignored. Segments up to the state's own are never read again. Those of them that are readable and have no rows
are lost (`Resumed.unread`): segment 4, for example, if the newest usable state is that of segment 5.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from proxy.files import Folder
from recorder.capture.assembly import Assembly
from recorder.capture.cipher import LogCipher
from recorder.capture.entry_json import InvalidEntryError
from recorder.capture.progress import Progress, read_state, segments_with_state
from recorder.capture.published import has_ended, published_segments
from recorder.capture.record_hashing import RecordHashing
from recorder.capture.segments import SegmentReader, segments
from recorder.capture.spool import DamagedSegmentError


class Resumed(NamedTuple):
    """The compactor's progress and state. `unread`: skipped segments, which are readable and have not become rows."""

    progress: Progress
    assembly: Assembly
    unread: list[int]


class Resuming:
    """The state files, segments and published ranges of one session, listed once. `cipher`: of an encrypted log.

    `hashing`: what hashes records; None if no rule does.
    """

    def __init__(
        self,
        folder: Path,
        session: Folder,
        cipher: LogCipher | None = None,
        hashing: RecordHashing | None = None,
    ) -> None:
        self._folder = folder
        self._cipher, self._hashing = cipher, hashing
        self._session = session
        self._states = segments_with_state(session)
        self._segments = segments(session)
        self._published = published_segments(folder, session.path.name)

    def resume(self) -> Resumed:
        """Resumes with the newest consistent state; if there is none, without a state, after the published rows.

        Raises:
            UnknownSpoolError: a state is of another format.
            OSError: a file can't be read.
        """
        for number in reversed(self._states):
            assembly = Assembly(self._hashing)
            try:
                progress = read_state(self._session, number, assembly, self._cipher)
            except InvalidEntryError:
                continue
            if self._is_consistent(progress):
                return Resumed(progress, assembly, self._unread(number))
        return self._without_state()

    def _is_consistent(self, progress: Progress) -> bool:
        """True if segments and rows are consistent with this state."""
        number, existing = progress.segment, {*self._segments}
        if progress.finished and (any(segment > number for segment in existing) or self._unread(number)):
            return False
        # the state's own segment has become rows, or that segment and all before it are gone
        is_reached = number in self._published or all(segment > number for segment in existing)
        # later published ranges will be made again, from this state and from their segments, which must exist
        return is_reached and all(segment in existing for segment in self._published if segment > number)

    def _unread(self, number: int) -> list[int]:
        """The readable segments up to this number that have not become rows."""
        return [
            segment
            for segment in self._segments
            if segment <= number and segment not in self._published and self._is_readable(segment)
        ]

    def _is_readable(self, segment: int) -> bool:
        try:
            SegmentReader(self._session, segment).close()
        except DamagedSegmentError:
            return False
        return True

    def _without_state(self) -> Resumed:
        """Resumes after the last complete range, without its state; if no range is complete, before the first segment.

        A session is finished if its rows contain its end and none of its segments is left.
        """
        if not self._segments and has_ended(self._folder, self._session.path.name):
            return Resumed(Progress(max(self._published), finished=True, log_bytes=None), Assembly(), [])
        number, assembly = self._last_complete(), Assembly(self._hashing)
        if not number:
            return Resumed(Progress(), assembly, [])
        assembly.forget()
        return Resumed(Progress(number, log_bytes=None, is_damaged=True), assembly, self._unread(number))

    def _last_complete(self) -> int:
        """The number of the last complete range; 0 if there is none.

        A published range is complete if it has a state file, even a damaged one, or no segment up to its own is left.
        Any other published range may lack rows: a crash cut off its making.
        """
        with_state = {number for number in self._states if number in self._published}
        first = self._segments[0] if self._segments else None
        without_segments = {number for number in self._published if first is None or number < first}
        return max(with_state | without_segments, default=0)
