"""What a capture's facts say of its frames, so that readers need not open them.

Facts tell of a row (`KnownRow`) the errors of an answer, and what a frame says of partitions. If they lack anything of
a frame, or could not read it, its reader opens the frame. Facts also tell which exchanges may pass a filter
(`narrowed`): only their heads are read. These may be more than those that pass.

Files without facts are read as ever. An exchange may begin in a file with facts and end in one without, so exchanges
of which facts know one frame only are always read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, groupby
from operator import and_, itemgetter, or_
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from proxy.wire import apis
from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from proxy.wire.error_reader import Unread
from proxy.wire.errors import OverBudget
from proxy.wire.long_polls import Wait
from recorder.capture import frames as c
from recorder.capture.reader import READING, CaptureFile, Row
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.response_errors import ResponseErrors, unread_wait
from recorder.facts.rows import SIDE, UNREAD
from recorder.facts.schema import arrow_type
from recorder.facts.tables import FRAME_FACTS
from recorder.facts.topic_partitions import PARTITION_FACTS
from recorder.facts.topics import PARTITION_APIS
from recorder.facts_at_hand import FactFiles
from recorder.query.evaluation import UNKNOWN, Element, Subject, predicate
from recorder.query.fields import OF_ELEMENTS
from recorder.query.syntax import Comparison, Node, Or, names, required
from recorder.reading.elements import FIELD_OF_COLUMN, unknown_element

# the tables that are read here
TABLES_READ = (FRAME_FACTS.name, PARTITION_FACTS.name, ANSWERED_NAMES.name)
# Fields of elements that the facts of partitions have. What is said of a whole frame, such as its group, is not among
# them: a frame that names no partition says it, too.
OF_PARTITIONS = (OF_ELEMENTS & {*FIELD_OF_COLUMN.values()}) - {"group", "transactional_id"}
# the columns that name a partition
_PLACE = ("topic", "topic_id", "partition")
# Reasons of facts that a reader looks into by itself: it may spend more or less, and knows why a body is missing.
_NOT_FINAL = (Unread.TOO_LARGE.value, Unread.OVER_BUDGET.value, Unread.OMITTED.value)
# Two numbers as one. Those of a recorder's captures don't collide. In others one may stand for several frames, so what
# is told of a frame by its number is told only if all of its key is the same.
_FACTOR = pa.scalar(1_000_003, pa.int64())
_SAME = (c.SESSION, c.CONNECTION, c.SEQUENCE)
# more than an API has versions
_VERSIONS = 1 << 16
_NAMES = pa.array(apis.api_name(key) for key in apis.api_keys())
# rows that become Python values at a time
_AT_ONCE = 1024
# what a frame says of partitions, by the names of a filter's fields; None: not all is known
Partitions = list[dict[str, Any]] | None
# the attributes of a `KnownRow`
Further = tuple[ResponseErrors | None, Partitions]
# a row's position, and its partitions
Listed = tuple[int, Partitions]
_NONE_YET: Listed = (-1, None)
_NO_MORE: Listed = (1 << 62, None)


class KnownRow(dict[str, Any]):
    """A row of which facts tell more.

    Attributes:
        answered: the errors of an answer, and its wait; None: not known.
        partitions: of an API about partitions: what the frame says of each; None: not known, or not wanted.
    """

    __slots__ = ("answered", "partitions")

    def __init__(self, row: Iterable[tuple[str, Any]], answered: ResponseErrors | None, partitions: Partitions) -> None:
        super().__init__(row)
        self.answered, self.partitions = answered, partitions


def answered(row: Row) -> ResponseErrors | None:
    """The errors of an answer, and its wait, as facts tell them; None: they don't."""
    return row.answered if isinstance(row, KnownRow) else None


def partitions(row: Row) -> Partitions:
    """What a frame says of partitions, as facts tell it; None: they don't."""
    return row.partitions if isinstance(row, KnownRow) else None


def _number(of: Any, other: str) -> Any:
    """A connection's number and another one as one number."""
    return pc.add(pc.multiply(of[c.CONNECTION], _FACTOR), of[other])


