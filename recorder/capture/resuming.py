"""Where the compaction of a session goes on, or begins.

Knows three witnesses: the state files, the segments that are still there, and the ranges whose rows are published. A
state file may be damaged or made up, so none is believed against the two others: nothing that can still be read is
passed over for what a state says. What a lost state held is lost; the rows that are published stay.
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
    """Where it goes on. `unread`: segments that are there, and readable, and that nothing shows to have become rows."""

    progress: Progress
    assembly: Assembly
    unread: list[int]


class Resuming:
    """Looks once; `found` tells what it comes to."""

    def __init__(self, folder: Path, session: Folder) -> None:
        self._folder = folder
        self._session = session
        self._states = states(session)
        self._segments = segments(session)
        self._published = published(folder, session.path.name)

    def found(self) -> Resumed:
        """Behind the newest state that can be believed; without one, behind the rows that are there.

        Errors: UnknownSpoolError for a state of a newer format, OSError.
        """
        for number in reversed(self._states):
            assembly = Assembly()
            try:
                progress = read_state(self._session, number, assembly)
            except SenselessEntryError:
                continue
            if self._is_believed(progress):
                return Resumed(progress, assembly, self._unread(number))
        return self._without_state()

    def _is_believed(self, progress: Progress) -> bool:
        """Whether segments and rows are as they must be behind this state."""
        number, there = progress.segment, {*self._segments}
        if progress.finished and (any(segment > number for segment in there) or self._unread(number)):
            return False
        # rows of later ranges were made from a later state; only while its segment is there can the range be made again
        return self._covers(number) and all(done in there for done in self._published if done > number)

    def _covers(self, number: int) -> bool:
        """Whether no segment is there that the range of this one should have removed; a crash may have left some."""
        return number in self._published or all(segment > number for segment in self._segments)

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
        """No state says where to go on: the published rows do, as far as no segment that is there belongs before them.

        The state behind such rows is lost; that of a session that had come to its end held nothing.
        """
        if not self._segments and has_ended(self._folder, self._session.path.name):
            return Resumed(Progress(max(self._published), finished=True, log_bytes=None), Assembly(), [])
        done, assembly = self._done(), Assembly()
        if not done:
            return Resumed(Progress(), assembly, [])
        assembly.forget()
        return Resumed(Progress(done, log_bytes=None, is_damaged=True), assembly, self._unread(done))

    def _done(self) -> int:
        """The last range that is done: its segment is gone, or a state, whatever became of it, was written behind it.

        A range whose segment is there, without a state, is one that a crash has left half finished.
        """
        named = {number for number in self._states if number in self._published}
        first = self._segments[0] if self._segments else None
        gone = {number for number in self._published if first is None or number < first}
        return max(named | gone, default=0)
