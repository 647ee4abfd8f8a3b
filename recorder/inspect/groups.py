"""Exchanges counted by topic, by client, by error: streaming, within a budget.

Each command is a `Grouping`: what makes the key of a line, what is counted, which fields of elements it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from proxy.wire import keys
from proxy.wire.error_codes import kafka_error
from proxy.wire.errors import OverBudget, in_bytes
from proxy.wire.normal_errors import is_normal
from proxy.wire.releases import FLOORS_OF, versions_in
from recorder.capture import frames as c
from recorder.inspect.layouts import Cells, Layouts
from recorder.inspect.lines import instant, moment
from recorder.query.evaluation import Element
from recorder.query.syntax import EVERYTHING, Node, condition
from recorder.query.values import Api
from recorder.reading.exchanges import Pair
from recorder.terminal import Column, count, fitted, size

# the column of CLIENTS that names what an older broker alone takes
TOO_OLD = "too old"
_TIMES = ("first", "last")
_NUMBERS = ("exchanges", "records", "bytes", "errors", "times", "connections", "sent", "received", "partition")
# what a narrow terminal leaves out, first to last; all else goes after it
_LEFT_OUT = ("last", "first", "principal", "software_version", "host", "received", "sent", "connections", "software")
# bytes of memory of a line, as of a value that it collects
LINE_SIZE = 1000
Key = tuple[Any, ...]
Elements = Callable[[Pair], Iterable[Element]]


class Line(dict[str, Any]):
    """The sums of a group, by column. Columns of collected values hold sets, with `collected` values in all."""

    collected = 0

    def add(self, **numbers: int | None) -> None:
        """Adds to sums. None: unknown, which counts as nothing."""
        for name, number in numbers.items():
            self[name] = self.get(name, 0) + (number or 0)

    def collect(self, name: str, value: Any) -> None:
        """Adds to a column of collected values."""
        values = self.setdefault(name, set())
        before = len(values)
        values.add(value)
        self.collected += len(values) - before

    def seen(self, at_ns: int) -> None:
        """Takes a time into `first` and `last`."""
        self["first"], self["last"] = min(self.get("first", at_ns), at_ns), max(self.get("last", at_ns), at_ns)


@dataclass(frozen=True, slots=True)
class Grouping:
    """What a command counts.

    Attributes:
        by: the columns of a line's key. counted: those of its sums.
        fields: the fields of elements that it asks for.
        only: what an exchange must meet besides the user's filter.
        keyed: yields the key of each line that an exchange counts for, with a function that adds to the line.
        order: the column by whose sum lines are ordered, the greatest first.
        what: an exchange that counts, for the sentence if there is none.
    """

    title: str
    by: tuple[str, ...]
    counted: tuple[str, ...]
    fields: tuple[str, ...]
    only: Node
    keyed: Callable[[Pair, Mapping[str, Any], Iterable[Element]], Iterator[tuple[Key, Callable[[Line], None]]]]
    order: str
    what: str = "exchange"


def _of_topics(pair: Pair, head: Mapping[str, Any], elements: Iterable[Element]) -> Iterator[Any]:
    taken: set[str] = set()
    for each in elements:
        topic = each.get("topic")
        if not isinstance(topic, str):
            continue
        is_new, code = topic not in taken, each.get("error")
        taken.add(topic)
        fault = isinstance(code, int) and bool(code) and not is_normal(head["api_key"], code)
        sums = {"exchanges": int(is_new), "records": _number(each, "records"), "bytes": _number(each, "bytes")}

        def add(line: Line, sums: dict[str, int | None] = sums, errors: int = int(fault)) -> None:
            line.add(**sums, errors=errors)
            line.seen(head["at"])

        yield (topic, head["api"], head["client_id"], head["principal"]), add


def _number(element: Element, name: str) -> int | None:
    value = element.get(name)
    return value if isinstance(value, int) else None


def _of_errors(pair: Pair, head: Mapping[str, Any], elements: Iterable[Element]) -> Iterator[Any]:
    for each in elements:
        code = each.get("error")
        if not isinstance(code, int) or not code:
            continue
        place = (each.get(name) for name in ("topic", "partition", "group"))
        known = (value if isinstance(value, str | int) else None for value in place)

        def add(line: Line) -> None:
            line.add(times=1)
            line.seen(head["at"])

        yield (kafka_error(code).name, head["api"], head["client_id"], *known), add


def _of_clients(pair: Pair, head: Mapping[str, Any], elements: Iterable[Element]) -> Iterator[Any]:
    codes = pair.reading.codes if pair.reading else ()
    faults = sum(not is_normal(head["api_key"], code) for code in codes)
    key, version = head["api_key"], head["version"]
    taken = _taken(key) if key is not None and head["dialect"] == c.KAFKA else range(0)
    is_below = version is not None and bool(taken) and version < taken.start

    def add(line: Line) -> None:
        line.add(exchanges=1, errors=faults, sent=head["sent"], received=head["received"])
        line.collect("connections", (head["session"], head["connection"]))
        if is_below:
            line.collect(TOO_OLD, f"{head['api']} {version} (from {taken.start})")
        line.seen(head["at"])

    host = (head["client"][1] or "").rpartition(":")[0]
    yield (head["client_id"], host, head["principal"], head["software"], head["software_version"]), add


@cache
def _taken(api_key: int) -> range:
    """The versions of an API that Kafka 4.0 takes."""
    return versions_in(FLOORS_OF, api_key)


_APIS_OF_RECORDS = condition("api", "==", *(Api(key, c.KAFKA) for key in (keys.PRODUCE, keys.FETCH, keys.SHARE_FETCH)))
TOPICS = Grouping(
    "Who produces to topics, and who fetches from them",
    ("topic", "api", "client_id", "principal"),
    ("exchanges", "records", "bytes", "errors", "first", "last"),
    ("topic", "partition", "records", "bytes", "error"),
    _APIS_OF_RECORDS,
    _of_topics,
    "bytes",
)
ERRORS = Grouping(
    "Errors",
    ("error", "api", "client_id", "topic", "partition", "group"),
    ("times", "first", "last"),
    ("error", "topic", "partition", "group"),
    condition("error", ""),
    _of_errors,
    "times",
    "exchange with an error",
)
CLIENTS = Grouping(
    "Clients",
    ("client_id", "host", "principal", "software", "software_version"),
    ("connections", "exchanges", "errors", "sent", "received", "first", "last", TOO_OLD),
    ("software", "software_version"),
    EVERYTHING,
    _of_clients,
    "exchanges",
)


def grouped(
    grouping: Grouping,
    passed: Iterable[Pair],
    head: Callable[[Pair], Mapping[str, Any]],
    elements: Elements,
    *,
    most: int,
) -> list[dict[str, Any]]:
    """The lines of a grouping. Errors: OverBudget if they take more than `most` bytes; those of `passed`."""
    lines: dict[Key, Line] = {}
    collected = 0
    for pair in passed:
        for key, add in grouping.keyed(pair, head(pair), elements(pair)):
            line = lines.get(key)
            if line is None:
                line = lines[key] = Line()
            before = line.collected
            add(line)
            collected += line.collected - before
            if (len(lines) + collected) * LINE_SIZE > most:
                raise OverBudget(f"counting by {', '.join(grouping.by)} makes more than {in_bytes(most)}")
    found = [dict(zip(grouping.by, key, strict=True)) | _told(line) for key, line in lines.items()]
    return sorted(found, key=lambda line: -line[grouping.order])


def _told(line: Line) -> dict[str, Any]:
    found = dict(line)
    if "connections" in found:
        found["connections"] = len(found["connections"])
        found[TOO_OLD] = sorted(found.get(TOO_OLD, ()))
    return found


def plain_cells(grouping: Grouping, line: Mapping[str, Any]) -> list[Any]:
    """A line's cells for programs: numbers and texts."""
    return [", ".join(value) if isinstance(value, list) else value for value in plain(grouping, line).values()]


