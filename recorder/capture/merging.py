"""Many small files of a capture made into few large ones, in another folder: what Spark reads of a long recording.

A proxy publishes a file a minute and worker. Here the files of one session and hour become one of about a GiB: its name
tells the first and the last segment, as all names do, so the result is a capture like any other. An hour waits until it
is over and nothing was published into it for a while. What comes later all the same (a gap is told in the hour in which
it began, once it has ended) becomes a further file: a session's segments come in order, so what stands behind the last
one that is merged is new.

A merged file is hidden until it was read back and holds as many rows and bytes as its parts. So a crash leaves whole
files, and the next run makes the missing ones. The capture itself is not changed: to merge within it would show each
row twice to readers that list it meanwhile.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from proxy.files import Folder
from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from proxy.wire.errors import OverBudget
from recorder.capture import columns
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.partitions import KINDS, hidden, hour_folders, range_name
from recorder.capture.reader import READING, CaptureFile, files, groups_between, row_groups, rows_of
from recorder.capture.remote import size_of
from recorder.capture.rows import DATA
from recorder.capture.session import SPOOL_FOLDER
from recorder.capture.storage import RangeFile, ignore_step, publish, remove_unpublished

# bytes of small files in a large one, about
FILE_BYTES = 1 << 30
# rows in a large one, about: `inspect` sorts the heads of a file in memory, with 400 bytes each
FILE_ROWS = 1_000_000
# A listing of a folder that changes may lack a file and show a later one, so nothing is merged before it is so old.
QUIET_NS = 600 * 10**9
TABLES = (*KINDS, c.ORIGINS_FOLDER)


class CannotMerge(Exception):
    """The folders don't fit each other. The message is one line."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The outcome. `small`, `large`: how many files were made into how many; `there`: files that were merged before.

    `waiting`: hours that may still grow; `failed`: why files of a session and hour could not be merged, a line each.
    """

    small: int = 0
    large: int = 0
    frames: int = 0
    there: int = 0
    waiting: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Place(NamedTuple):
    """The files of one table, hour (counted since 1970) and session."""

    kind: str
    hour: int
    session: str

    def __str__(self) -> str:
        date, hour = (name.partition("=")[2] for name in hour_folders(self.hour))
        return f"{date} {hour}:00"


class Bundle(NamedTuple):
    """Small files of one session and hour, in the order of the log, that become one."""

    kind: str
    files: tuple[CaptureFile, ...]

    @property
    def hour(self) -> int:
        """Counted since 1970."""
        return self.files[0].hour_ns // c.HOUR_NS

    @property
    def name(self) -> str:
        """The large file's."""
        return range_name(self.files[0].session, self.files[0].first, self.files[-1].last)

    def path(self, out: Path) -> Path:
        """The large file's in the folder `out`."""
        return out.joinpath(self.kind, *hour_folders(self.hour), self.name)


def merge(folder: Path, out: Path, *, file_bytes: int = FILE_BYTES, now_ns: int | None = None) -> Merged:
    """Makes large files in `out` of all files of `folder` that are not merged there yet.

    A file that can't be read keeps its session and hour from being merged, and nothing else. `now_ns`: since 1970, by
    default the clock's. Errors: CannotMerge before anything is written; OSError.
    """
    now_ns = time.time_ns() if now_ns is None else now_ns
    _check_apart(folder, out)
    found = _places(folder)
    due = {place: small for place, small in found.items() if _is_due(place, small, now_ns)}
    waiting = tuple(sorted({str(place) for place in found.keys() - due.keys()}))
    if not due:
        return Merged(waiting=waiting)
    with _made(out) as held:
        if not held.lock():
            raise CannotMerge(f"another process is merging into {out}")
        for session in {place.session for place in due}:
            # of a killed run, whose files may have had other sizes and so other names
            remove_unpublished(out, session, TABLES)
        ends = {place: large[-1].last for place, large in _places(out).items()}
        new = {place: _behind(ends.get(place, 0), small) for place, small in due.items()}
        done = [_merge_place(place, small, out, file_bytes) for place, small in new.items()]
    there = sum(map(len, due.values())) - sum(map(len, new.values()))
    failed = tuple(why for one in done for why in one.failed)
    small, large, frames = (
        sum(counts) for counts in zip(*((one.small, one.large, one.frames) for one in done), strict=True)
    )
    return Merged(small, large, frames, there, waiting, failed)


def _made(out: Path) -> Folder:
    """The folder, made if it is missing. Errors: CannotMerge."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return Folder.at(out)
    except OSError as error:
        raise CannotMerge(f"{out} can't be written: {error.strerror}") from error


def _places(folder: Path) -> dict[Place, list[CaptureFile]]:
    """All files, by place; those of a place in the order of their segments."""
    found: dict[Place, list[CaptureFile]] = defaultdict(list)
    for kind in TABLES if folder.exists() else ():
        for file in files(folder, kind):
            found[Place(kind, file.hour_ns // c.HOUR_NS, file.session)].append(file)
    return found


def _is_due(place: Place, small: Iterable[CaptureFile], now_ns: int) -> bool:
    """True if the hour is over, and its files are old: while files appear, a listing may lack one of them."""
    newest = max(Path(str(file.path)).stat().st_mtime_ns for file in small)
    return place.hour < now_ns // c.HOUR_NS and newest < now_ns - QUIET_NS


def _behind(end: int, small: Sequence[CaptureFile]) -> list[CaptureFile]:
    """The files behind a segment. Errors: CannotMerge for a file that begins before it and ends behind it."""
    for file in small:
        if file.first <= end < file.last:
            raise CannotMerge(f"a part of {file.path} is merged already: choose another folder")
    return [file for file in small if file.first > end]


def _merge_place(place: Place, small: Sequence[CaptureFile], out: Path, file_bytes: int) -> Merged:
    """Merges the files in their order, up to the first that can't be read: what is behind it waits for it."""
    count = large = frames = 0
    try:
        for bundle in _bundles(place.kind, small, file_bytes):
            frames += _make(bundle, out)
            count, large = count + len(bundle.files), large + 1
    except (DamagedFileError, UnknownFormatError, OverBudget) as error:
        return Merged(count, large, frames, failed=(str(error),))
    return Merged(count, large, frames)


