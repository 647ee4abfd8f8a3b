"""Lists the Parquet files of a capture, and reads their rows, a row group at a time.

Used by all readers without Spark, and by Python workers of Spark. Files of all format numbers up to today's can be
read. The bytes of a row group are bounded (`columns.MAX_BYTES`; a larger frame is a row group of its own), and so is
the memory of a reader. A file of another program may exceed these bounds, so an allowance limits the memory for each
file. The frames' bytes (*bodies*) are read only on request.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from proxy.files import Folder, StrangeFileError
from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.partitions import begin_ns, hours
from recorder.capture.remote import Place, S3Path, file_system_of, published_files, reason_of
from recorder.capture.row_group import RowGroup, opened

Row = dict[str, Any]

HEADS = tuple(name for name, _ in c.FRAME_COLUMNS if name != c.FRAME)
ALL = tuple(name for name, _ in c.FRAME_COLUMNS)
# columns of frames and events that must have a value in each row, because readers rely on it
_NEVER_NULL = (c.SESSION, c.SEQUENCE, c.DIALECT, c.KIND, c.MADE_BY, c.AT_NS, c.SIZE)
# the microseconds since 1970 of the years 1 to 9999
_FIRST_US, _LAST_US = (
    (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1) for moment in (datetime.min, datetime.max)
)
# two columns that are made on request: the number of a row's row group, and of the row in it, for `Bodies`
GROUP, ROW = "_group", "_row"
# the activity that an allowance's error names
READING = "reading"
# the most row groups that `Bodies` keeps. Frames of APIs that carry records have row groups of their own, so rows in
# the order of arrival come from two row groups in turn; at the end of these two, the next two are needed as well
MAX_GROUPS = 4


class CaptureFile(NamedTuple):
    """One Parquet file of a capture: its partition (date, hour), its session, and the segments `first` to `last`."""

    date: str
    hour: int
    session: str
    first: int
    last: int
    path: Place

    @property
    def hour_ns(self) -> int:
        """When the hour of the partition begins, in ns since 1970."""
        return begin_ns(self.date, f"{self.hour:02}")


def hour_may_hold(begin_ns: int, since_ns: int | None, until_ns: int | None) -> bool:
    """True if the hour that begins at `begin_ns` may hold rows between two moments; None: no bound."""
    return (since_ns is None or since_ns < begin_ns + c.HOUR_NS) and (until_ns is None or begin_ns <= until_ns)


def files(folder: Place, table_name: str = c.FRAMES_FOLDER) -> list[CaptureFile]:
    """The published files of a table, sorted by session, and within a session in the order of the log.

    Errors: UnknownFormatError for a name that is not `<session>-<first>-<last>.parquet`; DamagedFileError for anything
    but a plain file; OSError of a store.
    """
    if isinstance(folder, S3Path):
        return _in_order([_capture_file(*parts) for parts in published_files(folder, table_name)])
    try:
        with Folder.at(folder) as capture:
            described = [_capture_file(date, hour, path) for date, hour, path in _published(capture, table_name)]
    except FileNotFoundError:
        return []
    except StrangeFileError as error:
        raise DamagedFileError(str(error)) from error
    return _in_order(described)


class Listing(NamedTuple):
    """The published files of a capture at one moment."""

    frames: list[CaptureFile]
    events: list[CaptureFile]


def listed(folder: Place) -> Listing:
    """The published files, those of events last: they are published before their frames. Errors: as of `files`."""
    return Listing(files(folder), files(folder, c.EVENTS_FOLDER))


def in_listing(now: list[CaptureFile], then: list[CaptureFile]) -> list[CaptureFile]:
    """The files of a table whose segments an earlier listing had, too. Small ones may have been merged since."""
    same, of_hours = {*then}, defaultdict[tuple[str, str, int], list[CaptureFile]](list)
    for file in then:
        of_hours[file.session, file.date, file.hour].append(file)
    return [file for file in now if file in same or covers(of_hours[file.session, file.date, file.hour], file)]


def covers(others: Iterable[CaptureFile], file: CaptureFile) -> bool:
    """True if other files of the same session and hour together are of all segments of this one."""
    until = file.first
    for other in sorted(others, key=lambda other: other.first):
        if other.first <= until:
            until = max(until, other.last + 1)
    return until > file.last


def _in_order(captured: list[CaptureFile]) -> list[CaptureFile]:
    return sorted(captured, key=lambda file: (file.session, file.first, file.date, file.hour))


def row_groups(
    file: CaptureFile,
    columns: Sequence[str] = ALL,
    *,
    where: Any = None,
    allowance: Allowance | None = None,
    only_group: int | None = None,
) -> Iterator[Any]:
    """A file's rows as Arrow tables in today's format, one for each row group that has wanted rows.

    Args:
        columns: names of columns in the schema, or GROUP and ROW.
        where: a pyarrow expression that is true for the wanted rows, over any columns but `frame`; None: all rows.
        allowance: pays for the memory of all wanted rows. A row group, while it is read, must fit into the rest.
            None: a new allowance.
        only_group: the number of the only row group to read; None: all.
    Errors: UnknownFormatError for a file of a newer format, or without one; DamagedFileError; OverBudget.
    """
    with _errors_of(file):
        allowance = allowance or Allowance(READING, DEFAULT_BUDGET)
        yield from _row_groups(file, columns, where, allowance, only_group)


def tables_of(file: CaptureFile, columns: Sequence[str], where: Any = None) -> Iterator[Any]:
    """As `row_groups`, for a reader that forgets each table before the next: each has an allowance of its own."""
    for number in groups_between(file):
        allowance = Allowance(READING, DEFAULT_BUDGET)
        yield from row_groups(file, columns, where=where, allowance=allowance, only_group=number)


class CheckedBodies:
    """The row groups whose bodies had the right checksums, so that they need not be computed at each reading.

    A row group counts as long as its file is the same: another one at its path, or one that was written to, is checked.
    """

    def __init__(self) -> None:
        self._groups: set[tuple[int, ...]] = set()

    def has(self, file: BinaryIO, group: int) -> bool:
        """True if this row group of an open file was checked."""
        return self._key(file, group) in self._groups

    def add(self, file: BinaryIO, group: int) -> None:
        """All bodies of a row group were read, and checked."""
        self._groups.add(self._key(file, group))

    def _key(self, file: BinaryIO, group: int) -> tuple[int, ...]:
        found = os.fstat(file.fileno())
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, group


def streamed_bodies(
    file: CaptureFile, group: int, first: int = 0, checked: CheckedBodies | None = None
) -> Iterator[bytes | None]:
    """The bodies of a row group, from row `first` on, each read when it is asked for; they take little memory.

    Args:
        checked: row groups whose checksums need not be computed. This one is added once all its bodies were read.
            A file in a bucket is checked at each reading: nothing tells that it is still the same.
    Resource handling: the file is open until the last body was taken or the iterator is closed.
    Errors: as of `row_groups`.
    """
    with _errors_of(file), file.path.open("rb") as raw, opened(file.path) as parquet:
        row_group = RowGroup(parquet, raw, group, Allowance(READING, DEFAULT_BUDGET))
        checked = checked if isinstance(file.path, Path) else None
        is_checked = checked is not None and checked.has(raw, group)
        yield from row_group.streamed_bodies(first, is_checked=is_checked)
        if checked is not None and first == 0:
            checked.add(raw, group)


def file_at(path: Place) -> CaptureFile:
    """A capture's file by its path alone. Errors: UnknownFormatError for a path that a capture's files don't have."""
    hour = path.parent
    return _capture_file(hour.parent.name.partition("=")[2], hour.name.partition("=")[2], path)