class _Seen(NamedTuple):
    """Exchanges, by their numbers, of the files of a session.

    `answers`, `requests`: those of which this frame alone is known, or the other one is of another API or version.
    `failed`: those whose answers have error codes, or may have some.
    """

    answers: Any
    requests: Any
    failed: Any


class Known:
    """A capture's facts. A file of frames whose facts can't be read, or take too much memory, counts as without.

    `files`: by the path of each file of frames. `most`: the limit in bytes of memory for a table of a file's facts.
    """

    def __init__(self, files: FactFiles, most: int = DEFAULT_BUDGET) -> None:
        self._files, self._most = files, most
        self._unusable: set[str] = set()

    def has(self, file: CaptureFile) -> bool:
        """True if the file's facts are at hand."""
        return str(file.path) not in self._unusable and str(file.path) in self._files

    def read(self, file: CaptureFile, table: str, columns: Sequence[str], where: Any = None) -> Any | None:
        """The rows of a table of a file's facts; None if there are no facts, or if they can't be read.

        `where`: an expression over `columns`.
        """
        if not self.has(file):
            return None
        paths = self._files[str(file.path)]
        try:
            return _read(paths.get(table), table, columns, where, Allowance(READING, self._most))
        except (pa.ArrowException, OSError, KeyError, OverBudget):
            self._unusable.add(str(file.path))
            return None

    def of_rows(self, file: CaptureFile, heads: Any, fields: Collection[str]) -> Iterator[Further] | None:
        """What facts tell of each row of `heads`, which are rows of the file; None: nothing.

        `fields`: those of elements that are wanted. Partitions are told if all of these are OF_PARTITIONS.
        """
        facts = self._aligned(file, heads)
        if facts is None:
            return None
        if not fields or not OF_PARTITIONS.issuperset(fields):
            return _further(facts, heads, None)
        columns = {column: name for column, name in FIELD_OF_COLUMN.items() if column in _PLACE or name in fields}
        listed = self._partitions(file, heads, columns)
        return None if listed is None else _further(facts, heads, listed)

    def _aligned(self, file: CaptureFile, heads: Any) -> Any | None:
        """The facts of frames, a row for each row of `heads`, with nulls where there are none."""
        wanted = _number(heads, c.SEQUENCE)
        found = self.read(file, FRAME_FACTS.name, [*_SAME, "error_codes", "wait", "partitions", "unopened", UNREAD])
        if found is None:
            return None
        if len(heads) < len(found):
            found = found.filter(pc.is_in(_number(found, c.SEQUENCE), value_set=wanted, skip_nulls=True))
        keys = _number(found, c.SEQUENCE)
        if any(pc.count_distinct(numbers).as_py() < len(numbers) for numbers in (keys, wanted)):
            return None
        aligned = found.take(pc.index_in(wanted, value_set=keys, skip_nulls=True))
        return aligned.append_column("_known", _are_same(aligned, heads))

    def _partitions(self, file: CaptureFile, heads: Any, columns: Mapping[str, str]) -> Iterator[Listed] | None:
        """The partitions that frames name, by the positions of their rows in `heads`; None: facts don't tell."""
        found = self.read(file, PARTITION_FACTS.name, [*_SAME, UNREAD, *columns])
        if found is None:
            return None
        at = pc.index_in(_number(found, c.SEQUENCE), value_set=_number(heads, c.SEQUENCE), skip_nulls=True)
        of_heads = pc.is_valid(at)
        found, at = found.filter(of_heads), at.filter(of_heads)
        found = found.append_column("_at", at).filter(_are_same(found, heads.select(_SAME).take(at)))
        return _listed(found.take(pc.sort_indices(found["_at"])), columns)

    def narrowed(
        self,
        files: Sequence[CaptureFile],
        nodes: Sequence[Node],
        topics: Mapping[str, str],
        where: Any,
        also: Any = None,
    ) -> Callable[[CaptureFile], Any]:
        """For each file of a session, an expression for the frames of exchanges that may pass a filter.

        Args:
            nodes: filters, of which one must pass an exchange.
            topics: the names of topics by their ids.
            where: the expression for all wanted frames; None: all.
            also: of these, frames that are wanted anyway.
        """
        known = frozenset(file.path for file in files if self.has(file))
        passing = self._passing([file for file in files if file.path in known], nodes, topics, len(known) == len(files))
        if passing is None:
            return lambda _: where
        if also is not None:
            passing |= also
        chosen = passing if where is None else where & passing
        return lambda file: chosen if file.path in known else where

    def _passing(
        self, files: Sequence[CaptureFile], nodes: Sequence[Node], topics: Mapping[str, str], are_all: bool
    ) -> Any:
        """An expression for the frames of exchanges that may pass; None: facts don't tell. `are_all`: of a session."""
        asked = [_conditions(node) for node in nodes]
        if not files or not all(any(conditions) for conditions in asked):
            return None
        seen = self._seen(files)
        places = [self._of_places(files, part, topics) for part, _ in asked]
        if seen is None or any(found is None for found in places):
            return None
        # an answer's request may have been lost. A request's answer may be in a file without facts
        alone = seen.answers if are_all else pa.concat_arrays([seen.answers, seen.requests])
        every = zip(places, asked, strict=True)
        found = [_may_pass(of_places, conditions, alone, seen.failed) for of_places, conditions in every]
        return reduce(or_, found) | ds.field(c.EXCHANGE).is_null()

    def _seen(self, files: Iterable[CaptureFile]) -> _Seen | None:
        """What exchanges there are; None: a file's facts can't be read, or all of them take too much memory."""
        numbers: dict[bool, list[Any]] = {True: [], False: []}
        kinds: dict[bool, list[Any]] = {True: [], False: []}
        failed: list[Any] = []
        allowance = Allowance(READING, self._most)
        for file in files:
            columns = [c.CONNECTION, c.EXCHANGE, SIDE, c.API, c.API_VERSION, "error_codes", UNREAD]
            found = self.read(file, FRAME_FACTS.name, columns)
            if found is None or not allowance.try_take(2 * found[c.EXCHANGE].nbytes):
                return None
            number, is_answer = _number(found, c.EXCHANGE), pc.equal(found[SIDE], c.RESPONSE)
            kind = pc.add(pc.multiply(number, _FACTOR), _kind(found))
            for answers, which in ((True, is_answer), (False, pc.invert(is_answer))):
                numbers[answers] += number.filter(which).chunks
                kinds[answers] += kind.filter(which).chunks
            has_codes = pc.fill_null(pc.greater(pc.list_value_length(found["error_codes"]), 0), True)
            failed += number.filter(pc.and_(is_answer, pc.or_(has_codes, pc.is_valid(found[UNREAD])))).chunks
        both = {answers: _one_array(chunks) for answers, chunks in kinds.items()}
        answered, asked = (
            _one_array(numbers[answers]).filter(pc.invert(pc.is_in(both[answers], value_set=both[not answers])))
            for answers in (True, False)
        )
        return _Seen(answered, asked, _one_array(failed))

    def _of_places(self, files: Iterable[CaptureFile], parts: Sequence[Node], topics: Mapping[str, str]) -> Any:
        """The exchanges whose partitions may meet each of the conditions; False without any; None: can't be told."""
        if not parts:
            return False
        found = []
        for file in files:
            rows = self.read(file, PARTITION_FACTS.name, [c.CONNECTION, c.EXCHANGE, UNREAD, *_PLACE])
            if rows is None:
                return None
            may = reduce(pc.and_, (_may_meet(rows, part, topics) for part in parts))
            found += _number(rows, c.EXCHANGE).filter(pc.or_(may, pc.is_valid(rows[UNREAD]))).chunks
        return _one_array(found)

    def names(self, file: CaptureFile) -> dict[str, str] | None:
        """The names of topics by their ids, by answers in a file; None: facts don't tell."""
        columns = [c.AT, c.CONNECTION, c.SEQUENCE, "topic", "topic_id"]
        found = self.read(file, ANSWERED_NAMES.name, columns, ds.field("topic").is_valid())
        if found is None:
            return None
        found = found.sort_by([(name, "ascending") for name in (c.AT, c.CONNECTION, c.SEQUENCE)])
        return dict(zip(found["topic_id"].to_pylist(), found["topic"].to_pylist(), strict=True))

    def software(self, file: CaptureFile) -> dict[tuple[str, int], tuple[str, str | None]] | None:
        """Library and version by session and connection, by requests in a file; None: facts don't tell."""
        columns = [*_SAME, "software", "software_version"]
        found = self.read(file, FRAME_FACTS.name, columns, ds.field("software") != "")
        if found is None:
            return None
        rows = found.sort_by([(name, "ascending") for name in _SAME]).to_pylist()
        return {(row[c.SESSION], row[c.CONNECTION]): (row["software"], row["software_version"] or None) for row in rows}


