"""Sums of all exchanges that were taken, by API, topic, group, client, node, connection and error; lag by group.

All of it is bounded: a table that is full forgets the line that was seen longest ago, and counts that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from proxy.wire.error_codes import kafka_error
from proxy.wire.normal_errors import is_normal
from recorder.page.series import has_fault
from recorder.query.evaluation import Element
from recorder.reading.exchanges import Pair

Head = Mapping[str, Any]
Key = tuple[Any, ...]
Value = TypeVar("Value")
# lines of a table: more than anybody reads; partitions whose offsets are known
MOST_LINES, MOST_PARTITIONS = 2000, 20_000


class Bounded(OrderedDict[Key, Value], Generic[Value]):
    """A dict that forgets the key that was used longest ago once it has more than `most`. `forgotten`: how many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self.forgotten = most, 0

    def use(self, key: Key, made: Callable[[], Value]) -> Value:
        """The value of a key, which is the newest now; a new one if there is none."""
        found = self.get(key)
        return self.put(key, made() if found is None else found)

    def put(self, key: Key, value: Value) -> Value:
        """Sets the value of a key, which is the newest now."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
            self.forgotten += 1
        return value

    def copy_of_items(self) -> list[tuple[Key, Value]]:
        """All keys and values, while another thread may change them."""
        while True:
            with suppress(RuntimeError):
                return [*self.items()]


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
    keys: Callable[[bool, Head, Sequence[Element]], Iterator[tuple[Key, Mapping[str, int]]]]


def _of_head(*names: str) -> Callable[[bool, Head, Sequence[Element]], Iterator[tuple[Key, Mapping[str, int]]]]:
    def keys(fault: bool, head: Head, _: Sequence[Element]) -> Iterator[tuple[Key, Mapping[str, int]]]:
        sums = {"exchanges": 1, "sent": head["sent"] or 0, "received": head["received"] or 0}
        yield tuple(head.get(name) for name in names), sums | {"errors": int(fault)}

    return keys


def _of_elements(name: str) -> Callable[[bool, Head, Sequence[Element]], Iterator[tuple[Key, Mapping[str, int]]]]:
    """A line for each value of a field of elements. Errors are those of the elements that have the value."""

    def keys(_: bool, head: Head, elements: Sequence[Element]) -> Iterator[tuple[Key, Mapping[str, int]]]:
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


def _of_errors(_: bool, head: Head, elements: Sequence[Element]) -> Iterator[tuple[Key, Mapping[str, int]]]:
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


class Offset(NamedTuple):
    """An offset, and when it was seen in ns since 1970."""

    offset: int
    at_ns: int


class Lag(NamedTuple):
    """How far a group is behind in a partition, as seen on the wire: both offsets, each with its time."""

    group: str
    topic: str
    partition: int
    committed: Offset
    end: Offset | None

    @property
    def lag(self) -> int | None:
        """Offsets from the commit to the log's end; None while no end was seen."""
        return None if self.end is None else max(self.end.offset - self.committed.offset, 0)


class Counts:
    """The sums of all tables, and groups' lag. One thread adds; others read copies."""

    def __init__(self) -> None:
        self._tables: dict[str, Bounded[Sums]] = {name: Bounded(MOST_LINES) for name in TABLES}
        # by topic and partition; by group, topic and partition
        self._ends: Bounded[Offset] = Bounded(MOST_PARTITIONS)
        self._committed: Bounded[Offset] = Bounded(MOST_PARTITIONS)

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
        self._add_offsets(elements, head["at"])

    def _add_offsets(self, elements: Iterable[Element], at_ns: int) -> None:
        for each in elements:
            topic, partition, group = each.get("topic"), each.get("partition"), each.get("group")
            if not isinstance(topic, str) or not isinstance(partition, int) or each.get("error"):
                continue
            committed, end = each.get("committed_offset"), each.get("high_watermark")
            if isinstance(group, str) and isinstance(committed, int):
                self._committed.put((group, topic, partition), Offset(committed, at_ns))
            base, records = each.get("base_offset"), each.get("records")
            if isinstance(base, int) and isinstance(records, int):
                end = base + records
            if isinstance(end, int):
                self._ends.put((topic, partition), Offset(end, at_ns))

    @property
    def names(self) -> Iterable[str]:
        """The tables' names."""
        return self._tables

    def lines(self, name: str, limit: int) -> tuple[list[dict[str, Any]], int]:
        """The busiest lines of a table of TABLES, and how many there are, with those that were forgotten.

        A line has the fields of its key, the sums, and `last_ns`.
        """
        table, found = TABLES[name], self._tables[name]
        ranked = sorted(found.copy_of_items(), key=lambda item: -getattr(item[1], table.sums[0]))[:limit]
        made = [
            dict(zip(table.by, key, strict=True))
            | {of: getattr(line, of) for of in table.sums}
            | {"last_ns": line.last_ns}
            for key, line in ranked
        ]
        return made, len(found) + found.forgotten

    def lags(self) -> list[Lag]:
        """The lag of all groups' partitions, the farthest behind first; those without a known end come last."""
        found = [
            Lag(group, topic, partition, committed, self._ends.get((topic, partition)))
            for (group, topic, partition), committed in self._committed.copy_of_items()
        ]
        return sorted(found, key=lambda one: (one.lag is None, -(one.lag or 0)))