def groups_between(file: CaptureFile, start: int = 0, end: int = sys.maxsize, where: Any = None) -> list[int]:
    """The numbers of the row groups whose first byte is from `start` on and before `end`: by default, of all.

    `where`: a pyarrow expression; row groups are left out if the footer's statistics exclude that it is true for a row.
    Errors: DamagedFileError.
    """
    with _errors_of(file), opened(file.path) as parquet:
        footer = parquet.metadata
        begins = [_first_byte(footer.row_group(at)) for at in range(footer.num_row_groups)]
        groups = [at for at, begin in enumerate(begins) if start <= begin < end]
        return groups if where is None else _possible(file, groups, where)


def _possible(file: CaptureFile, groups: list[int], where: Any) -> list[int]:
    """The groups that may hold rows for which `where` is true."""
    import pyarrow.dataset as ds

    system, name = file_system_of(file.path)
    fragment = ds.ParquetFileFormat().make_fragment(name, system, row_groups=groups)
    return [group.id for group in fragment.subset(filter=where).row_groups] if groups else []


def row_count(file: CaptureFile) -> int:
    """The number of a file's rows, by its footer. Errors: as of `row_groups`."""
    with _errors_of(file), opened(file.path) as parquet:
        return int(parquet.metadata.num_rows)


def _first_byte(group: Any) -> int:
    first = group.column(0)
    offsets: list[int | None] = [first.dictionary_page_offset, first.data_page_offset]
    return min(offset for offset in offsets if offset is not None)


