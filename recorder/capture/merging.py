"""Makes few large files of a capture's many small files, in another folder, for Spark to read a long recording.

Used by `kafka-wiretap compact --merge`. A proxy publishes a file for each minute and worker. The files of one session
and hour become large files of about FILE_BYTES. A file's name has the first and the last of its segments, as in any
capture, so the result is a capture like any other.

An hour is merged once it is over and nothing was published into it for QUIET_NS. Later files of the hour become a
further large file: a gap's event, for example, is published when the gap has ended, into the hour in which it began. A
session's segments are published in order, so all files after the last merged segment are new.

A large file is hidden until it was read back and holds as many rows and bytes as its small files. So a crash leaves
whole files, and the next run makes the missing ones. The large files are written to another folder: in
the capture itself, a reader would see rows twice during the merge.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from proxy.files import Folder
from proxy.wire.errors import OverBudget
from recorder.capture import columns
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.partitions import COMPACTED_TABLES, hidden, hour_folders, range_name
from recorder.capture.reader import CaptureFile, files, row_count, tables_of
from recorder.capture.remote import size_of
from recorder.capture.rows import RECORD_APIS
from recorder.capture.session import SPOOL_FOLDER
from recorder.capture.storage import TableFile, ignore_step, publish, remove_unpublished

# the approximate size of a large file: the sum of its small files
FILE_BYTES = 1 << 30
# the approximate number of rows in a large file: `inspect` sorts the heads of a file in memory, with 400 bytes each
FILE_ROWS = 1_000_000
# an hour is merged once its newest file is this old: a listing of a folder that changes may lack a file and show a
# later one
QUIET_NS = 600 * 10**9
TABLES = (*COMPACTED_TABLES, c.ORIGINS_FOLDER)


class CannotMerge(Exception):
    """The folders can't be merged. The message is one line for the user."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The outcome of `merge`.

    Attributes:
        small_files, large_files: how many small files were made into how many large ones.
        frames: the number of frames in the new large files.
        merged_before: the number of small files that an earlier run has merged.
        waiting: the hours that may still get files.
        failed: a line for each session and hour with a file that can't be read.
    """

    small_files: int = 0
    large_files: int = 0
    frames: int = 0
    merged_before: int = 0
    waiting: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class SessionHour(NamedTuple):
    """One session's part of an hour (counted since 1970) of a table."""

    table_name: str
    hour: int
    session: str

    def __str__(self) -> str:
        date, hour = (name.partition("=")[2] for name in hour_folders(self.hour))
        return f"{date} {hour}:00"


class Bundle(NamedTuple):
    """Small files of one session and hour that become one large file, in the order of the log."""

    table_name: str
    files: tuple[CaptureFile, ...]

    @property
    def hour(self) -> int:
        """The hour, counted since 1970."""
        return self.files[0].hour_ns // c.HOUR_NS

    @property
    def name(self) -> str:
        """The large file's name."""
        return range_name(self.files[0].session, self.files[0].first, self.files[-1].last)

    def path(self, out: Path) -> Path:
        """The large file's path in the folder `out`."""
        return out.joinpath(self.table_name, *hour_folders(self.hour), self.name)


