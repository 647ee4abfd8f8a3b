"""The folder of a session in a capture: makes, opens, checks and removes it. Also the settings of a recording.

Used by the tap and the compactor.

    FOLDER/_spool/<session>/00000001.log ...   segments
                            writer.lock        held by the proxy as long as the session lives
                            compactor.lock     held by the process that compacts the session
                            00000001.state     the compactor's state after that segment
                            status.json        how far the compactor is
                            .<file>            one of these files while it is made
           _spool/.<session>                   a session while its folder is made
           _spool/.<session>.done              a finished session while it is removed (.1.done, … if that name is taken)

A capture may come from anywhere. So files with other names are not opened, written or removed, and links are not
followed (`proxy.files`). Spark ignores names that start with `_` or `.`.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from stat import S_ISDIR, S_ISLNK
from typing import Annotated

from proxy.files import Folder
from proxy.schema.faults import KeyPath
from proxy.schema.keys import Key, wrong_values
from proxy.schema.kinds import FOLDER, LIMIT, SWITCH, at_least, choice
from proxy.units import GIB, MIB
from recorder.capture import lock as locks
from recorder.capture.keep import KeepSettings
from recorder.capture.lock import COMPACTOR_LOCK, WRITER_LOCK, Lock
from recorder.capture.partitions import COMPACTED_TABLES, files_of
from recorder.capture.segments import NUMBER
from recorder.capture.status import STATUS_FILE

SPOOL_FOLDER = "_spool"

# short enough that the names of a session's Parquet files fit into the 255 bytes of a file system
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,199}")
# the files that this program makes in a session's folder
_SESSION_FILE = re.compile(
    rf"\.?({NUMBER}\.(log|state)|{'|'.join(map(re.escape, (WRITER_LOCK, COMPACTOR_LOCK, STATUS_FILE)))})"
)
_DONE = ".done"


class FolderError(OSError):
    """A capture folder that can't be used. The message names the folder and the reason, in one line."""


class WhenFull(StrEnum):
    """What happens to traffic that comes faster than it can be recorded: DROP: it passes unrecorded; WAIT: it waits."""

    DROP = "drop"
    WAIT = "wait"


