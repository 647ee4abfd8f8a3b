"""How a Python worker of Spark reads a capture's files by itself: plans tasks of byte ranges, and reads their rows.

Needs no Spark. Planning opens no file: a task is a list of byte ranges of files whose hours may hold wanted rows. A
task reads the row groups that begin in its ranges, one at a time, and skips those whose statistics exclude wanted rows.
In a row group the heads choose the rows; the column of frames is only loaded if one of them is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from recorder.analysis.pushed import Condition, all_of, bounds_ns
from recorder.capture import frames as c
from recorder.capture import reader
from recorder.capture.reader import ALL, HEADS, CaptureFile, file_at, files, groups_between, hour_may_hold, row_groups
from recorder.capture.remote import place_at, size_of
from recorder.facts.rows import (
    KIND,
    LARGEST_BODY,
    Decoder,
    DecoderIndex,
    FrameSelector,
    decoded_together,
    unopened,
)

# Bytes of Parquet in a task. A report keeps a table in as many parts as tasks have read, and each part is a task of
# every question about the table. So many small tasks are expensive.
SMALLEST_TASK, LARGEST_TASK = 16 << 20, 128 << 20
# With a single task a core, one core would wait for the other's task.
_TASKS_A_CORE = 4
# Rows that a worker decodes at a time.
BATCH_ROWS = 4096
# Bytes at a response's beginning that include every error code and throttle time of a fixed position.
BEGINNING = 256


class Piece(NamedTuple):
    """A byte range of a file: the row groups that begin in it."""

    path: str
    start: int
    end: int


class Wanted(NamedTuple):
    """Which rows to read: those of a decoder's frames (none: all rows), within a time, that meet all conditions.

    `largest`: frames of more bytes are not opened.
    """

    selectors: tuple[FrameSelector, ...] = ()
    largest: int = LARGEST_BODY
    since_ns: int | None = None
    until_ns: int | None = None
    conditions: tuple[Condition, ...] = ()

    def expression(self, *more: Any) -> Any:
        """Returns the conjunction of all conditions and of `more`, for pyarrow; None if every row is wanted."""
        import pyarrow.compute as pc

        found = [reduce(or_, map(_selects, self.selectors))] if self.selectors else []
        found += [] if self.since_ns is None else [pc.field(c.AT_NS) >= self.since_ns]
        found += [] if self.until_ns is None else [pc.field(c.AT_NS) <= self.until_ns]
        found += [condition.expression() for condition in self.conditions]
        found += more
        return all_of(found) if found else None

    def bounds_ns(self) -> tuple[int | None, int | None]:
        """Returns the first and the last time that wanted rows may have; None: unbounded."""
        since, until = bounds_ns(self.conditions)
        firsts = [one for one in (self.since_ns, since) if one is not None]
        lasts = [one for one in (self.until_ns, until) if one is not None]
        return max(firsts, default=None), min(lasts, default=None)

    def readable(self) -> Any:
        """Returns the condition `bodies.is_readable` for pyarrow: the frame is whole, and small enough to be opened."""
        import pyarrow.compute as pc

        whole = (pc.field(c.STORED) == pc.field(c.SIZE)) & (pc.field(c.SIZE) <= self.largest)
        return pc.coalesce(whole, pc.scalar(False))


def files_in(folder: str) -> dict[str, list[str]]:
    """Returns the files of a capture by table, in a folder or behind `s3://`. Errors: as of `reader.files`."""
    return {
        kind: [str(file.path) for file in files(place_at(folder), kind)] for kind in (c.FRAMES_FOLDER, c.EVENTS_FOLDER)
    }


def within(paths: Iterable[str], since_ns: int | None, until_ns: int | None) -> Iterator[tuple[str, int]]:
    """Yields path and size of the files whose hours may hold rows of this time."""
    for path in paths:
        file = file_at(place_at(path))
        if is_within(file, since_ns, until_ns):
            yield path, size_of(file.path)


def times_of(paths: Iterable[str]) -> tuple[int, int] | None:
    """When the first and the last frame of files arrived, in ns since 1970; None if their footers don't tell.

    Errors: DamagedFileError, UnknownFormatError.
    """
    known = [reader.times_of(file_at(place_at(path))) for path in paths]
    found = [bounds for bounds in known if bounds is not None]
    if not found or len(found) < len(known):
        return None
    return min(first for first, _ in found), max(last for _, last in found)


def is_within(file: CaptureFile, since_ns: int | None, until_ns: int | None) -> bool:
    """True if the hour of the file's folder may hold rows of this time."""
    return hour_may_hold(file.hour_ns, since_ns, until_ns)