def merge(
    folder: Path,
    out: Path,
    *,
    file_bytes: int = FILE_BYTES,
    now_ns: int | None = None,
    say: Callable[[str], None] = lambda far: None,
) -> Merged:
    """Makes large files in `out` of all files of `folder` that are not merged there yet.

    If a file can't be read, its large file and the later ones of its session and hour are not made.
    `now_ns`: since 1970; None: the clock's. `say`: called with words on how far the work is.
    Errors: CannotMerge, for wrong folders before anything is written; OSError.
    """
    now_ns = time.time_ns() if now_ns is None else now_ns
    _check_apart(folder, out)
    groups = _by_session_hour(folder)
    due = {session_hour: small for session_hour, small in groups.items() if _is_due(session_hour, small, now_ns)}
    waiting = tuple(sorted({str(session_hour) for session_hour in groups.keys() - due.keys()}))
    if not due:
        return Merged(waiting=waiting)
    with _open_output(out) as output:
        if not output.lock():
            raise CannotMerge(f"another process is merging into {out}")
        for session in {session_hour.session for session_hour in due}:
            # a killed run may have left hidden files; with another `file_bytes`, their names will not be written again
            remove_unpublished(out, session, TABLES)
        ends = {session_hour: large[-1].last for session_hour, large in _by_session_hour(out).items()}
        new = {session_hour: _files_after(ends.get(session_hour, 0), small) for session_hour, small in due.items()}
        outcomes = []
        for number, (session_hour, small) in enumerate(new.items(), 1):
            say(f"hour {number} of {len(new)}")
            outcomes.append(_merge_files(session_hour, small, out, file_bytes))
    return Merged(
        small_files=sum(outcome.small_files for outcome in outcomes),
        large_files=sum(outcome.large_files for outcome in outcomes),
        frames=sum(outcome.frames for outcome in outcomes),
        merged_before=sum(map(len, due.values())) - sum(map(len, new.values())),
        waiting=waiting,
        failed=tuple(reason for outcome in outcomes for reason in outcome.failed),
    )


def _open_output(out: Path) -> Folder:
    """Opens the output folder, which is made if it is missing. Errors: CannotMerge."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return Folder.at(out)
    except OSError as error:
        raise CannotMerge(f"{out} can't be written: {error.strerror}") from error


def _by_session_hour(folder: Path) -> dict[SessionHour, list[CaptureFile]]:
    """All files of a capture by table, hour and session, each list in the order of the segments."""
    groups: dict[SessionHour, list[CaptureFile]] = defaultdict(list)
    for table_name in TABLES if folder.exists() else ():
        for file in files(folder, table_name):
            groups[SessionHour(table_name, file.hour_ns // c.HOUR_NS, file.session)].append(file)
    return groups


def _is_due(session_hour: SessionHour, small: Iterable[CaptureFile], now_ns: int) -> bool:
    """True if the hour is over and its newest file is older than QUIET_NS."""
    newest = max(Path(str(file.path)).stat().st_mtime_ns for file in small)
    return session_hour.hour < now_ns // c.HOUR_NS and newest < now_ns - QUIET_NS


def _files_after(end: int, small: Sequence[CaptureFile]) -> list[CaptureFile]:
    """The files after segment `end`. Errors: CannotMerge for a file with segments on both sides of it."""
    for file in small:
        if file.first <= end < file.last:
            raise CannotMerge(f"a part of {file.path} is merged already: choose another folder")
    return [file for file in small if file.first > end]


def _merge_files(session_hour: SessionHour, small: Sequence[CaptureFile], out: Path, file_bytes: int) -> Merged:
    """Merges the files in order, up to the first bundle with a file that can't be read."""
    count = large = frames = 0
    try:
        for bundle in _bundles(session_hour.table_name, small, file_bytes):
            frames += _write_bundle(bundle, out)
            count, large = count + len(bundle.files), large + 1
    except (DamagedFileError, UnknownFormatError, OverBudget) as error:
        return Merged(count, large, frames, failed=(str(error),))
    return Merged(count, large, frames)


def _bundles(table_name: str, small: Sequence[CaptureFile], file_bytes: int) -> Iterator[Bundle]:
    """The files in bundles of about `file_bytes`."""
    taken: list[CaptureFile] = []
    size = rows = 0
    for file in small:
        file_size, file_rows = size_of(file.path), row_count(file)
        if taken and (size + file_size > file_bytes or rows + file_rows > FILE_ROWS):
            yield Bundle(table_name, tuple(taken))
            taken, size, rows = [], 0, 0
        taken.append(file)
        size, rows = size + file_size, rows + file_rows
    if taken:
        yield Bundle(table_name, tuple(taken))