class Fsync(StrEnum):
    """When the log is synced to the disk, for a crash of the machine.

    CLOSE: each segment once it is full or old enough, and the last one at the session's end. INTERVAL: also every so
    many seconds. NEVER: when the kernel likes.
    """

    CLOSE = "close"
    INTERVAL = "interval"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class RecordSettings(KeepSettings):
    """How to record. Sizes are in bytes.

    `cluster`: the cluster of all rows whose connection names none. `in_force`: all settings of the program that
    records, key -> value as text, without secrets; None: it has none to tell.
    """

    cluster: str | None = None
    in_force: Mapping[KeyPath, str] | None = field(default=None, compare=False)
    queue: Annotated[int, Key(LIMIT, "queue", "The most bytes that wait in memory to be written.", "64MiB")] = 64 * MIB
    spool: Annotated[int, Key(LIMIT, "spool", "The most bytes on disk that wait to be made into Parquet.", "8GiB")] = (
        8 * GIB
    )
    when_full: Annotated[
        WhenFull,
        Key(
            choice(WhenFull),
            "when_full",
            "If there is no more room: leave a gap, or slow the traffic down.",
            "drop",
        ),
    ] = WhenFull.DROP
    segment: Annotated[int, Key(LIMIT, "segment", "The size at which a log file becomes Parquet.", "64MiB")] = 64 * MIB
    encrypt: Annotated[
        bool,
        Key(
            SWITCH,
            "encrypt",
            "Encrypt what waits to be made into Parquet, with a key that only the proxy and its compactor know; it "
            "needs the extra `hash`. The rule `hash` encrypts in any case. If both processes are killed, what waits is "
            "lost.",
            True,
        ),
    ] = False
    segment_seconds: Annotated[
        float,
        Key(
            # each log file becomes Parquet files
            at_least(0.1),
            "segment_age",
            "The age at which a log file becomes Parquet at the latest. Younger traffic is not in Parquet yet.",
            "60s",
        ),
    ] = 60.0

    fsync: Annotated[
        Fsync,
        Key(
            choice(Fsync),
            "fsync",
            "When the log is synced to the disk, for a crash of the machine: when a log file is closed, also every "
            "`fsync_interval`, or never.",
            "interval",
        ),
    ] = Fsync.CLOSE
    fsync_interval: Annotated[
        float,
        Key(at_least(0.1), "fsync_interval", 'How often the log is synced with `fsync = "interval"`.', "1s"),
    ] = 1.0

    def __post_init__(self) -> None:
        if wrong := wrong_values(self):
            raise ValueError("; ".join(map(str, wrong)))

    @property
    def encrypts(self) -> bool:
        """True if the log is encrypted: by choice, or because the compactor hashes what it holds."""
        return self.encrypt or bool(self.hashed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings(RecordSettings):
    """What a proxy records, into which folder, and whether a compactor runs beside it."""

    folder: Annotated[Path, Key(FOLDER, "folder", "Record every frame into this folder.", "capture")]
    compactor: Annotated[
        bool,
        Key(
            SWITCH,
            "compactor",
            "Make Parquet while the proxy runs. If false, the log waits for `kafka-wiretap compact`.",
            True,
        ),
    ] = True
    facts: Annotated[
        bool,
        Key(
            SWITCH,
            "facts",
            "Make facts of the frames, too, in a niced process. If false, the first reader makes them.",
            True,
        ),
    ] = True


def new_session() -> str:
    """A unique name for a session; names sort by time."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + "-" + secrets.token_hex(3)


def open_session(folder: Path, session: str) -> Folder:
    """A session's folder, opened. Raises FileNotFoundError if it is missing, ValueError for a wrong name."""
    with Folder.at(folder) as capture, capture.folder(SPOOL_FOLDER) as spool:
        return spool.folder(_checked_name(session))


def sessions(folder: Path) -> list[str]:
    """The names of the sessions that have a folder in the spool, oldest first."""
    try:
        with Folder.at(folder) as capture, capture.folder(SPOOL_FOLDER) as spool:
            return [name for name in spool.names() if is_name(name) and spool.is_folder(name)]
    except FileNotFoundError:
        return []


def links(folder: Path) -> list[str]:
    """The names in the spool that are links with the name of a session: they are not followed."""
    try:
        with Folder.at(folder) as capture, capture.folder(SPOOL_FOLDER) as spool:
            found = ((name, spool.stat(name)) for name in spool.names() if is_name(name))
            return [name for name, status in found if status is not None and S_ISLNK(status.st_mode)]
    except FileNotFoundError:
        return []


def is_own(folder: Path, session: str) -> bool:
    """True if the session's folder is missing, or its owner is the user of this process."""
    try:
        with open_session(folder, session) as opened:
            return opened.owner == os.geteuid()
    except FileNotFoundError:
        return True
    except PermissionError:
        return False


def is_live(folder: Path, session: str) -> bool:
    """True if a proxy writes the session, or its compactor holds the writer's lock. Changes nothing."""
    try:
        with open_session(folder, session) as opened:
            return locks.is_live(opened)
    except FileNotFoundError:
        return False


def may_publish(folder: Path, session: str) -> bool:
    """True if the session is live, or its compactor is still behind the end of the log. Changes nothing."""
    try:
        with open_session(folder, session) as opened:
            return locks.is_live(opened) or locks.is_locked(opened, locks.COMPACTOR_LOCK)
    except FileNotFoundError:
        return False


def begin(folder: Path, session: str) -> tuple[Folder, Lock]:
    """Makes a session's folder. Returns it and its writer's lock, held before other processes can see the folder.

    Errors: FolderError if the session exists, OSError if the folder can't be written.
    """
    with Folder.at(folder) as capture, capture.folder(SPOOL_FOLDER) as spool:
        hidden = "." + _checked_name(session)
        if spool.stat(session) is not None:
            raise FolderError(f"session {session} exists already")
        opened = spool.make_folder(hidden, 0o700, is_new=True)
        lock = Lock.take(opened, WRITER_LOCK)
        spool.rename(hidden, session)
        # else a crash of the machine may leave the name with the dot, by which nobody finds the session
        spool.sync()
        opened.close()
        if lock is None:
            raise FolderError(f"session {session} is another's")
        return spool.folder(session), lock


def check_plain_files(folder: Path, session: Folder) -> None:
    """Checks that all files that the session's compactor would read, replace or remove are plain files.

    Changes nothing. Errors: StrangeFileError.
    """
    for name in session.names():
        if is_session_file(name):
            # `size` raises for anything but a plain file
            session.size(name)
    with Folder.at(folder) as capture:
        # the session's Parquet files
        for file in files_of(capture, session.path.name):
            file.folder.size(file.name)


def check_can_finish(folder: Path, session: Folder) -> None:
    """Checks that this process may write into the folders that a session's compactor writes. Changes nothing.

    Partitions are not checked: a write into another user's partition may fail later. Errors: FolderError.
    """
    with Folder.at(folder) as capture, capture.folder(SPOOL_FOLDER) as spool:
        _check_may_write(session)
        _check_may_write(spool)
        for table_name in COMPACTED_TABLES:
            if capture.stat(table_name) is None:
                _check_may_write(capture)
                continue
            with capture.folder(table_name) as table:
                _check_may_write(table)


def _check_may_write(folder: Folder) -> None:
    if not folder.is_writable:
        raise FolderError(f"{folder.path} can't be written by this user")


def is_session_file(name: str) -> bool:
    """True if this program makes files with that name in a session's folder."""
    return bool(_SESSION_FILE.fullmatch(name))


def remove(folder: Path, session: str, before_step: Callable[[str], None]) -> None:
    """Removes a finished session's folder. Hides it first: half a folder would look like a session without frames."""
    with Folder.at(folder) as capture, capture.folder(SPOOL_FOLDER) as spool:
        before_step("remove session")
        hidden = _free_name(spool, _checked_name(session))
        # another process may have hidden the folder already
        with suppress(FileNotFoundError):
            spool.rename(session, hidden)
        spool.sync()
        before_step("remove folder")
        _remove_hidden(spool, hidden)


def _free_name(spool: Folder, session: str) -> str:
    """An unused hidden name for a finished session's folder while it is removed."""
    names = (f".{session}{middle}{_DONE}" for middle in chain([""], (f".{number}" for number in count(1))))
    return next(name for name in names if spool.stat(name) is None)


def remove_all_hidden(folder: Path, *, only_own: bool = False) -> dict[str, OSError]:
    """Removes the hidden folders of finished sessions. `only_own`: only those of this user.

    Returns path -> error, for each folder that can't be removed.
    """
    stuck: dict[str, OSError] = {}
    with suppress(FileNotFoundError), Folder.at(folder) as capture, capture.folder(SPOOL_FOLDER) as spool:
        for name in spool.names():
            status = spool.stat(name) if name.startswith(".") and name.endswith(_DONE) else None
            if status is not None and S_ISDIR(status.st_mode) and not (only_own and status.st_uid != os.geteuid()):
                try:
                    _remove_hidden(spool, name)
                except OSError as error:
                    stuck[str(spool.path / name)] = error
    return stuck


def _remove_hidden(spool: Folder, hidden: str) -> None:
    """Removes this program's files, and then the folder if it is empty. Other processes may do so at the same time."""
    with suppress(FileNotFoundError), spool.folder(hidden) as gone:
        for name in gone.names():
            if is_session_file(name) and gone.is_file(name):
                gone.remove(name)
        if not gone.names():
            spool.remove_folder(hidden)


def is_name(text: str) -> bool:
    """True if the text may be a session's name: it is safe in file names, and in a shell without quotes."""
    return _NAME.fullmatch(text) is not None


def _checked_name(session: str) -> str:
    if not is_name(session):
        raise ValueError(f"not a session's name: {session!r}")
    return session


def ensure_writable(folder: Path) -> None:
    """Makes the capture folder and its spool if they are missing. Raises FolderError if they can't be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Folder.at(folder) as capture, capture.make_folder(SPOOL_FOLDER) as spool:
            probe = f".probe-{secrets.token_hex(4)}"
            os.close(spool.create(probe))
            spool.remove(probe)
    except OSError as error:
        raise FolderError(f"the capture folder {folder} can't be written: {error.strerror or error}") from error
