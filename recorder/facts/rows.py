"""Turns Arrow batches of frames into Arrow batches of a table's rows, in plain Python and pyarrow.

A `Decoder` yields groups: values that some rows share, and the rows' own values. `take` repeats the shared values, and
`zip` makes columns of the own ones. So a record costs no work for columns that its frame or its batch fills. A table
has the columns of its frames (`frame_columns`), the shared ones, the rows' own, and `unread`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.error_reader import Unread
from recorder.facts.alike import ID_AT, ID_END, RESPONSE_ID_END, SMALL, alike
from recorder.facts.dropped import filled
from recorder.facts.frame import REQUEST, Frame, Unreadable
from recorder.facts.response_errors import is_cut
from recorder.facts.schema import HEADERS, Column, Table, arrow_type
from recorder.hashing.batches import Told

if TYPE_CHECKING:
    from recorder.facts.plain_messages import PlainMessages

SIDE, UNREAD = "side", "unread"
# bytes that a frame may take decompressed, and the same again decoded: the values of 64 MiB take several times as much
FRAME_BUDGET = 512 << 20
# Larger frames are not opened. The same number of bytes bounds the capture's row groups, and so a reader's memory.
LARGEST_BODY = 64 << 20
# about the most bytes of keys and values in a batch of rows; the most rows in it
MAX_BYTES, MAX_ROWS = 16 << 20, 16_384
# bytes of a column that are made Python values at a time
_CACHED_BYTES = 1 << 17
# of how many small frames the rows are kept for frames of the same bytes
_KEPT = 4096
# groups, and rows in a group, of such a frame
_FEW = 16
# so many frames of a kind are looked at, before less than half of them being known means that they hardly repeat
_TRIALS = 256
_NONE_YET = (0, 0)
# New objects between two garbage collections. Python's default of 700 would take a third of a record's time.
ROWS_A_COLLECTION = 200_000

FRAME = (
    Column("session", "string", "the capture's session"),
    Column("cluster", "string", "the cluster's name in the settings"),
    Column("connection", "bigint", "number within the session"),
    Column("sequence", "bigint", "the frame's number on its connection"),
    Column("exchange", "bigint", "the exchange that the frame belongs to"),
    Column("at", "timestamp", "when the frame's last byte arrived"),
    Column("node", "int", "the broker's node id; null while unknown"),
    Column("client", "string", "the client's address and port"),
    Column("client_id", "string", "as the request says"),
    Column("principal", "string", "who was logged in"),
    Column("api", "string", "the api's name"),
    Column("api_version", "smallint", "the request's version"),
    Column(SIDE, "string", "`request` or `response`"),
)
UNREAD_COLUMN = Column(UNREAD, "string", "why the frame, or the rest of it, has no further rows; null if it was read")
# the columns by which a decoder asks for frames, and all columns that a `Frame` is made of
KIND = ("kind", "dialect", "api_key", "api_version")
FACTS = (*KIND, "masked", "note", "dropped", "stored", "batches")


class FrameSelector(NamedTuple):
    """A choice of frames: those of one side and dialect, of these APIs and versions (None: of all)."""

    side: str
    api_keys: tuple[int, ...] | None
    dialect: str = Dialect.KAFKA.value
    versions: tuple[int, ...] | None = None

    def has(self, side: str, dialect: str, api_key: int | None, version: int | None) -> bool:
        """True for a frame of this kind."""
        is_api = api_key is not None if self.api_keys is None else api_key in self.api_keys
        is_version = self.versions is None or version in self.versions
        return is_api and is_version and (side, dialect) == (self.side, self.dialect)


class Group(NamedTuple):
    """Rows that share the values of some columns. `unread`: the value for all of them. `size`: about their bytes.

    A row may have more values than the table has own columns: further ones are ignored.
    """

    shared: tuple[Any, ...]
    rows: Sequence[tuple[Any, ...]]
    unread: str | None = None
    size: int = 0


class Many(NamedTuple):
    """Rows of many frames. `numbers`: of each row's frame in its batch. `columns`: the shared ones and the rows' own.

    A column is an array of numpy or Arrow, with -1 as in groups; None: all are null.
    """

    numbers: Any
    columns: Sequence[Any]


Read = Callable[[Frame, Budget], Iterable[Group]]


@dataclass(frozen=True, slots=True)
class Decoder:
    """Declares a table that is made from the bodies of frames, and makes its rows.

    `selectors`: the frames that it reads. `frame_columns`: the columns that are copied from the frame's row. `read`
    yields a frame's groups; it may raise Unreadable after some of them. `read_many` makes the same rows of many plain
    messages; None: all frames are read one by one.
    """

    name: str
    row: str
    selectors: tuple[FrameSelector, ...]
    shared: tuple[Column, ...]
    own: tuple[Column, ...]
    read: Read
    frame_columns: tuple[Column, ...] = FRAME
    read_many: Callable[[PlainMessages], Many] | None = None

    @property
    def copied(self) -> list[str]:
        """The capture's columns that `frame_columns` come from."""
        return ["kind" if column.name == SIDE else column.name for column in self.frame_columns]

    @property
    def reads(self) -> list[str]:
        """All columns of the capture that the decoder needs."""
        return [*dict.fromkeys((*self.copied, *FACTS, "frame"))]

    @property
    def table(self) -> Table:
        """The table's declaration."""
        return Table(
            self.name, self.row, (*self.frame_columns, *self.shared, *self.own, UNREAD_COLUMN), needs_bodies=True
        )