def plain(grouping: Grouping, line: Mapping[str, Any]) -> dict[str, Any]:
    """A line's values for programs, by column: times as RFC 3339 has them."""
    values = ((name, line.get(name)) for name in (*grouping.by, *grouping.counted))
    return {name: instant(value) if name in _TIMES and value is not None else value for name, value in values}


def as_table(grouping: Grouping, lines: list[dict[str, Any]], width: int) -> RenderableType:
    """The lines as a table that fits into `width`."""
    names = [*grouping.by, *grouping.counted]
    lines = [line | {name: moment(line[name]) for name in _TIMES} for line in lines]
    columns = [Column(name, is_number=_is_number(name), rank=_rank(grouping, name)) for name in names]
    days = {line[name].split()[0] for line in lines for name in _TIMES}
    # one day stands in the title alone
    day = f"{days.pop()} " if len(days) == 1 else ""
    cells = [[_cell(name, line.get(name)).removeprefix(day) for name in names] for line in lines]
    table = fitted(grouping.title + (f", {day.strip()} (UTC)" if day else ""), columns, cells, width)
    if TOO_OLD in grouping.counted and not any(line[TOO_OLD] for line in lines):
        return Group(table, Text("None is too old for Kafka 4.0.", "dim"))
    return table


def _rank(grouping: Grouping, name: str) -> int:
    if name in (grouping.by[0], grouping.order):
        return 0
    return len(_LEFT_OUT) - _LEFT_OUT.index(name) + 1 if name in _LEFT_OUT else 1


def cells(line: Mapping[str, Any]) -> Cells:
    """A line of ERRORS of a single exchange, under ERROR_TITLES."""
    place = None if line["topic"] is None else f"{line['topic']}-{line['partition']}"
    times = f"{line['error']} x{line['times']}" if line["times"] > 1 else line["error"]
    about = (times, place, line["group"] and f"group {line['group']}")
    columns = {"time": moment(line["first"]), "api": line["api"] or "", "client": line["client_id"] or ""}
    return Cells(columns, ", ".join(filter(None, about)))


ERROR_TITLES = {"time": "time (UTC)", "api": "api", "client": "client id", "rest": "error, partition, group"}
ERROR_LAYOUTS: Layouts = (
    (100, "time:26 api:24 client:20"),
    (80, "time:12 api:18 client:16"),
    (0, "time:12 api:14"),
)


def _is_number(name: str) -> bool:
    """True for columns that are not folded: numbers, and times."""
    return name in _TIMES or name in _NUMBERS


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(value)
    if name in ("bytes", "sent", "received"):
        return size(value)
    return count(value) if isinstance(value, int) and name != "partition" else str(value)
