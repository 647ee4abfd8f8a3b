"""Reads a recording for tests: the log's entries, and the capture's rows."""

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from proxy.files import Folder
from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from recorder.capture import frames as c
from recorder.capture import reader
from recorder.capture.lock import Lock
from recorder.capture.reader import CaptureFile
from recorder.capture.segments import SegmentReader, segment_name
from recorder.capture.segments import segments as numbers
from recorder.capture.session import SPOOL_FOLDER
from recorder.capture.spool import Entry, EntryKind
from recorder.capture.tap import Tap

# kinds of entries about the log and its writer
OF_THE_LOG = (EntryKind.INVENTORY, EntryKind.CHECKPOINT, EntryKind.SETTINGS)


def everything(folder: Path) -> dict[str, object]:
    """Returns all that is below a folder: files with their bytes, links with their targets, the rest with its type."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        link = str(path.readlink()) if stat.S_ISLNK(mode) else None
        found[str(path.relative_to(folder))] = link or (path.read_bytes() if stat.S_ISREG(mode) else stat.S_IFMT(mode))
    return found


def session_folder(folder: Path, session: str) -> Path:
    return folder / SPOOL_FOLDER / session


def spool_of(folder: Path, tap: Tap) -> Path:
    return session_folder(folder, tap.session)


def segments(folder: Path) -> list[int]:
    """Returns the numbers of the segments in a session's spool folder; none if it is gone."""
    if not folder.exists():
        return []
    with Folder.at(folder) as opened:
        return numbers(opened)


def segment_path(folder: Path, number: int) -> Path:
    return folder / segment_name(number)


def raw_entries(folder: Path) -> list[Entry]:
    """Returns all whole entries of a session's spool folder, in order."""
    found: list[Entry] = []
    with Folder.at(folder) as opened:
        for number in numbers(opened):
            reading = SegmentReader(opened, number)
            while entries := reading.read():
                found += entries
            reading.close()
    return found


def log_entries(folder: Path) -> list[Entry]:
    """Returns the entries about traffic, without those about the log itself."""
    return [entry for entry in raw_entries(folder) if entry.kind not in OF_THE_LOG]


def log_bytes(folder: Path) -> bytes:
    return b"".join(segment_path(folder, number).read_bytes() for number in segments(folder))


def kill(tap: Tap) -> None:
    """Ends the tap as a killed process does, once all is written: its locks are gone, and it has reported nothing."""
    tap._writer.close()
    tap._lock.release()


def take_lock(folder: Path, name: str) -> Lock | None:
    """Takes one of the locks of a session's spool folder."""
    with Folder.at(folder) as opened:
        return Lock.take(opened, name)


def rows(
    folder: Path,
    columns: Sequence[str] = reader.ALL,
    *,
    kind: str = c.FRAMES_FOLDER,
    where: Any = None,
    most: int = DEFAULT_BUDGET,
) -> Iterator[dict[str, Any]]:
    """Yields the rows of `frames` or `events`, by session, each kind of frames in the order of the log.

    `most`: the reader's memory for each file.
    """
    for file in reader.files(folder, kind):
        for table in reader.row_groups(file, columns, where=where, allowance=Allowance(reader.READING, most)):
            yield from table.to_pylist()


def local_path(file: CaptureFile) -> Path:
    """Returns where a file of a capture is that is no bucket's."""
    assert isinstance(file.path, Path)
    return file.path


def frame_rows(folder: Path, connection: int | None = None) -> list[dict[str, Any]]:
    """Returns rows of frames, by connection and sequence, with spans as tuples."""
    found = [row for row in rows(folder) if connection is None or row[c.CONNECTION] == connection]
    for row in found:
        for name in (c.MASKED, c.OMITTED):
            row[name] = row[name] and [(span["start"], span["length"]) for span in row[name]]
    return sorted(found, key=lambda row: (row[c.CONNECTION], row[c.SEQUENCE]))


def event_rows(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    names = [name for name, _ in c.EVENT_COLUMNS]
    found = rows(folder, names, kind=c.EVENTS_FOLDER)
    return [row for row in found if kind is None or row[c.KIND] == kind]


def assert_holds(rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Asserts that the rows have the wanted values, in order, and that there are no others."""
    got = [{name: row[name] for name in want} for row, want in zip(rows, wanted, strict=False)]
    assert got == wanted[: len(got)]
    assert len(rows) == len(wanted)