def planned(files: Iterable[tuple[str, int]], cores: int, *, may_grow: bool = False) -> list[list[Piece]]:
    """Returns tasks in the order of the files (path, size): a few for each core, or a smaller one for each core.

    `may_grow`: there may be more cores, so no task is larger than it has to be.
    """
    sizes = list(files)
    room = _room(sum(size for _, size in sizes), max(cores, 1), SMALLEST_TASK if may_grow else LARGEST_TASK)
    tasks: list[list[Piece]] = []
    left = 0
    for path, size in sizes:
        for start in range(0, max(size, 1), room):
            piece = Piece(path, start, min(start + room, size))
            if left < piece.end - piece.start or not tasks:
                tasks.append([])
                left = room
            tasks[-1].append(piece)
            left -= piece.end - piece.start
    return tasks


def _room(total: int, cores: int, most: int) -> int:
    """Returns the bytes of a task."""
    some = min(max(total // (_TASKS_A_CORE * cores), SMALLEST_TASK), most)
    return max(min(some, -(-total // cores)), 1)


def opened_frames(task: Sequence[Piece], decoder: Decoder, wanted: Wanted) -> Iterator[Any]:
    """Yields the rows of a decoder's table as Arrow batches; in each piece, unopened frames come last."""
    return (rows for _, rows in opened_together(task, [decoder], wanted))


def opened_together(
    task: Sequence[Piece], decoders: Sequence[Decoder], wanted: Wanted
) -> Iterator[tuple[Decoder, Any]]:
    """Yields Arrow batches of several decoders' tables. Each frame is read and opened once."""
    readable = wanted.readable()
    index = DecoderIndex(decoders)
    columns = [*{*index.copied, *KIND, c.SIZE, c.STORED}]
    for piece in task:
        yield from decoded_together(_batches(piece, wanted.expression(readable), index.reads), index)
        for batch in _batches(piece, wanted.expression(~readable), columns):
            yield from unopened(batch, index)


def plain_rows(task: Sequence[Piece], columns: Sequence[str], wanted: Wanted) -> Iterator[Any]:
    """Yields these columns of a capture's own table, as Arrow batches."""
    for piece in task:
        yield from _batches(piece, wanted.expression(), columns)


def fact_batches(task: Sequence[Piece], columns: Sequence[str]) -> Iterator[Any]:
    """Yields these columns of files of facts, as Arrow batches."""
    import pyarrow.parquet as pq

    for piece in task:
        with place_at(piece.path).open("rb") as file, pq.ParquetFile(file, page_checksum_verification=True) as opened:
            for number in range(opened.num_row_groups):
                begin = opened.metadata.row_group(number).column(0).data_page_offset
                if piece.start <= begin < piece.end:
                    yield from opened.read_row_group(number, columns).select(columns).to_batches(BATCH_ROWS)


def frames_with_beginnings(task: Sequence[Piece], keys: Sequence[int]) -> Iterator[Any]:
    """Yields all columns of frames as Arrow batches, with the first bytes of these APIs' responses in place of frames.

    FRAME is null for all other frames: none of their bytes is read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    is_begun = pc.coalesce((pc.field(c.KIND) == c.RESPONSE) & pc.field(c.API_KEY).isin(list(keys)), pc.scalar(False))
    at = ALL.index(c.FRAME)
    for piece in task:
        for batch in _batches(piece, is_begun, ALL):
            yield batch.set_column(at, c.FRAME, pc.binary_slice(batch[c.FRAME], 0, BEGINNING))
        for batch in _batches(piece, ~is_begun, HEADS):
            nothing = pa.nulls(len(batch), pa.binary())
            yield pa.RecordBatch.from_arrays([*batch.columns[:at], nothing, *batch.columns[at:]], ALL)


def _selects(one: FrameSelector) -> Any:
    import pyarrow.compute as pc

    found = (pc.field(c.KIND) == one.side) & (pc.field(c.DIALECT) == one.dialect)
    key = pc.field(c.API_KEY)
    found &= key.is_valid() if one.api_keys is None else key.isin(list(one.api_keys))
    return found if one.versions is None else found & pc.field(c.API_VERSION).isin(list(one.versions))


def _batches(piece: Piece, where: Any, columns: Sequence[str]) -> Iterator[Any]:
    file = file_at(place_at(piece.path))
    for number in groups_between(file, piece.start, piece.end, where):
        for table in row_groups(file, columns, where=where, only_group=number):
            yield from table.to_batches(BATCH_ROWS)
