"""Finds in a session's published Parquet files which segments have become rows, and whether the session has ended.

Used by `resuming`. Each of the compactor's files holds the rows of one segment, `file.last`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from proxy.files import Folder
from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.outcome import DIED, ENDED
from recorder.capture.partitions import SessionFile, files_of
from recorder.capture.reader import CaptureFile, row_groups

_END = (pc.field(c.KIND) == c.EVENT_SESSION) & pc.field(c.CAUSE).isin([ENDED, DIED])


def published_segments(folder: Path, session: str) -> set[int]:
    """The numbers of the segments whose rows are published."""
    with Folder.at(folder) as capture:
        return {file.last for file in files_of(capture, session) if not file.is_hidden}


def has_ended(folder: Path, session: str) -> bool:
    """True if the newest published segment's rows contain the session's end. Unreadable files count as without it."""
    newest = max(published_segments(folder, session), default=0)
    with Folder.at(folder) as capture:
        events = [
            file for file in files_of(capture, session) if file.table_name == c.EVENTS_FOLDER and not file.is_hidden
        ]
        return any(_tells_end(file) for file in events if file.last == newest)


def _tells_end(file: SessionFile) -> bool:
    captured = CaptureFile("", 0, "", file.last, file.last, file.folder.path / file.name)
    try:
        return any(len(rows) for rows in row_groups(captured, [c.KIND], where=_END))
    except (DamagedFileError, UnknownFormatError, OverBudget):
        return False