def first_times(file: CaptureFile) -> list[int]:
    """The smallest `mono_ns` of each row group, by the footer's statistics; without statistics, the smallest int64."""
    return [-(1 << 63) if known is None else known[0] for known in _bounds(file, c.MONO_NS)]


def times_of(file: CaptureFile) -> tuple[int, int] | None:
    """When a file's first and last frame arrived, in ns since 1970, by the footer's statistics.

    None: it has no frames, or a row group without statistics. Errors: as of `row_groups`.
    """
    known = _bounds(file, c.AT_NS)
    found = [bounds for bounds in known if bounds is not None]
    if not found or len(found) < len(known):
        return None
    return min(first for first, _ in found), max(last for _, last in found)


def _bounds(file: CaptureFile, column: str) -> list[tuple[int, int] | None]:
    """The least and the greatest integer of a column in each row group; None without statistics."""
    with _errors_of(file), opened(file.path) as parquet:
        footer = parquet.metadata
        return [_bounds_in(footer.row_group(at), column) for at in range(footer.num_row_groups)]


def _bounds_in(group: Any, name: str) -> tuple[int, int] | None:
    columns = (group.column(at) for at in range(group.num_columns))
    statistics = next((column.statistics for column in columns if column.path_in_schema == name), None)
    if statistics is None or not statistics.has_min_max:
        return None
    first, last = statistics.min, statistics.max
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def last_ns(folder: Place, *, most: int = DEFAULT_BUDGET) -> int:
    """When the capture's last frame arrived, in ns since 1970; 0 if there is no frame.

    `most`: bytes of memory for the rows of one file. Errors: as of `row_groups`.
    """
    captured = files(folder)
    newest = max(((file.date, file.hour) for file in captured), default=None)
    times = (
        pc.max(group[c.AT_NS]).as_py()
        for file in captured
        if (file.date, file.hour) == newest
        for group in row_groups(file, [c.AT_NS], allowance=Allowance(READING, most))
    )
    return max(times, default=0)


class Bodies:
    """The bodies of a file's rows, one by one. Keeps the row groups that were used last, MAX_GROUPS at most, in memory.

    `allowance` pays for them. Resource handling: `close` gives the memory back. The file is open only while it is read.
    """

    def __init__(self, file: CaptureFile, allowance: Allowance) -> None:
        self._file, self._allowance = file, allowance
        self._columns: dict[int, Any] = {}

    def close(self) -> None:
        """Forgets all row groups."""
        while self._columns:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        column = self._columns.pop(next(iter(self._columns)))
        self._allowance.give_back(column.nbytes)

    def of(self, row: Row) -> bytes | None:
        """The body of a row that has GROUP and ROW; None if it was not recorded. Errors: as of `row_groups`."""
        group = row[GROUP]
        column = self._columns.pop(group, None)
        if column is None:
            column = self._read(group)
        self._columns[group] = column
        found: bytes | None = column[row[ROW]].as_py()
        return found

    def _read(self, group: int) -> Any:
        path = self._file.path
        with _errors_of(self._file), path.open("rb") as raw, opened(path) as parquet:
            row_group = RowGroup(parquet, raw, group, self._allowance)
            while self._columns and (len(self._columns) == MAX_GROUPS or self._allowance.left < row_group.bodies_size):
                self._forget_oldest()
            column = row_group.whole_bodies()
            self._allowance.take(column.nbytes)
            return column


@contextmanager
def _errors_of(file: CaptureFile) -> Iterator[None]:
    try:
        yield
    except UnknownFormatError as error:
        raise UnknownFormatError(f"{file.path}: {error}") from error
    except OverBudget as error:
        raise OverBudget(f"{file.path}: {error.reason}") from error
    except FileNotFoundError as error:
        raise DamagedFileError(f"{file.path} can't be read: {c.REMOVED_MEANWHILE}") from error
    # pyarrow raises UnicodeDecodeError for names in a footer that are not UTF-8
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError, DamagedFileError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else " ".join(str(error).split())
        raise DamagedFileError(f"{file.path} can't be read: {reason}") from error