class DecoderIndex:
    """Finds the decoders that ask for a frame.

    `for_facts`: they make facts. None of them unfolds anything, so one budget pays for what all of them make of a
    frame; and plain messages are read many at once, which needs numpy: Spark's executors may lack it.
    """

    def __init__(self, decoders: Sequence[Decoder], *, for_facts: bool = False) -> None:
        self.decoders = decoders
        self.for_facts = for_facts
        self.repeats = Repeats()
        self._known: dict[tuple[Any, ...], list[Decoder]] = {}

    @property
    def reads(self) -> list[str]:
        """All columns of the capture that the decoders need."""
        return [*dict.fromkeys(name for decoder in self.decoders for name in decoder.reads)]

    @property
    def copied(self) -> list[str]:
        """The columns of the capture that the decoders' `frame_columns` come from."""
        return [*dict.fromkeys(name for decoder in self.decoders for name in decoder.copied)]

    def of(self, *kind: Any) -> list[Decoder]:
        """Returns the decoders that ask for frames of this side, dialect, API and version (KIND)."""
        known = self._known.get(kind)
        if known is None:
            known = [one for one in self.decoders if any(selector.has(*kind) for selector in one.selectors)]
            self._known[kind] = known
        return known

    def reads_many(self, *kind: Any) -> bool:
        """Whether all decoders that ask for frames of this kind read many at once."""
        asked = self.of(*kind)
        return bool(asked) and all(decoder.read_many for decoder in asked)


class Repeats:
    """The groups of small frames, by their bytes: Heartbeats and their like differ only in their correlation ids.

    Kinds of frames that hardly repeat are found out, and not kept.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[Any, ...], list[tuple[Decoder, Group]]] = {}
        self._counts: dict[tuple[Any, ...], list[int]] = {}

    def key(self, frame: Frame) -> tuple[Any, ...] | None:
        """The key of a frame; None if its groups are not kept."""
        data = frame.data
        if not ID_END <= len(data) <= SMALL or frame.dialect != Dialect.KAFKA:
            return None
        kind = frame.side, frame.api_key, frame.api_version
        asked, found = self._counts.get(kind, _NONE_YET)
        if asked > _TRIALS and found * 2 < asked:
            return None
        head = frame.masked_from, frame.is_cut, frame.lacks_records, frame.told
        if frame.side == REQUEST:
            # the API and version before the correlation id may be others than the row's: they say where the body begins
            return kind, data[ID_END:], *head, data[:ID_AT]
        return kind, data[RESPONSE_ID_END:], *head

    def groups(self, key: tuple[Any, ...]) -> list[tuple[Decoder, Group]] | None:
        """The groups of an earlier frame with this key; None if there was none."""
        found = self._groups.get(key)
        counts = self._counts.setdefault(key[0], [0, 0])
        counts[0] += 1
        counts[1] += found is not None
        return found

    def keep(self, key: tuple[Any, ...], groups: list[tuple[Decoder, Group]]) -> None:
        """Keeps the groups of a frame, unless they are large."""
        if _are_few(groups):
            if len(self._groups) >= _KEPT:
                self._groups.clear()
            self._groups[key] = groups


def _are_few(groups: Sequence[tuple[Decoder, Group]]) -> bool:
    """False if a small frame's groups are large: it may unfold."""
    return len(groups) <= _FEW and all(len(one.rows) <= _FEW and one.size <= SMALL for _, one in groups)


def decoded(batches: Iterable[Any], decoder: Decoder) -> Iterator[Any]:
    """The rows of a decoder's table, in Arrow batches, for the frames that it asks for.

    `batches`: frames, with the columns `decoder.reads`.
    """
    return (rows for _, rows in decoded_together(batches, DecoderIndex([decoder])))