def _bundles(kind: str, small: Sequence[CaptureFile], file_bytes: int) -> Iterator[Bundle]:
    """The files, in bundles of about so many bytes."""
    taken: list[CaptureFile] = []
    size = rows = 0
    for file in small:
        own, own_rows = size_of(file.path), rows_of(file)
        if taken and (size + own > file_bytes or rows + own_rows > FILE_ROWS):
            yield Bundle(kind, tuple(taken))
            taken, size, rows = [], 0, 0
        taken.append(file)
        size, rows = size + own, rows + own_rows
    if taken:
        yield Bundle(kind, tuple(taken))


def _check_apart(folder: Path, out: Path) -> None:
    """Raises CannotMerge if the folders overlap, or `out` is recorded into."""
    ours, theirs = folder.resolve(), out.resolve()
    if ours == theirs or ours in theirs.parents or theirs in ours.parents:
        raise CannotMerge(f"{out} and {folder} must be apart: merged rows beside the others would count twice")
    if (out / SPOOL_FOLDER).exists():
        raise CannotMerge(f"{out} is the folder of a recording: choose another one")


def _make(bundle: Bundle, out: Path) -> int:
    """Writes and publishes the large file. Returns its rows if they are frames."""
    file = RangeFile(out, bundle.kind, bundle.hour, bundle.name, c.schema_of(bundle.kind))
    try:
        written = _written(bundle, file)
        file.close()
        _compare(written, bundle, out)
        publish([file], ignore_step)
    except BaseException:
        file.discard()
        raise
    return written.rows if bundle.kind == c.FRAMES_FOLDER else 0


class Tally(NamedTuple):
    """What a file holds: rows, and of frames the bytes that arrived and that were kept."""

    rows: int = 0
    size: int = 0
    stored: int = 0

    def plus(self, table: Any) -> Tally:
        """The sum with a table's."""
        sums = (pc.sum(table[name]).as_py() or 0 if name in table.column_names else 0 for name in (c.SIZE, c.STORED))
        return Tally(self.rows + len(table), *(own + other for own, other in zip(self[1:], sums, strict=True)))


def _written(bundle: Bundle, file: RangeFile) -> Tally:
    """Writes the rows of the bundle's files; what they hold, as read."""
    groups = _Groups(file)
    found = Tally()
    for small in bundle.files:
        for table in _tables(small, c.schema_of(bundle.kind).names):
            found = found.plus(table)
            groups.add(table)
    groups.finish()
    return found


def _tables(file: CaptureFile, names: Sequence[str]) -> Iterator[Any]:
    """A file's row groups, one by one: each has an allowance of its own."""
    for number in groups_between(file, 0, 1 << 62):
        yield from row_groups(file, names, allowance=Allowance(READING, DEFAULT_BUDGET), only=number)


def _compare(written: Tally, bundle: Bundle, out: Path) -> None:
    """Reads the hidden file back. Raises CannotMerge if it holds anything else."""
    path = bundle.path(out)
    made = bundle.files[0]._replace(last=bundle.files[-1].last, path=path.with_name(hidden(path.name)))
    found = Tally()
    names = [name for name in (c.SESSION, c.SIZE, c.STORED) if name in c.schema_of(bundle.kind).names]
    for table in _tables(made, names):
        found = found.plus(table)
    if found != written:
        raise CannotMerge(f"{path} was written wrongly ({found} instead of {written}): is the disk sound?")


def parted(frames: Any) -> tuple[Any, Any]:
    """The rows of the APIs that carry records, and the others."""
    is_data = pc.is_in(frames[c.API], pa.array(sorted(DATA)))
    return frames.filter(is_data), frames.filter(pc.invert(is_data))


class _Groups:
    """The row groups of a large file: frames with records apart from others, as the compactor writes them."""

    def __init__(self, file: RangeFile) -> None:
        self._file = file
        self._waiting: dict[bool, list[Any]] = {True: [], False: []}

    def add(self, table: Any) -> None:
        """Adds the rows of a row group."""
        if c.API not in table.column_names:
            self._add(table, is_data=False)
            return
        data, control = parted(table)
        self._add(data, is_data=True)
        self._add(control, is_data=False)

    def finish(self) -> None:
        """Writes what waits."""
        for is_data in self._waiting:
            self._write(is_data)

    def _add(self, table: Any, *, is_data: bool) -> None:
        most = columns.MAX_BYTES if is_data else columns.MAX_CONTROL_BYTES
        waiting = self._waiting[is_data]
        together = [*waiting, table]
        if sum(one.nbytes for one in together) > most or sum(map(len, together)) > columns.MAX_ROWS:
            self._write(is_data)
        if len(table):
            self._waiting[is_data].append(table)

    def _write(self, is_data: bool) -> None:
        if waiting := self._waiting[is_data]:
            self._file.write(pa.concat_tables(waiting))
            self._waiting[is_data] = []
