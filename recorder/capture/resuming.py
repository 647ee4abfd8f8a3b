"""Where the compaction of a session goes on, or begins.

Compares the state files, the segments that are still there, and the ranges whose rows are published. A state file may
be damaged or forged, so a state that contradicts segments or rows is ignored: no readable segment is skipped because of
a state. The contents of a lost state are lost; published rows stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from proxy.files import Folder
from recorder.capture.assembly import Assembly
from recorder.capture.facts import SenselessEntryError
from recorder.capture.progress import Progress, read_state, states
from recorder.capture.published import has_ended, published
from recorder.capture.segments import SegmentReader, segments
from recorder.capture.spool import DamagedSegmentError


class Resumed(NamedTuple):
    """Where compaction goes on. `unread`: readable segments before that place that have not become rows."""

    progress: Progress
    assembly: Assembly
    unread: list[int]


class Resuming:
    """Reads the folder once; `found` decides."""

    def __init__(self, folder: Path, session: Folder) -> None:
        self._folder = folder
        self._session = session
        self._states = states(session)
        self._segments = segments(session)
        self._published = published(folder, session.path.name)

    def found(self) -> Resumed:
        """Resumes behind the newest consistent state; without one, behind the published rows.

        Errors: UnknownSpoolError for a state of a newer format, OSError.
        """
        for number in reversed(self._states):
            assembly = Assembly()
            try:
                progress = read_state(self._session, number, assembly)
            except SenselessEntryError:
                continue
            if self._is_consistent(progress):
                return Resumed(progress, assembly, self._unread(number))
        return self._without_state()

    def _is_consistent(self, progress: Progress) -> bool:
        """True if segments and rows are consistent with this state."""
        number, there = progress.segment, {*self._segments}
        if progress.finished and (any(segment > number for segment in there) or self._unread(number)):
            return False
        # the range of this segment is published, or no segment up to it is left
        covers = number in self._published or all(segment > number for segment in there)
        # rows of a later range were made from a later state; the range can be made again only if its segment is there
        return covers and all(done in there for done in self._published if done > number)

    def _unread(self, number: int) -> list[int]:
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
        """Resumes behind the published rows, as far as no existing segment belongs before them.

        The state behind these rows is lost; a session that has ended needs none.
        """
        if not self._segments and has_ended(self._folder, self._session.path.name):
            return Resumed(Progress(max(self._published), finished=True, log_bytes=None), Assembly(), [])
        done, assembly = self._last_finished(), Assembly()
        if not done:
            return Resumed(Progress(), assembly, [])
        assembly.forget()
        return Resumed(Progress(done, log_bytes=None, is_damaged=True), assembly, self._unread(done))

    def _last_finished(self) -> int:
        """The last finished range: its segment is gone, or a state file behind it exists, even a damaged one.

        A range with its segment and without a state was left half finished by a crash.
        """
        named = {number for number in self._states if number in self._published}
        first = self._segments[0] if self._segments else None
        gone = {number for number in self._published if first is None or number < first}
        return max(named | gone, default=0)