def decoded_together(batches: Iterable[Any], index: DecoderIndex) -> Iterator[tuple[Decoder, Any]]:
    """Decodes for several decoders: yields each batch with its decoder. Each frame is opened once for all of them."""
    with _rarely_collected():
        for batch in batches:
            yield from _decoded(batch, index)


def unopened(batch: Any, index: DecoderIndex) -> Iterator[tuple[Decoder, Any]]:
    """Each decoder with a row for each of its frames, none of which is opened: the frame's head, and the reason.

    `batch`: frames with the columns `index.copied`, KIND, `stored` and `size`.
    """
    rows: dict[str, list[int]] = {decoder.name: [] for decoder in index.decoders}
    for number, kind in enumerate(zip(*(batch.column(name).to_pylist() for name in KIND), strict=True)):
        for decoder in index.of(*kind):
            rows[decoder.name].append(number)
    for decoder in index.decoders:
        if rows[decoder.name]:
            yield decoder, _unopened(batch.take(rows[decoder.name]), decoder)


def _unopened(batch: Any, decoder: Decoder) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    nulls = [pa.nulls(len(batch), arrow_type(column.kind)) for column in (*decoder.shared, *decoder.own)]
    is_cut_short = pc.fill_null(pc.not_equal(batch["stored"], batch["size"]), True)
    reason = pc.if_else(is_cut_short, Unread.OMITTED.value, Unread.TOO_LARGE.value)
    return pa.RecordBatch.from_arrays([*(batch[name] for name in decoder.copied), *nulls, reason], decoder.table.names)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Lets Python collect garbage less often: rows are many objects, and make no cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(ROWS_A_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _decoded(batch: Any, index: DecoderIndex) -> Iterator[tuple[Decoder, Any]]:
    gathered = {decoder.name: _Gathered(decoder, batch) for decoder in index.decoders}
    batch, numbers = _singles(batch, index, gathered)
    for number, made in zip(numbers, _made(batch, index), strict=True):
        for decoder, group in made:
            mine = gathered[decoder.name]
            if mine.add(number, group):
                yield decoder, mine.taken()
    for decoder in index.decoders:
        if gathered[decoder.name].has_rows:
            yield decoder, gathered[decoder.name].taken()


def _made(batch: Any, index: DecoderIndex) -> Iterator[Iterable[tuple[Decoder, Group]]]:
    """The groups of each frame, in the order of frames. Frames that say the same have the same groups, read once."""
    import pyarrow as pa

    firsts = alike(batch)
    repeated = {first for number, first in enumerate(firsts) if first != number}
    if repeated:
        once = [number for number, first in enumerate(firsts) if first == number]
        batch = batch.select([*FACTS, "frame"]).take(pa.array(once, pa.int32()))
    frames = _frames(batch, index)
    known: dict[int, tuple[list[Decoder], Frame | None, Sequence[tuple[Decoder, Group]] | None]] = {}
    for number, first in enumerate(firsts):
        if first != number:
            decoders, frame, kept = known[first]
            yield _groups(decoders, frame, index.for_facts) if kept is None else kept
            continue
        decoders, frame = next(frames)
        made = _read(decoders, frame, index)
        if number in repeated:
            made = [*made]
            # many groups are made anew each time: those of a batch's frames would take too much memory
            known[number] = decoders, frame, made if _are_few(made) else None
        yield made


def _read(decoders: Sequence[Decoder], frame: Frame | None, index: DecoderIndex) -> Iterable[tuple[Decoder, Group]]:
    """The groups of a frame; those of an earlier batch's frame that said the same, if they are kept."""
    key = index.repeats.key(frame) if decoders and frame is not None else None
    if key is None:
        return _groups(decoders, frame, index.for_facts)
    made = index.repeats.groups(key)
    if made is None:
        made = [*_groups(decoders, frame, index.for_facts)]
        index.repeats.keep(key, made)
    return made


def _singles(batch: Any, index: DecoderIndex, gathered: Mapping[str, _Gathered]) -> tuple[Any, Sequence[int]]:
    """The frames that are to be read one by one, and their numbers in the batch. The rows of all others are added."""
    if not index.for_facts:
        return batch, range(len(batch))
    import numpy as np
    import pyarrow as pa

    from recorder.facts.plain_messages import plain_messages

    is_single = np.ones(len(batch), bool)
    for messages in plain_messages(batch, index.reads_many):
        for decoder in index.of(*messages.kind):
            if decoder.read_many is not None:
                gathered[decoder.name].add_many(decoder.read_many(messages))
        is_single[messages.numbers] = False
    if is_single.all():
        return batch, range(len(batch))
    numbers = np.flatnonzero(is_single)
    return batch.select([*FACTS, "frame"]).take(pa.array(numbers)), numbers.tolist()


def _frames(batch: Any, index: DecoderIndex) -> Iterator[tuple[list[Decoder], Frame | None]]:
    """The frames of a batch, each with the decoders that ask for it; None for a frame whose bytes the capture lacks."""
    facts = zip(*(_values(batch.column(name)) for name in FACTS), strict=True)
    for data, (side, dialect, key, version, masked, note, dropped, stored, told) in zip(
        _values(batch.column("frame")), facts, strict=True
    ):
        frame = None
        if data is not None:
            # Spark's own reader leaves dropped spans as they are
            whole = data if dropped is None else _whole(data, dropped, stored)
            hidden = masked_from(masked) if masked else None
            cut = note is not None and is_cut(note)
            frame = Frame(side, dialect, key, version, whole, hidden, cut, *rules_of(dropped, told))
        yield index.of(side, dialect, key, version), frame


def _whole(kept: bytes, dropped: Any, stored: int) -> bytes:
    """A frame with zeros in its dropped spans; as it is if the spans don't fit, so that it is malformed."""
    try:
        return filled(kept, dropped, stored)
    except ValueError:
        return kept


def _values(column: Any) -> Iterable[Any]:
    """The column's Python values, made as they are read: as many at a time as a processor's cache holds."""
    if column.null_count == len(column):
        return repeat(None, len(column))
    step = max(len(column) * _CACHED_BYTES // max(column.nbytes, 1), 1)
    return chain.from_iterable(column.slice(at, step).to_pylist() for at in range(0, len(column), step))


def frame_of(row: Mapping[str, Any]) -> Frame:
    """The frame of a row with the columns of FACTS; without bytes if the row has none."""
    facts = row["kind"], row["dialect"], row["api_key"], row["api_version"], row["frame"] or b""
    rules = rules_of(row["dropped"], row["batches"])
    return Frame(*facts, masked_from(row["masked"]), is_cut(row["note"]), *rules)


def rules_of(dropped: Any, told: Sequence[Mapping[str, Any]] | None) -> tuple[bool, tuple[Told, ...] | None]:
    """What rules have done to a frame: `lacks_records`, and `told` (None for what no recorder writes)."""
    if not told:
        return dropped is not None or told is not None, None
    numbers = (one[name] for one in told for name in ("size", "batches"))
    if not all(isinstance(number, int) and number > 0 for number in numbers):
        return True, None
    return True, tuple(Told(*(one[name] for name in Told._fields)) for one in told)


def masked_from(masked: Sequence[Mapping[str, int | None]] | None) -> int | None:
    """Where the first masked span starts; 0 for a span without a start: it may begin anywhere."""
    if not masked:
        return None
    return (masked[0] or {}).get("start") or 0


def _groups(decoders: Sequence[Decoder], frame: Frame | None, are_facts: bool) -> Iterator[tuple[Decoder, Group]]:
    """Yields the frame's groups. If a decoder can't read it to its end, a row with the reason comes last."""
    budget = Budget(FRAME_BUDGET)
    for decoder in decoders:
        if frame is None:
            yield decoder, unread(decoder, Unread.OMITTED.value)
            continue
        try:
            for group in decoder.read(frame, budget if are_facts else Budget(FRAME_BUDGET)):
                yield decoder, group
        except Unreadable as error:
            yield decoder, unread(decoder, error.reason)


def unread(decoder: Decoder, reason: str) -> Group:
    """Returns the single row of a frame that can't be read."""
    return Group((None,) * len(decoder.shared), [(None,) * len(decoder.own)], reason)


class _Gathered:
    """Collects the rows of a batch of frames until they become a batch of the table."""

    def __init__(self, decoder: Decoder, batch: Any) -> None:
        self._decoder = decoder
        self._heads = [batch.column(name) for name in decoder.copied]
        self._clear()

    def _clear(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._many: list[Many] = []
        self._groups: list[Group] = []
        # where each group stands in the list, by its identity
        self._places: dict[int, int] = {}
        # the frames, and the place of the group that each of them has; how many rows these are
        self._frames: list[int] = []
        self._of_frames: list[int] = []
        self._count = self._size = 0

    def add(self, frame: int, group: Group) -> bool:
        """Adds the rows of a group; returns True if they are enough for a batch.

        `frame`: the number, in its batch, of the frame that has these rows. Frames come in order; several may have the
        same group, whose values are then made columns once.
        """
        _, rows, _, size = group
        if not rows:
            return False
        place = self._places.setdefault(id(group), len(self._groups))
        if place == len(self._groups):
            self._groups.append(group)
            self.rows += rows
        self._frames.append(frame)
        self._of_frames.append(place)
        self._count += len(rows)
        self._size += size
        return self._count >= MAX_ROWS or self._size >= MAX_BYTES

    def add_many(self, many: Many) -> None:
        """Adds rows of many frames."""
        if len(many.numbers):
            self._many.append(many)

    @property
    def has_rows(self) -> bool:
        """Whether rows wait to be taken."""
        return bool(self.rows or self._many)

    def taken(self) -> Any:
        """Returns the rows so far as an Arrow batch of the table, in the order of frames, and forgets them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        parts = [self._of_groups()] if self.rows else []
        parts += [self._of_many(many) for many in self._many]
        self._clear()
        if len(parts) == 1:
            ((of_frame, arrays),) = parts
        else:
            of_frame = pa.concat_arrays([numbers for numbers, _ in parts])
            order = pc.array_sort_indices(of_frame)
            of_frame = of_frame.take(order)
            columns = zip(*(arrays for _, arrays in parts), strict=True)
            arrays = [pa.concat_arrays(column).take(order) for column in columns]
        heads = self._heads
        # a table of frames has one row for each
        if len(of_frame) != len(heads[0]) or not of_frame.equals(pa.array(range(len(of_frame)), pa.int32())):
            heads = [head.take(of_frame) for head in heads]
        return pa.RecordBatch.from_arrays([*heads, *arrays], self._decoder.table.names)

    def _of_groups(self) -> tuple[Any, list[Any]]:
        """The number of each row's frame, and the columns behind those of the frame, of the rows of groups."""
        import pyarrow as pa
        import pyarrow.compute as pc

        decoder, groups = self._decoder, self._groups
        counts = [len(group.rows) for group in groups]
        of_group = _repeated(range(len(groups)), counts)
        shared = _columns(decoder.shared, [group.shared for group in groups])
        arrays = [pc.take(column, of_group) for column in shared]
        arrays += _columns(decoder.own, self.rows)
        arrays.append(pc.take(pa.array([group.unread for group in groups], pa.string()), of_group))
        if len(groups) == len(self._frames):
            return _repeated(self._frames, counts), arrays
        rows = [*map(range, accumulate(counts, initial=0), accumulate(counts))]
        of_row = pa.array(chain.from_iterable(map(rows.__getitem__, self._of_frames)), pa.int32())
        of_frame = _repeated(self._frames, map(counts.__getitem__, self._of_frames))
        return of_frame, [column.take(of_row) for column in arrays]

    def _of_many(self, many: Many) -> tuple[Any, list[Any]]:
        """As `_of_groups`, of rows of many frames."""
        import pyarrow as pa

        numbers, columns = many
        declared = (*self._decoder.shared, *self._decoder.own)
        pairs = zip(declared, columns, strict=True)
        arrays = [
            pa.nulls(len(numbers), arrow_type(column.kind)) if values is None else _column(column, values)
            for column, values in pairs
        ]
        return pa.array(numbers, pa.int32()), [*arrays, pa.nulls(len(numbers), pa.string())]


def _columns(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Returns the rows' first values as Arrow columns, one for each declared column; further values are ignored."""
    return [_column(column, values) for column, values in zip(columns, zip(*rows, strict=False), strict=False)]


def _column(column: Column, values: Any) -> Any:
    """`values`: a tuple, or an array of numpy or Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.kind == HEADERS:
        return _headers(values)
    kind = arrow_type(column.kind)
    found = values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
    return pc.if_else(pc.less(found, 0), None, found) if column.is_never_negative else found


def _headers(values: tuple[Any, ...]) -> Any:
    """A column of lists of (name, value) pairs, without an object for each list: most are empty."""
    import pyarrow as pa

    kind = arrow_type(HEADERS)
    pairs = [*chain.from_iterable(filter(None, values))]
    fields = [pa.array([pair[at] for pair in pairs], kind.value_type[at].type) for at in (0, 1)]
    structs = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    ends = accumulate((len(one or ()) for one in values), initial=0)
    mask = pa.array([one is None for one in values]) if None in values else None
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs, type=kind, mask=mask)


def _repeated(values: Iterable[int], counts: Iterable[int]) -> Any:
    """Each value as often as its count says."""
    import pyarrow as pa

    return pa.array(chain.from_iterable(map(repeat, values, counts)), pa.int32())