def _check_apart(folder: Path, out: Path) -> None:
    """Raises CannotMerge if one folder is in the other, or if a proxy records into `out`."""
    source, target = folder.resolve(), out.resolve()
    if source == target or source in target.parents or target in source.parents:
        raise CannotMerge(f"{out} and {folder} must be apart: merged rows beside the others would count twice")
    if (out / SPOOL_FOLDER).exists():
        raise CannotMerge(f"{out} is the folder of a recording: choose another one")


def _write_bundle(bundle: Bundle, out: Path) -> int:
    """Writes and publishes a bundle's large file. Returns the number of its frames."""
    file = TableFile(out, bundle.table_name, bundle.hour, bundle.name, c.schema_of(bundle.table_name))
    try:
        written = _copy_rows(bundle, file)
        file.close()
        _compare(written, bundle, out)
        publish([file], ignore_step)
    except BaseException:
        file.discard()
        raise
    return written.rows if bundle.table_name == c.FRAMES_FOLDER else 0


class Tally(NamedTuple):
    """What a file holds: its rows; in frames, the bytes that arrived (`size`) and those that were kept (`stored`)."""

    rows: int = 0
    size: int = 0
    stored: int = 0

    def plus(self, table: Any) -> Tally:
        """This tally plus that of a table."""
        sums = (pc.sum(table[name]).as_py() or 0 if name in table.column_names else 0 for name in (c.SIZE, c.STORED))
        return Tally(self.rows + len(table), *(own + other for own, other in zip(self[1:], sums, strict=True)))


def _copy_rows(bundle: Bundle, file: TableFile) -> Tally:
    """Writes the rows of the bundle's small files into the large one. Returns the tally of the small files."""
    groups = _RowGroups(file)
    tally = Tally()
    for small in bundle.files:
        for table in tables_of(small, c.schema_of(bundle.table_name).names):
            tally = tally.plus(table)
            groups.add(table)
    groups.finish()
    return tally


def _compare(written: Tally, bundle: Bundle, out: Path) -> None:
    """Reads the hidden large file back. Raises CannotMerge if its tally is not `written`."""
    path = bundle.path(out)
    made = bundle.files[0]._replace(last=bundle.files[-1].last, path=path.with_name(hidden(path.name)))
    tally = Tally()
    names = [name for name in (c.SESSION, c.SIZE, c.STORED) if name in c.schema_of(bundle.table_name).names]
    for table in tables_of(made, names):
        tally = tally.plus(table)
    if tally != written:
        raise CannotMerge(f"{path} was written wrongly ({tally} instead of {written}): is the disk sound?")


def split_by_records(frames: Any) -> tuple[Any, Any]:
    """Two tables: the frames of APIs that carry records, and the others."""
    carries_records = pc.is_in(frames[c.API], pa.array(sorted(RECORD_APIS)))
    return frames.filter(carries_records), frames.filter(pc.invert(carries_records))


class _RowGroups:
    """Writes the row groups of a large file. Frames of APIs that carry records have their own, as in small files."""

    def __init__(self, file: TableFile) -> None:
        self._file = file
        self._waiting: dict[bool, list[Any]] = {True: [], False: []}

    def add(self, table: Any) -> None:
        """Adds the rows of a row group."""
        if c.API not in table.column_names:
            self._add(table, carries_records=False)
            return
        data, control = split_by_records(table)
        self._add(data, carries_records=True)
        self._add(control, carries_records=False)

    def finish(self) -> None:
        """Writes the rows that wait."""
        for carries_records in self._waiting:
            self._write(carries_records)

    def _add(self, table: Any, *, carries_records: bool) -> None:
        most = columns.MAX_BYTES if carries_records else columns.MAX_BYTES_WITHOUT_RECORDS
        waiting = self._waiting[carries_records]
        together = [*waiting, table]
        if sum(waiting_table.nbytes for waiting_table in together) > most or sum(map(len, together)) > columns.MAX_ROWS:
            self._write(carries_records)
        if len(table):
            self._waiting[carries_records].append(table)

    def _write(self, carries_records: bool) -> None:
        if waiting := self._waiting[carries_records]:
            self._file.write(pa.concat_tables(waiting))
            self._waiting[carries_records] = []