NO_FACTS = Known({})


def _read(path: str | None, table: str, columns: Sequence[str], where: Any, allowance: Allowance) -> Any:
    """The rows of a file of facts; none if the table has no file. Errors: pyarrow's, OSError, KeyError, OverBudget."""
    kinds = {column.name: column.kind for column in _COLUMNS[table]}
    schema = pa.schema([(name, arrow_type(kinds[name])) for name in columns])
    chosen = [schema.empty_table()]
    if path is not None:
        with pq.ParquetFile(path, page_checksum_verification=True) as opened:
            for at in range(opened.num_row_groups):
                group = opened.read_row_group(at, columns).select(columns).cast(schema)
                chosen.append(group if where is None else group.filter(where))
                allowance.take(chosen[-1].nbytes)
    return pa.concat_tables(chosen)


_COLUMNS = {one.name: one.table.columns for one in (FRAME_FACTS, PARTITION_FACTS, ANSWERED_NAMES)}


def _are_same(facts: Any, heads: Any) -> Any:
    """True for each row of facts that is of the frame in the same row of `heads`."""
    same = (pc.fill_null(pc.equal(facts[name], heads[name]), False) for name in _SAME)
    return reduce(pc.and_, same)


def _kind(frames: Any) -> Any:
    """A number for the API and version of each frame."""
    versions = pc.fill_null(frames[c.API_VERSION].cast(pa.int64()), -1)
    names = pc.fill_null(pc.index_in(frames[c.API], value_set=_NAMES).cast(pa.int64()), -1)
    return pc.add(pc.multiply(names, pa.scalar(_VERSIONS, pa.int64())), versions)


