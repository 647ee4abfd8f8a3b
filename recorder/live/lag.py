"""Reads tables of facts for groups' lag: what groups commit, and where logs end.

The sides of an exchange may come in different tables, and workers' logs are read one after the other. So the side that
came first waits for the other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from proxy.wire import keys
from proxy.wire.apis import name_or_key
from recorder.bounded import Bounded
from recorder.capture import frames as c
from recorder.facts.rows import SIDE
from recorder.group_lag import GroupLag, Partition, Standing
from recorder.labels import UNKNOWN, topic_name
from recorder.live.traffic import FETCH, PRODUCE
from recorder.reading.elements import Told

LIST_OFFSETS = name_or_key(keys.LIST_OFFSETS)
# halves of exchanges that wait for the other one, and rows of all of them, each of about a KiB
MOST_HALVES, MOST_ROWS = 10_000, 50_000
# in ListOffsets: the timestamp that stands for the log's end
_LATEST = -1


class LagReader:
    """Groups' lag, from facts. `most`: the most places of groups, and the most partitions. `clock`: since 1970."""

    def __init__(self, most: int, told: Told, clock: Callable[[], float]) -> None:
        self.lag = GroupLag(most, told)
        self._told, self._clock = told, clock
        # by exchange and kind of facts: the rows of the side that came first
        self._halves: Bounded[tuple[Any, ...], tuple[str, list[dict[str, Any]]]] = Bounded(
            MOST_HALVES, size=lambda of: len(of[1][1]), room=MOST_ROWS
        )

    @property
    def forgotten(self) -> Mapping[str, int]:
        """As of `GroupLag`, with halves of exchanges whose other half had not come."""
        return {**self.lag.forgotten, "exchange": self._halves.forgotten}

    def standings(self) -> Iterator[Standing]:
        """How each group does at each partition."""
        return self.lag.standings(self._clock())

    def read_partitions(self, facts: Any) -> None:
        """Learns where logs end, from a batch of PARTITION_FACTS of Produce, Fetch and ListOffsets."""
        table = pa.Table.from_batches([facts])
        self._read_fetched(table.filter(pc.equal(table["api"], FETCH)))
        rows = table.filter(pc.and_(pc.is_in(table["api"], pa.array([PRODUCE, LIST_OFFSETS])), _is_answered(table)))
        for exchange, asked, told in self._pairs("partitions", rows, _OF_ENDS):
            answers = {_key(row): row for row in told}
            for row in asked:
                answer = answers.get(_key(row))
                end = None if answer is None or answer["error_code"] else _end(row, answer)
                if end is not None:
                    self.lag.note_end(self._partition(exchange[0], row), end, _seconds(told[0]["at"]))

    def _read_fetched(self, table: Any) -> None:
        names = ["cluster", "topic", "topic_id", "partition"]
        known = table.filter(pc.is_valid(table["high_watermark"])).select([*names, "high_watermark", "at"])
        highest = known.group_by(names).aggregate([("high_watermark", "max"), ("at", "max")])
        for row in highest.to_pylist():
            self.lag.note_end(self._partition(row["cluster"], row), row["high_watermark_max"], _seconds(row["at_max"]))

    def _partition(self, cluster: str | None, row: dict[str, Any]) -> Partition:
        return Partition(cluster or UNKNOWN, topic_name(self._told, row["topic"], row["topic_id"]), row["partition"])

    def read_groups(self, facts: Any) -> None:
        """Learns what is committed, from a batch of GROUP_STEPS that are about offsets."""
        for exchange, asked, told in self._pairs("groups", pa.Table.from_batches([facts]), _OF_COMMITS):
            self.lag.read(exchange[0], asked, told, _seconds(told[0]["at"]))

    def _pairs(
        self, of: str, table: Any, columns: Iterable[str]
    ) -> Iterator[tuple[tuple[Any, ...], list[dict[str, Any]], list[dict[str, Any]]]]:
        """Each exchange of which both sides have come, as (cluster, ...), the request's rows, the answer's rows."""
        sides: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in table.select([*_OF_EXCHANGE, *columns]).to_pylist():
            key = row["cluster"], row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE], of, row[SIDE]
            sides.setdefault(key, []).append(row)
        for (*exchange, side), rows in sides.items():
            earlier = self._halves.take(tuple(exchange))
            if earlier is None or earlier[0] == side:
                self._halves[tuple(exchange)] = side, rows
            else:
                asked, told = (rows, earlier[1]) if side == c.REQUEST else (earlier[1], rows)
                yield tuple(exchange), asked, told


_OF_EXCHANGE = ("cluster", c.SESSION, c.CONNECTION, c.EXCHANGE, SIDE, "at")
_OF_ENDS = ("api", "topic", "topic_id", "partition", "error_code", "records", "base_offset", "offset", "timestamp_ms")
_OF_COMMITS = (
    *("part", "step", "group_id", "topic", "topic_id", "partition", "committed_offset", "error_code"),
    *("transactional_id", "is_news"),
)


def _is_answered(table: Any) -> Any:
    """False for Produces that ask for no answer."""
    return pc.fill_null(pc.not_equal(table["acks"], 0), True)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"] or row["topic_id"], row["partition"]


def _end(asked: dict[str, Any], told: dict[str, Any]) -> int | None:
    """The end of a log by both sides of an exchange."""
    if asked["api"] == LIST_OFFSETS:
        return told["offset"] if asked["timestamp_ms"] == _LATEST else None
    if told["base_offset"] is None:
        return None
    return int(told["base_offset"] + (asked["records"] or 0))


def _seconds(at: Any) -> float:
    return float(at.timestamp())
