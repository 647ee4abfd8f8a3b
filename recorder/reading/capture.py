"""A capture to read from Python: `recorder.open(FOLDER)`. What `kafka-wiretap inspect` stands on.

    import recorder

    capture = recorder.open("capture")
    for exchange in capture.exchanges('api == Produce and topic ~ "ord*" and error'):
        print(exchange.head["client_id"], exchange.outcome)

Filters are texts in the filter language (`recorder.query`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from proxy.wire.budget import DEFAULT_BUDGET, Budget
from recorder.capture import frames as c
from recorder.capture.fact_files import State, hour_key, state_of, stems
from recorder.capture.partitions import FACTS_FOLDER
from recorder.capture.reader import Row, files, last_ns
from recorder.capture.remote import Place, S3Path, file_system_of, place_at, size_of
from recorder.capture.session import is_live, sessions
from recorder.facts.frame import opened
from recorder.facts.rows import frame_of
from recorder.facts.tables import TABLES
from recorder.facts_at_hand import facts_at_hand
from recorder.query.evaluation import Element
from recorder.query.language import parse
from recorder.query.shorthand import Filter
from recorder.query.syntax import EVERYTHING, Node, resolved
from recorder.reading import passing
from recorder.reading.elements import Told, shown
from recorder.reading.exchanges import Pair
from recorder.reading.known import TABLES_READ, Known
from recorder.reading.passing import Judge, Unsure, judge
from recorder.reading.rows import Choice, none
from recorder.ready import ready_at

if TYPE_CHECKING:
    from recorder.reading.records import LogRecord, Text

Item = TypeVar("Item")
# bytes of frames; fewer are read in so little time that facts spare less than a start of Python takes
WORTHWHILE = 16 << 20


class Judged:
    """What a filter tells of what it passes."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def unsure(self) -> Unsure:
        """What may have passed, among those looked at so far: something of it is masked or can't be read."""
        return self._judge.unsure

    @property
    def told(self) -> Told:
        """What other frames have told so far. It may grow."""
        return self._judge.told

    def head(self, pair: Pair) -> dict[str, Any]:
        """What a filter may ask of an exchange's head, by the names of fields."""
        return self._judge.head(pair)

    def elements(self, pair: Pair) -> list[Element]:
        """The elements of an exchange that meet the filter, by the names of fields that were asked for."""
        return self._judge.elements(pair)

    def values(self, item: Pair | Row, columns: Sequence[str]) -> dict[str, Any]:
        """The values of fields of an exchange or a frame; of elements those that pass, as a list.

        `columns`: names of fields; those of elements must have been asked for.
        """
        return self._judge.values(item, columns) if isinstance(item, Pair) else self._judge.frame_values(item, columns)


class Passed(Judged, Generic[Item]):
    """What passes a filter, one by one, once."""

    def __init__(self, items: Iterator[Item], judge: Judge) -> None:
        super().__init__(judge)
        self._items = items

    def __iter__(self) -> Iterator[Item]:
        return self._items

    def __next__(self) -> Item:
        return next(self._items)