def _one_array(chunks: Sequence[Any]) -> Any:
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.int64())


def _listed(rows: Any, columns: Mapping[str, str]) -> Iterator[Listed]:
    """As of `Known._partitions`. `rows`: in the order of their positions."""
    fields = [*columns.values()]
    batches = rows.select(["_at", UNREAD, *columns]).to_batches(_AT_ONCE)
    cells = (zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch in batches)
    for at, named in groupby(chain.from_iterable(cells), itemgetter(0)):
        elements: Partitions = []
        for _, unread, *values in named:
            if unread is not None or elements is None:
                elements = None
                continue
            each = zip(fields, values, strict=True)
            elements.append({name: value for name, value in each if value is not None})
        yield at, elements


def _further(facts: Any, heads: Any, listed: Iterator[Listed] | None) -> Iterator[Further]:
    """What facts tell of each row. `facts`: a row for each row of `heads`."""
    of_heads, of_facts = (c.KIND, c.DIALECT, c.API_KEY), ("_known", "error_codes", "wait", UNREAD, "partitions")
    both = [*(heads[name] for name in of_heads), *(facts[name] for name in (*of_facts, "unopened"))]
    at, elements = _NONE_YET
    for begin in range(0, len(heads), _AT_ONCE):
        values = (column.slice(begin, _AT_ONCE).to_pylist() for column in both)
        for number, (kind, dialect, key, is_known, codes, wait, unread, named, unopened) in enumerate(
            zip(*values, strict=True), begin
        ):
            errors = _answered(dialect, key, codes, wait, unread) if is_known and kind == c.RESPONSE else None
            is_told = is_known and named is not None and unread is None and unopened is None
            if listed is None or not is_told or (kind == c.RESPONSE and errors is None):
                yield errors, None
                continue
            while at < number:
                at, elements = next(listed, _NO_MORE)
            mine = elements if at == number else []
            yield errors, mine if mine is not None and _have_all_errors(mine, codes) else None


