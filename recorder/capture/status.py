"""The status file, in which a session's compactor tells how far it is. The proxy's metrics read it (`lag`)."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass

from proxy.files import Folder

STATUS_FILE = "status.json"
# bytes of the file that are read: far more than a status takes
_MAX_SIZE = 4096


@dataclass(frozen=True, slots=True)
class Status:
    """How far a compactor is.

    Attributes:
        frames, bytes: the rows of the session so far, and their bytes.
        segment, position: the segment that is being read, and the offset up to which it has been read.
        facts_failed: the number of files of frames whose facts could not be made.
        folder_bytes: the size of the capture's whole folder; 0: not known yet.
        removed_files, removed_bytes: what this compactor has removed of the capture (`retention`).
        at_ns: the time of this status, by the monotonic clock, which all processes of a machine share.
    """

    frames: int = 0
    bytes: int = 0
    segment: int = 0
    position: int = 0
    at_ns: int = 0
    facts_failed: int = 0
    folder_bytes: int = 0
    removed_files: int = 0
    removed_bytes: int = 0


def write_status(session: Folder, status: Status) -> None:
    """Replaces the status file in one step, so that no reader sees half of it."""
    session.replace(STATUS_FILE, json.dumps(asdict(status)).encode(), sync=False)


def read_status(session: Folder) -> Status | None:
    """The newest status; None if there is none yet, or it can't be read."""
    try:
        status = Status(**json.loads(session.read(STATUS_FILE, _MAX_SIZE)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return status if all(type(number) is int for number in astuple(status)) else None