class Capture:
    """A capture. Nothing is read before it is asked for, and everything streams.

    Attributes:
        folder: where it is.
        notes: sentences on frames that are not in its files (yet).
        budget: the limit in bytes of memory for what is read at a time.
    """

    def __init__(self, folder: Place, notes: list[str], budget: int = DEFAULT_BUDGET) -> None:
        self.folder, self.notes, self.budget = folder, notes, budget

    @property
    def frames(self) -> Any:
        """The frames as a `pyarrow.dataset.Dataset`, with the columns of docs/capture.md.

        Errors: DamagedFileError, UnknownFormatError.
        """
        return self._dataset([file.path for file in files(self.folder)], c.frames_schema())

    def facts(self, table: str) -> Any:
        """A table of the facts that the capture keeps (docs/tables.md), as a `pyarrow.dataset.Dataset`.

        It has the rows that `kafka-wiretap facts` has made so far, and that belong to the capture's frames. Those of a
        capture in a bucket are copied or made, and kept on this machine as long as the process lives; a note says so.
        Errors: KeyError for another name.
        """
        import pyarrow as pa

        from recorder.facts.schema import arrow_type

        columns = {one.name: one.table.columns for one in TABLES}[table]
        schema = pa.schema([(column.name, arrow_type(column.kind)) for column in columns])
        return self._dataset(self._facts_files(table), schema)

    def _facts_files(self, table: str) -> list[Place]:
        """A table's files of the facts that count."""
        if isinstance(self.folder, S3Path):
            from recorder.facts_at_hand import facts_at_hand

            found = facts_at_hand(self.folder)
            self.notes += [found.made] if found.made else []
            return [Path(tables[table]) for tables in found.files.values() if table in tables]
        return _facts_files(self.folder, table)

    def _dataset(self, paths: list[Place], schema: Any) -> Any:
        import pyarrow.dataset as ds

        system = file_system_of(paths[0] if paths else self.folder)[0]
        return ds.dataset([file_system_of(path)[1] for path in paths], schema, "parquet", system)

    def rows(self, where: str | Filter = "", *, bodies: Choice = none, columns: Collection[str] = ()) -> Passed[Row]:
        """Frames in the order of arrival, as dicts of all columns.

        Args:
            bodies: selects those that have their bytes.
            columns: fields of elements whose `values` the caller wants, besides those of the filter.
        Errors: FilterError, OverBudget, DamagedFileError, UnknownFormatError.
        """
        wanted, found = self.judge(where, columns)
        return Passed(passing.frames(self.folder, found, wanted, bodies=bodies, most=self.budget), found)

    def exchanges(
        self,
        where: str | Filter = "",
        *,
        columns: Collection[str] = (),
        with_normal: Node | None = None,
        brief: bool = False,
        bodies: Choice = none,
    ) -> Passed[Pair]:
        """Exchanges in the order in which they end; those without an end come last.

        Args:
            columns: as of `rows`.
            with_normal: a filter that exchanges pass which only an error that is a normal step keeps from passing.
            brief: nothing is wanted but fields of filters: rows lack the columns that have none, and `allowed_ms`
                stays unknown, for which requests of long polls are opened.
            bodies: selects the frames that have their bytes. A request keeps them until its response comes.
        Errors: as of `rows`.
        """
        wanted, found = self.judge(where, columns, with_normal)
        made = passing.exchanges(self.folder, found, wanted, brief=brief, bodies=bodies, most=self.budget)
        return Passed(made, found)

    def records(
        self, where: str | Filter = "", *, grep: re.Pattern[str] | None = None, text: Text = shown
    ) -> Passed[LogRecord]:
        """Records of the logs in the order of topic, partition and offset: who produced each, who fetched it.

        A record passes where it was produced, or where it was fetched. The records that pass are kept until all of the
        capture was read.

        Args:
            grep: what its key, value or a header must match besides.
            text: what makes texts of keys and values, such as `schemas.schemas_at(…).text`.
        Errors: as of `rows`.
        """
        from recorder.reading.records import log_records, matching

        wanted, found = self.judge(where)
        matches = None if grep is None else matching(grep)
        every = log_records(
            self.folder, wanted, found.unsure, matches=matches, known=self._known, most=self.budget, text=text
        )
        return Passed(every, found)

    def values(self, row: Row) -> dict[str, Any]:
        """The decoded values of a frame that has its bytes. Errors: Unreadable."""
        return opened(frame_of(row), Budget(self.budget))

    def make_facts(self) -> str | None:
        """Makes the facts that are missing, where later questions gain by them: of a finished capture on this machine.

        Returns a line that says what was made. A first question about all of the capture takes little longer by it.
        Errors: DamagedFileError, UnknownFormatError.
        """
        if isinstance(self.folder, S3Path) or any(is_live(self.folder, session) for session in sessions(self.folder)):
            return None
        if sum(size_of(file.path) for file in files(self.folder)) < WORTHWHILE:
            return None
        found = facts_at_hand(self.folder, tables=TABLES_READ)
        self._known = Known(found.files, self.budget)
        return found.made

    def filter(self, where: str | Filter) -> Filter:
        """The filter of a text, with its times as ns since 1970. An empty text passes everything.

        Errors: as of `rows`.
        """
        given = where if isinstance(where, Filter) else Filter(parse(where) if where else EVERYTHING)
        return replace(given, node=resolved(given.node, self.last_ns))

    def last_ns(self) -> int:
        """When the last frame arrived, in ns since 1970; 0 if there is none. Errors: as of `rows`."""
        return last_ns(self.folder, most=self.budget)

    def judge(
        self, where: str | Filter, columns: Collection[str] = (), with_normal: Node | None = None
    ) -> tuple[Node, Judge]:
        """A filter's tree, and what applies it. Arguments, errors: as of `exchanges`."""
        wanted = self.filter(where)
        made = judge(
            self.folder, wanted, frozenset(columns), known=self._known, most=self.budget, with_normal=with_normal
        )
        return wanted.node, made

    @cached_property
    def _known(self) -> Known:
        return Known(facts_at_hand(self.folder, make=False, tables=TABLES_READ).files, self.budget)


class GrowingCapture(Capture):
    """A capture that is followed while it is recorded: its last frame is always of now."""

    def last_ns(self) -> int:
        """The time, in ns since 1970."""
        return time.time_ns()


def open(folder: str | Path, *, budget: int = DEFAULT_BUDGET) -> Capture:
    """Opens a capture: a folder, or `s3://bucket/folder`. Finished sessions of a folder are compacted first.

    `budget`: as of `Capture`. Errors: NoCapture, in a sentence.
    """
    place = place_at(folder) if isinstance(folder, str) else folder
    return Capture(place, ready_at(place), budget)


def _facts_files(folder: Path, table: str) -> list[Place]:
    current = (stem for stem in stems(folder) if state_of(folder, stem) is State.CURRENT)
    paths = (folder / FACTS_FOLDER / table / hour_key(file) / file.path.name for stem in current for file in stem.files)
    return [path for path in paths if path.exists()]
