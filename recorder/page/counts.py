"""Sums of all exchanges that were taken, by API, topic, group, client, node, connection and error; lag by group.

All of it is bounded: a table that is full forgets the line that was seen longest ago, and counts that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from proxy.units import MIB
from proxy.wire.budget import Budget
from proxy.wire.error_codes import kafka_error
from proxy.wire.errors import WireError
from proxy.wire.normal_errors import is_normal
from recorder.bounded import Bounded
from recorder.capture import frames as c
from recorder.capture.reader import Row
from recorder.facts.frame import Unreadable
from recorder.facts.group_offsets import GROUP_STEPS, OFFSET_APIS
from recorder.facts.group_rows import GroupRow
from recorder.facts.rows import frame_of
from recorder.group_lag import GroupFacts, GroupLag, Partition, Standing
from recorder.labels import UNKNOWN, cut
from recorder.page.series import has_fault
from recorder.query.evaluation import Element
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair

Head = Mapping[str, Any]
Of = TypeVar("Of")
_Line = tuple[Any, ...]
# lines of a table: more than anybody reads; partitions whose offsets are known
MOST_LINES, MOST_PARTITIONS = 2000, 20_000
# partitions that nobody speaks of are looked for so often, in seconds
_FORGET_SECONDS = 60.0
# bytes of memory to decode a frame with
_BUDGET = 16 * MIB


class Sums:
    """What is counted for a line. `last_ns`: when its newest request arrived."""

    __slots__ = ("bytes", "errors", "exchanges", "last_ns", "received", "records", "sent")

    def __init__(self) -> None:
        self.exchanges = self.errors = self.records = self.bytes = self.sent = self.received = self.last_ns = 0


class Table(NamedTuple):
    """A table.

    Attributes:
        by: the fields of filters that make a line's key. sums: what its lines tell, in their order.
        keys: the lines that an exchange is counted in, by whether it has a fault, its head and its elements.
    """

    by: tuple[str, ...]
    sums: tuple[str, ...]
    keys: Callable[[bool, Head, Sequence[Element]], Iterator[tuple[_Line, Mapping[str, int]]]]


def _of_head(*names: str) -> Callable[[bool, Head, Sequence[Element]], Iterator[tuple[_Line, Mapping[str, int]]]]:
    def keys(fault: bool, head: Head, _: Sequence[Element]) -> Iterator[tuple[_Line, Mapping[str, int]]]:
        sums = {"exchanges": 1, "sent": head["sent"] or 0, "received": head["received"] or 0}
        yield tuple(head.get(name) for name in names), sums | {"errors": int(fault)}

    return keys


def _of_elements(name: str) -> Callable[[bool, Head, Sequence[Element]], Iterator[tuple[_Line, Mapping[str, int]]]]:
    """A line for each value of a field of elements. Errors are those of the elements that have the value."""

    def keys(_: bool, head: Head, elements: Sequence[Element]) -> Iterator[tuple[_Line, Mapping[str, int]]]:
        taken: set[str] = set()
        for each in elements:
            value = each.get(name)
            if isinstance(value, str):
                code = each.get("error")
                fault = isinstance(code, int) and code and not is_normal(head["api_key"], code)
                yield (
                    (value,),
                    {
                        "exchanges": int(value not in taken),
                        "records": _number(each, "records"),
                        "bytes": _number(each, "bytes"),
                        "errors": int(bool(fault)),
                    },
                )
                taken.add(value)

    return keys


def _of_errors(_: bool, head: Head, elements: Sequence[Element]) -> Iterator[tuple[_Line, Mapping[str, int]]]:
    for each in elements:
        code = each.get("error")
        if isinstance(code, int) and code:
            topic, client = each.get("topic"), head["client_id"]
            yield (
                (kafka_error(code).name, head["api"], client, topic if isinstance(topic, str) else None),
                {"errors": 1},
            )


def _number(element: Element, name: str) -> int:
    value = element.get(name)
    return value if isinstance(value, int) else 0


_TRAFFIC = ("exchanges", "errors", "sent", "received")
TABLES: Mapping[str, Table] = {
    "apis": Table(("api", "version"), _TRAFFIC, _of_head("api", "version")),
    "topics": Table(("topic",), ("exchanges", "errors", "records", "bytes"), _of_elements("topic")),
    "groups": Table(("group",), ("exchanges", "errors"), _of_elements("group")),
    "clients": Table(
        ("client_id", "software", "software_version"), _TRAFFIC, _of_head("client_id", "software", "software_version")
    ),
    "nodes": Table(("node",), _TRAFFIC, _of_head("node")),
    "connections": Table(
        ("session", "connection", "client_id", "node"),
        _TRAFFIC,
        _of_head("session", "connection", "client_id", "node"),
    ),
    "errors": Table(("error", "api", "client_id", "topic"), ("errors",), _of_errors),
}


class Lines(NamedTuple, Generic[Of]):
    """Lines of a table. `total`: how many the table has; `forgotten`: how many others made room for them."""

    shown: list[Of]
    total: int
    forgotten: int


class Counts:
    """The sums of all tables, and groups' lag. One thread adds; others read copies."""

    def __init__(self, told: Told) -> None:
        self._tables: dict[str, Bounded[_Line, Sums]] = {name: Bounded(MOST_LINES) for name in TABLES}
        self._lag = GroupLag(MOST_PARTITIONS, told)
        self._forgot_at = 0.0

    def add(self, pair: Pair, head: Head, elements: Sequence[Element]) -> None:
        """Counts an exchange. `head`, `elements`: as of `Judge`."""
        fault = has_fault(pair, head)
        for name, table in TABLES.items():
            lines = self._tables[name]
            for key, sums in table.keys(fault, head, elements):
                line = lines.use(key, Sums)
                line.last_ns = max(line.last_ns, head["at"])
                for of, number in sums.items():
                    setattr(line, of, getattr(line, of) + number)
        self._add_lag(pair, elements, head["at"] / 1e9)

    def _add_lag(self, pair: Pair, elements: Iterable[Element], at: float) -> None:
        """Learns where logs end, and what groups commit. `at`: in seconds since 1970."""
        if at - self._forgot_at > _FORGET_SECONDS:
            self._forgot_at = at
            self._lag.forget_idle(at)
        for each in elements:
            topic, partition, end = each.get("topic"), each.get("partition"), each.get("high_watermark")
            base, records = each.get("base_offset"), each.get("records")
            if isinstance(base, int) and isinstance(records, int):
                end = base + records
            if isinstance(topic, str) and isinstance(partition, int) and isinstance(end, int) and not each.get("error"):
                place = Partition(pair.head[c.CLUSTER] or UNKNOWN, cut(topic), partition)
                self._lag.note_end(place, end, at)
        if pair.request and pair.response and pair.head[c.API_KEY] in OFFSET_APIS:
            asked, told = _offset_facts(pair.request), _offset_facts(pair.response)
            if asked and told:
                self._lag.read(pair.head[c.CLUSTER], asked, told, at)

    @property
    def names(self) -> Iterable[str]:
        """The tables' names."""
        return self._tables

    def lines(self, name: str, limit: int) -> Lines[dict[str, Any]]:
        """The busiest lines of a table of TABLES: the fields of their keys, the sums, and `last_ns`."""
        table, found = TABLES[name], self._tables[name]
        ranked = sorted(found.copy_of_items(), key=lambda item: -getattr(item[1], table.sums[0]))[:limit]
        made = [
            dict(zip(table.by, key, strict=True))
            | {of: getattr(line, of) for of in table.sums}
            | {"last_ns": line.last_ns}
            for key, line in ranked
        ]
        return Lines(made, len(found), found.forgotten)

    def lags(self, now_ns: int, limit: int) -> Lines[Standing]:
        """How groups do at partitions, the farthest behind first; those without a known end come last.

        `now_ns`: the moment at which they are judged, in ns since 1970.
        """
        ranked = sorted(self._lag.standings(now_ns / 1e9), key=lambda one: (one.lag is None, -(one.lag or 0)))
        return Lines(ranked[:limit], len(ranked), sum(self._lag.forgotten.values()))


def _offset_facts(row: Row) -> list[GroupFacts]:
    """What a frame says of groups' offsets; nothing if it can't be read."""
    if row[c.FRAME] is None or row[c.OMITTED]:
        return []
    try:
        found = [*GROUP_STEPS.read(frame_of(row), Budget(_BUDGET))]
    except (Unreadable, WireError):
        return []
    return [dict(zip(GroupRow._fields, one, strict=True)) for group in found for one in group.rows]