def _row_groups(
    file: CaptureFile,
    columns: Sequence[str],
    where: Any,
    allowance: Allowance,
    only_group: int | None,
) -> Iterator[Any]:
    with file.path.open("rb") as raw, opened(file.path) as parquet:
        number = c.format_of(parquet.schema_arrow.metadata)
        if number <= c.FORMAT:
            _check_columns(file.path, parquet.schema_arrow, number)
        present = parquet.schema_arrow.names
        for at in range(parquet.num_row_groups) if only_group is None else (only_group,):
            group = RowGroup(parquet, raw, at, allowance)
            heads = group.heads([name for name in present if name != c.FRAME])
            # from here on texts are UTF-8 and times are in a calendar's range
            heads.validate(full=True)
            _check_complete(heads)
            _check_times(heads)
            rows = _wanted(heads, where)
            if not len(rows):
                continue
            some = None if len(rows) == len(heads) else rows
            if some is not None:
                heads = heads.take(some)
            if c.FRAME in columns and c.FRAME in present:
                heads = heads.append_column(c.FRAME, group.bodies(some))
            table = c.upgraded(heads, number)
            places = {GROUP: pa.repeat(pa.scalar(at, pa.int64()), len(rows)), ROW: rows}
            for name in places.keys() & {*columns}:
                table = table.append_column(name, places[name])
            yield group.keep(table.select(list(columns)))


def _published(capture: Folder, table_name: str) -> Iterator[tuple[str, str, Path]]:
    for date, hour, hour_folder in hours(capture, table_name):
        for name in hour_folder.names():
            if name.endswith(".parquet") and not name.startswith((".", "_")):
                # `size` raises for anything but a plain file: opening a FIFO would wait for ever
                hour_folder.size(name)
                yield date, hour, hour_folder.path / name


def _capture_file(day: str, hour: str, path: Place) -> CaptureFile:
    try:
        # raises UnicodeEncodeError (a ValueError) for names that are not UTF-8, which Spark can't read
        path.name.encode()
        session, first, last = path.stem.rsplit("-", 2)
        datetime.fromisoformat(f"{day}T{hour}:00:00")
        return CaptureFile(day, int(hour), session, int(first), int(last), path)
    except ValueError:
        raise UnknownFormatError(f"{path} is no part of a capture: none of its files is called like that") from None


def _check_columns(path: Place, schema: Any, number: int) -> None:
    """Raises DamagedFileError unless the file has the columns of its table in its format."""
    for field in c.schema_of(path.parents[2].name):
        if c.COLUMNS_SINCE.get(field.name, 0) > number and field.name not in schema.names:
            continue
        stored = schema.field(field.name).type if field.name in schema.names else None
        # texts may be stored as dictionaries
        kind = stored.value_type if stored and pa.types.is_dictionary(stored) else stored
        if kind != field.type:
            raise DamagedFileError(f"its column {field.name} is {stored or 'missing'}")


def _check_complete(heads: Any) -> None:
    """Raises DamagedFileError if a column of _NEVER_NULL has nulls, or a span has."""
    lacking = [name for name in _NEVER_NULL if name in heads.column_names and heads.column(name).null_count]
    spans = (name for name in (c.MASKED, c.OMITTED, c.DROPPED) if name in heads.column_names)
    lacking += [name for name in spans if _has_holes(heads.column(name))]
    if lacking:
        raise DamagedFileError(f"its column {lacking[0]} has holes")


def _has_holes(spans: Any) -> bool:
    """True if a span, its start or its length is null."""
    chunks = (chunk.flatten() for chunk in spans.chunks)
    return any(flat.null_count or any(part.null_count for part in flat.flatten()) for flat in chunks)


def _check_times(heads: Any) -> None:
    """Raises DamagedFileError if a time is not in the years 1 to 9999."""
    if c.AT in heads.column_names:
        ends = pc.min_max(heads[c.AT].cast(pa.int64()))
        first, last = ends["min"].as_py(), ends["max"].as_py()
        if first is not None and not _FIRST_US <= first <= last <= _LAST_US:
            raise DamagedFileError(f"its column {c.AT} holds times that no calendar has")


def _wanted(heads: Any, where: Any) -> Any:
    """The indices of the wanted rows."""
    numbered = heads.append_column(ROW, pa.array(range(len(heads)), pa.int64()))
    return (numbered if where is None else numbered.filter(where)).column(ROW)