def _answered(
    dialect: str, key: int, codes: list[int] | None, wait: str | None, unread: str | None
) -> ResponseErrors | None:
    """The errors of an answer, as `row_errors` tells them; None: facts don't tell."""
    if unread is not None:
        return None if unread in _NOT_FINAL else ResponseErrors([], Unread(unread), unread_wait(dialect, key))
    return None if codes is None else ResponseErrors(codes, None, None if wait is None else Wait(wait))


def _have_all_errors(elements: list[dict[str, Any]], codes: list[int] | None) -> bool:
    """True if all error codes of an answer are those of its partitions. `codes`: None or [] without any."""
    if not codes:
        return True
    # a code counts for all elements of one place: facts don't tell how a message reads that names one twice
    places = {(each.get("topic"), each.get("topic_id"), each["partition"]) for each in elements}
    return len(places) == len(elements) and Counter(codes) == Counter(
        each["error"] for each in elements if each.get("error")
    )


def _conditions(node: Node) -> tuple[list[Node], list[Node]]:
    """The conditions on an element of which facts tell if anything can meet them: on its place, and on its error."""
    plain = [part for part in required(node) if _is_plain(part)]
    places = [part for part in plain if names(part) in ({"topic"}, {"partition"})]
    no_error = Subject({}, ({"error": 0},))
    return places, [part for part in plain if names(part) == {"error"} and predicate(part)(no_error) is False]


def _is_plain(part: Node) -> bool:
    return isinstance(part, Comparison) or (isinstance(part, Or) and all(map(_is_plain, part.parts)))


def _may_meet(rows: Any, part: Node, topics: Mapping[str, str]) -> Any:
    """True for each row of the partitions' facts that may meet a condition on a topic or on a partition."""
    passes = predicate(part)

    def may(element: Element) -> bool:
        return passes(Subject({}, (element,))) is not False

    def distinct(column: str, chosen: Any) -> list[Any]:
        found: list[Any] = rows[column].filter(chosen).unique().to_pylist()
        return found

    def among(column: str, values: Sequence[Any]) -> Any:
        return pc.is_in(rows[column], value_set=pa.array(values, rows[column].type))

    if names(part) == {"partition"}:
        numbers = distinct("partition", pc.is_valid(rows["partition"]))
        return among("partition", [number for number in numbers if may({"partition": number})])
    is_named = pc.is_valid(rows["topic"])
    by_id = pc.and_(pc.invert(is_named), pc.is_valid(rows["topic_id"]))
    named = [name for name in distinct("topic", is_named) if may({"topic": name})]
    ids = [each for each in distinct("topic_id", by_id) if may({"topic": topics.get(each, UNKNOWN)})]
    return pc.or_(among("topic", named), pc.and_(by_id, among("topic_id", ids)))


def _may_pass(of_places: Any, conditions: tuple[list[Node], list[Node]], alone: Any, failed: Any) -> Any:
    """An expression for one filter. Args: as of `Known.narrowed`."""
    number, of_kafka = _number(_HEAD, c.EXCHANGE), _HEAD[c.DIALECT] == c.KAFKA
    places, errors = conditions
    needed = [number.isin(failed)] if errors else []
    if places:
        is_about = of_kafka & _HEAD[c.API_KEY].isin(PARTITION_APIS)
        names_none = of_kafka & (
            _HEAD[c.API_KEY].cast(pa.int32()) * _VERSIONS + _HEAD[c.API_VERSION].cast(pa.int32())
        ).isin(_without(places))
        needed.append(~(is_about | names_none) | number.isin(of_places))
    return number.isin(alone) | reduce(and_, needed)


def _without(parts: Sequence[Node]) -> list[int]:
    """The versions of APIs of which no element meets one of the conditions, whatever a frame says."""
    every = [predicate(part) for part in parts]
    return [
        key * _VERSIONS + version
        for key in apis.api_keys()
        if key not in PARTITION_APIS
        for version in apis.versions(key)
        if any(passes(Subject({}, (unknown_element(c.KAFKA, key, version),))) is False for passes in every)
    ]


class _Fields(dict[str, Any]):
    """The columns of heads, as fields of expressions."""

    def __missing__(self, name: str) -> Any:
        return ds.field(name)


_HEAD = _Fields()
