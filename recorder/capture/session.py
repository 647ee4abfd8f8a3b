"""A session's folder in a capture: its name, its locks, its status, and the settings it was started with.

    FOLDER/_spool/<session>/00000001.log ...   segments
                            writer.lock        held by the proxy as long as the session lives
                            compactor.lock     held by whoever makes columns of it
                            00000001.state     what the compactor needs to go on behind that segment
                            status.json        how far it is

Locks are flocks: they end with their process, however it ends. Names that start with `_` or `.` are invisible to Spark.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from proxy.settings.keys import Key, wrong_values
from proxy.settings.kinds import GIB, LIMIT, MIB, PATH, SWITCH, TIMEOUT, choice
from recorder.capture.selection import Selected

SPOOL_FOLDER = "_spool"
WRITER_LOCK = "writer.lock"
COMPACTOR_LOCK = "compactor.lock"
STATUS_FILE = "status.json"

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]*")


class FolderError(OSError):
    """A capture folder that can't be used as asked. Says which and why, in one line."""


class WhenFull(StrEnum):
    """What happens to traffic that can't be recorded in time: it isn't recorded, or it waits."""

    DROP = "drop"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class RecordSettings(Selected):
    """How to record. Sizes in bytes. `cluster`: a name for all that is recorded."""

    cluster: str | None = None
    queue: Annotated[int, Key(LIMIT, "queue", "Bytes that may wait in memory to be written.", "64MiB")] = 64 * MIB
    spool: Annotated[int, Key(LIMIT, "spool", "Bytes on disk that may wait to be made into Parquet.", "8GiB")] = 8 * GIB
    when_full: Annotated[
        WhenFull,
        Key(choice(WhenFull), "when_full", "What happens then: leave a gap, or slow the traffic down.", "drop"),
    ] = WhenFull.DROP
    segment: Annotated[
        int, Key(LIMIT, "segment", "The log's files: each is made into Parquet when it is so large, ...", "64MiB")
    ] = 64 * MIB
    segment_seconds: Annotated[
        float, Key(TIMEOUT, "segment_age", "... or so old: what is younger is not in the Parquet files yet.", "60s")
    ] = 60.0

    def __post_init__(self) -> None:
        if wrong := wrong_values(self):
            raise ValueError("; ".join(wrong))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings(RecordSettings):
    """What a proxy records, and where."""

    folder: Annotated[Path, Key(PATH, "folder", "Record every frame into this folder.", "capture")]
    compactor: Annotated[
        bool,
        Key(
            SWITCH,
            "compactor",
            "Make Parquet beside the proxy. Without, the log waits in `spool` for `kafka-wiretap compact`.",
            True,
        ),
    ] = True


def new_session() -> str:
    """A name that sorts by time and that no other run has."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + "-" + secrets.token_hex(3)


def private(path: str | Path, flags: int) -> int:
    """An opener, as `open` takes: what it makes is this user's alone, because the spool holds payloads."""
    return os.open(path, flags, 0o600)


def spool_folder(folder: Path, session: str) -> Path:
    """Raises ValueError for a name that could lead out of the folder."""
    if not _NAME.fullmatch(session):
        raise ValueError(f"not a session's name: {session!r}")
    return folder / SPOOL_FOLDER / session


def sessions(folder: Path) -> list[str]:
    """The sessions of a capture that have something in the spool, oldest first."""
    try:
        found = [path for path in (folder / SPOOL_FOLDER).iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(path.name for path in found if _NAME.fullmatch(path.name))


def begin(folder: Path, session: str) -> Lock:
    """Makes a session's folder, with the writer's lock held from the first moment on that others see it.

    Errors: FolderError where the session exists, OSError where the folder can't be written.
    """
    spool = spool_folder(folder, session)
    hidden = spool.with_name("." + session)
    hidden.mkdir(mode=0o700)
    lock = Lock.take(hidden / WRITER_LOCK)
    if lock is None or spool.exists():
        raise FolderError(f"session {session} exists already")
    hidden.rename(spool)
    return lock


def is_live(folder: Path, session: str) -> bool:
    """Whether a proxy is writing the session, or its compactor, just behind the proxy's end, is about to finish it.

    Nothing is made or changed.
    """
    try:
        with (spool_folder(folder, session) / WRITER_LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def hide(spool: Path) -> Path:
    """Takes a session away from everybody's sight, in one step."""
    hidden = spool.with_name(f".{spool.name}.done")
    spool.rename(hidden)
    return hidden


def remove_hidden(hidden: Path) -> None:
    """Removes a folder that `hide` made. Another process may be doing the same."""
    with suppress(FileNotFoundError):
        for path in hidden.iterdir():
            path.unlink(missing_ok=True)
        hidden.rmdir()


def remove_all_hidden(folder: Path) -> None:
    """Removes what crashes left of finished sessions."""
    for hidden in (folder / SPOOL_FOLDER).glob(".*.done"):
        remove_hidden(hidden)


class Lock:
    """A flock on a file, held until `release` or the process's end."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path) -> Lock | None:
        """The lock, or None while another has it. OSError where the folder can't be written."""
        descriptor = private(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    def release(self) -> None:
        """Lets others have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@dataclass(frozen=True, slots=True)
class Status:
    """How far a compactor is: totals of the session, and the segment and the position in it up to which it has read.

    at_ns: when that was (monotonic; one clock for all processes of a machine).
    """

    frames: int = 0
    bytes: int = 0
    segment: int = 0
    position: int = 0
    at_ns: int = 0


def write_status(spool: Path, status: Status) -> None:
    """Replaces the status file in one step, so that nobody reads half of it."""
    temporary = spool / f".{STATUS_FILE}"
    with open(temporary, "w", opener=private) as file:
        file.write(json.dumps(asdict(status)))
    temporary.replace(spool / STATUS_FILE)


def read_status(spool: Path) -> Status | None:
    """None where no compactor has reported yet, or not in a way that can be read: it is only for information."""
    try:
        return Status(**json.loads((spool / STATUS_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def check_writable(folder: Path) -> None:
    """Makes the capture folder where it is missing. Raises FolderError where it can't be written."""
    try:
        (folder / SPOOL_FOLDER).mkdir(parents=True, exist_ok=True)
        probe = folder / SPOOL_FOLDER / f".probe-{secrets.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise FolderError(f"the capture folder {folder} can't be written: {error.strerror or error}") from error
