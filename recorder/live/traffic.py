"""Counts by topic, by client id and by client software, from tables of frames.

What a frame says of topics is read by `recorder.facts`: plain Produces and Fetches thousands at a time. A table is
summed up by Arrow first, so that Python sees a row for each topic of a table, not for each frame.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from proxy.wire import keys
from proxy.wire.apis import name_or_key
from proxy.wire.error_codes import ERRORS
from proxy.wire.normal_errors import is_normal
from recorder.capture import frames as c
from recorder.facts.rows import SIDE
from recorder.labels import OTHER, UNKNOWN, Labelled, cut, topic_name
from recorder.reading.elements import Told

PRODUCE, FETCH = (name_or_key(key) for key in (keys.PRODUCE, keys.FETCH))


@dataclass(slots=True)
class TopicRow:
    """What passed of a topic. `errors`: by API and the error's name."""

    produced_bytes: int = 0
    produced_records: int = 0
    fetched_bytes: int = 0
    fetched_records: int = 0
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class ClientRow:
    """What passed of a client. Sizes are bytes of frames. `errors`: by API and the error's name."""

    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)


# cluster, and topic or client id; cluster, software and its version
Named = tuple[str, str]
Software = tuple[str, str, str]


class Clients:
    """Counts frames by client id and by software; `most`: of each."""

    def __init__(self, most: int, told: Told, clock: Callable[[], float] = time.monotonic) -> None:
        self.by_id = Labelled[Named, ClientRow](most, ClientRow, (OTHER, OTHER))
        self.by_software = Labelled[Software, ClientRow](most, ClientRow, (OTHER, OTHER, OTHER))
        self._told, self._clock = told, clock

    def read(self, frames: Any) -> None:
        """Counts a table of frames."""
        now = self._clock()
        for of, software, is_request, count, size in self._sums(frames):
            cluster, client_id = of
            rows = (
                self.by_id.at((cluster, cut(client_id or UNKNOWN)), now),
                self.by_software.at((cluster, cut(software[0] or UNKNOWN), cut(software[1] or UNKNOWN)), now),
            )
            for row in rows:
                if is_request:
                    row.requests += count
                    row.request_bytes += size
                else:
                    row.response_bytes += size

    def read_errors(self, facts: Any) -> None:
        """Counts the errors in a batch of facts, of whatever kind, by client id."""
        now = self._clock()
        for (cluster, client_id), error, count in _errors(pa.Table.from_batches([facts]), "cluster", "client_id"):
            self.by_id.at((cluster or UNKNOWN, cut(client_id or UNKNOWN)), now).errors[error] += count

    def _sums(self, frames: Any) -> Iterator[tuple[Any, tuple[str | None, str | None], bool, int, int]]:
        names = (c.CLUSTER, c.CLIENT_ID, c.SESSION, c.CONNECTION, c.KIND)
        sums = frames.select([*names, c.SIZE]).group_by([*names]).aggregate([(c.SIZE, "count"), (c.SIZE, "sum")])
        columns = (sums[name].to_pylist() for name in (*names, f"{c.SIZE}_count", f"{c.SIZE}_sum"))
        for cluster, client_id, session, connection, kind, count, size in zip(*columns, strict=True):
            if kind in (c.REQUEST, c.RESPONSE):
                software = self._told.software_of((session, connection))
                yield (cluster or UNKNOWN, client_id), software, kind == c.REQUEST, count, size or 0


class Topics:
    """Counts what was produced and fetched by topic, and errors; `most`: topics."""

    def __init__(self, most: int, told: Told, clock: Callable[[], float] = time.monotonic) -> None:
        self.rows = Labelled[Named, TopicRow](most, TopicRow, (OTHER, OTHER))
        self._told, self._clock = told, clock

    def read(self, facts: Any) -> None:
        """Counts a batch of the facts of partitions, or of topics' errors (PARTITION_FACTS, TOPIC_ERROR_FACTS)."""
        table, row_of = pa.Table.from_batches([facts]), partial(self._row, self._clock())
        if "records" in table.column_names:
            self._count_records(table.filter(pc.is_in(table["api"], value_set=pa.array([PRODUCE, FETCH]))), row_of)
        for of, error, count in _errors(table, "cluster", "topic", "topic_id"):
            row_of(*of).errors[error] += count

    def _count_records(self, table: Any, row_of: Callable[[Any, Any, Any], TopicRow]) -> None:
        names = ("cluster", "topic", "topic_id", "api", SIDE)
        sums = (
            table.select([*names, "bytes", "records"])
            .group_by([*names])
            .aggregate([("bytes", "sum"), ("records", "sum")])
        )
        for one in sums.to_pylist():
            row = row_of(one["cluster"], one["topic"], one["topic_id"])
            size, records = one["bytes_sum"] or 0, one["records_sum"] or 0
            if (one["api"], one[SIDE]) == (PRODUCE, c.REQUEST):
                row.produced_bytes += size
                row.produced_records += records
            elif (one["api"], one[SIDE]) == (FETCH, c.RESPONSE):
                row.fetched_bytes += size
                row.fetched_records += records

    def _row(self, now: float, cluster: str | None, topic: str | None, topic_id: str | None) -> TopicRow:
        return self.rows.at((cluster or UNKNOWN, topic_name(self._told, topic, topic_id)), now)


def _errors(table: Any, *names: str) -> Iterator[tuple[tuple[Any, ...], tuple[str, str], int]]:
    """The errors in facts that are no normal step: values of the named columns, API and error, and how many."""
    failed = pc.fill_null(pc.not_equal(table["error_code"], 0), False)
    if not pc.any(failed).as_py():
        return
    columns = [*names, "api", "error_code"]
    for one in table.filter(failed).select(columns).group_by(columns).aggregate([([], "count_all")]).to_pylist():
        code = one["error_code"]
        if not is_normal(None, code):
            error = ERRORS[code].name if code in ERRORS else OTHER
            yield tuple(one[name] for name in names), (one["api"] or OTHER, error), one["count_all"]
