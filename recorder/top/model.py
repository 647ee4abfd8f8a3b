"""What `top` shows: the rows of each view, made of what the proxy tells each second. No terminal in it.

A view's columns stand in the order in which a wide terminal shows them. A narrow one leaves out those that its width
has no room for, the least important first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from proxy.terminal import printable
from recorder.top.client import Json, NodeState, ProxyState

# what metrics call connections that want no node yet
_BOOTSTRAP = "bootstrap"
# seconds that a rate is taken over
WINDOW = 5
Row = dict[str, Any]


class Column(NamedTuple):
    """A column.

    Attributes:
        name: of the value in a row. title: its head.
        shown: makes the text of a value that is there.
        width: of the widest text that is usual. rank: those of the highest go first where there is no room.
        is_number: it stands to the right, and its order begins with the largest.
    """

    name: str
    title: str
    shown: Callable[[Any], str] = printable
    width: int = 8
    rank: int = 1
    is_number: bool = True


def _count(value: Any) -> str:
    return f"{value:,.0f}"


def _rate(value: Any) -> str:
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def size(value: Any) -> str:
    """Bytes with their unit, in four digits at most."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def age(seconds: Any) -> str:
    """How long ago, in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _text(name: str, title: str, width: int, rank: int = 0) -> Column:
    return Column(name, title, width=width, rank=rank, is_number=False)


_PER_SECOND = Column("exchanges_s", "exch/s", _rate, 8)
_ERRORS = Column("errors", "errors", _count, 7)
_TOTAL = Column("exchanges", "exchanges", _count, 11, rank=4)
_SENT, _RECEIVED = Column("sent_s", "sent/s", size, 8, rank=2), Column("received_s", "recv/s", size, 8, rank=2)
_TRAFFIC = (_PER_SECOND, _ERRORS, _SENT, _RECEIVED, _TOTAL)


class View(NamedTuple):
    """A view.

    Attributes:
        table: its rows' name among those that the proxy tells.
        by: what makes a row's key: fields of filters.
        order: the column by which it is ordered first.
    """

    table: str
    by: tuple[str, ...]
    columns: tuple[Column, ...]
    order: str


VIEWS: Mapping[str, View] = {
    "apis": View(
        "apis", ("api", "version"), (_text("api", "api", 18), _text("version", "v", 3, 1), *_TRAFFIC), "exchanges_s"
    ),
    "topics": View(
        "topics",
        ("topic",),
        (
            _text("topic", "topic", 24),
            _PER_SECOND,
            Column("records_s", "records/s", _rate, 10, rank=2),
            Column("bytes_s", "bytes/s", size, 8),
            _ERRORS,
            _TOTAL,
        ),
        "bytes_s",
    ),
    "clients": View(
        "clients",
        ("client_id", "software", "software_version"),
        (
            _text("client_id", "client id", 20),
            _text("software", "software", 16, 3),
            _text("software_version", "version", 8, 5),
            *_TRAFFIC,
        ),
        "exchanges_s",
    ),
    "groups": View(
        "lags",
        ("group", "topic", "partition"),
        (
            _text("group", "group", 14),
            _text("topic", "topic", 11),
            Column("partition", "part", _count, 4),
            _text("state", "state", 7, 1),
            Column("lag", "lag", _count, 11),
            Column("committed", "committed", _count, 11, rank=3),
            Column("end", "log end", _count, 11, rank=3),
            Column("silent", "last commit", age, 11, rank=2),
        ),
        "lag",
    ),
    "nodes": View(
        "nodes",
        ("node",),
        (
            _text("node", "node", 9),
            _text("state", "state", 5),
            Column("since", "since", age, 6, rank=1),
            _PER_SECOND,
            _ERRORS,
            Column("connections", "conns", _count, 6, rank=3),
            _SENT,
            _RECEIVED,
        ),
        "exchanges_s",
    ),
    "connections": View(
        "connections",
        ("session", "connection", "client_id", "node"),
        (
            Column("connection", "connection", lambda value: str(value), 10, is_number=True),
            _text("client_id", "client id", 20),
            _text("node", "node", 4, 2),
            *_TRAFFIC,
        ),
        "exchanges_s",
    ),
    "errors": View(
        "errors",
        ("error", "api", "client_id", "topic"),
        (
            _text("error", "error", 26),
            _text("api", "api", 14, 2),
            _text("client_id", "client id", 16, 1),
            _text("topic", "topic", 16, 4),
            Column("errors_s", "err/s", _rate, 6, rank=3),
            _ERRORS._replace(rank=0),
        ),
        "errors",
    ),
}
EXCHANGES = "exchanges"
OF_EXCHANGES = (
    Column("at", "at", lambda text: str(text)[11:23], 12, rank=1, is_number=False),
    _text("api", "api", 16),
    _text("client_id", "client id", 16, 2),
    _text("topics", "topic or group", 16, 1),
    Column("latency_ms", "ms", lambda value: f"{value:,.1f}", 8),
    Column("size", "bytes", size, 8, rank=3),
    _text("error_text", "errors", 12),
)


class Model:
    """What was told so far. `clock`: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        # the newest last
        self._told: deque[Json] = deque(maxlen=WINDOW + 1)
        # None: the proxy has not told it yet
        self.state: ProxyState | None = None

    def forget(self) -> None:
        """Begins anew: with another filter."""
        self._told.clear()

    def tell(self, told: Json) -> None:
        """Takes what the proxy tells of a second."""
        self._told.append(told)

    def totals(self) -> dict[str, float]:
        """Exchanges, errors and bytes a second, and frames that were missed."""
        if not self._told:
            return {}
        first, last = self._told[0], self._told[-1]
        seconds = max(last["at"] - first["at"], 1e-9)
        rates = {name: (last[name] - first[name]) / seconds for name in ("exchanges", "errors", "bytes")}
        return rates | {"missed": last["missed"].get("frames", 0), "missed_times": last["missed"].get("times", 0)}

    def rows(self, name: str) -> list[Row]:
        """The rows of a view, in no order."""
        view = VIEWS[name]
        if not self._told:
            return []
        lines: list[Row] = self._table(view)["lines"]
        if name == "groups":
            return [self._with_silence(row) for row in lines]
        rows = [self._with_rates(view, row) for row in lines]
        return self._with_nodes(rows) if name == "nodes" else rows

    def _table(self, view: View) -> Json:
        table: Json = self._told[-1]["tables"][view.table]
        return table

    def bounds(self, name: str) -> str:
        """A sentence on the rows that a view lacks; "" if it has all."""
        if not self._told:
            return ""
        table = self._table(VIEWS[name])
        shown, total, forgotten = len(table["lines"]), table["total"], table["forgotten"]
        parts = [f"the first {shown:,} of {total:,} rows"] if total > shown else []
        rows = "row that was" if forgotten == 1 else "rows that were"
        parts += [f"the table is full: {forgotten:,} {rows} idle longest made room"] if forgotten else []
        return "; ".join(parts)

    @property
    def delay(self) -> str:
        """A sentence on why nothing new is shown; "" if all is."""
        behind = self._told[-1]["behind"] if self._told else 0
        return f"the live process is {age(behind)} behind: until it has caught up, all is missed" if behind else ""

    @property
    def losses(self) -> tuple[str, bool]:
        """What the proxy has not recorded since it began, in a few words, and whether it is anything."""
        if self.state is None:
            return "", False
        lost = self.state.recording
        if lost.is_broken or lost.is_stopped:
            return "NOT RECORDING" + (" (volume full)" if lost.is_stopped else ""), True
        if not lost.gaps and not lost.bytes:
            return "nothing dropped", False
        return f"dropped {size(lost.bytes)} in {lost.gaps:,} gap{'s' * (lost.gaps != 1)}", True

    def _with_rates(self, view: View, row: Row) -> Row:
        first, last = self._told[0], self._told[-1]
        seconds = max(last["at"] - first["at"], 1e-9)
        before = _by_key(first, view).get(_key(row, view), {})
        # a single message tells no rate
        rates = {
            f"{name}_s": (value - before.get(name, 0)) / seconds if len(self._told) > 1 else 0.0
            for name, value in row.items()
            if name not in view.by and isinstance(value, int | float)
        }
        return row | rates

    def _with_silence(self, row: Row) -> Row:
        return row | {"silent": self._clock() - _seconds(row["committed_at"])}

    def _with_nodes(self, rows: list[Row]) -> list[Row]:
        named = {_BOOTSTRAP if row["node"] is None else str(row["node"]): row for row in rows}
        nodes = {} if self.state is None else self.state.nodes
        return [
            {**named.get(name, {}), "node": name, **self._of_node(nodes.get(name, NodeState()))}
            for name in {**named, **nodes}
        ]

    def _of_node(self, state: NodeState) -> Row:
        words = {True: "up", False: "DOWN", None: None}
        since = None if state.since is None else self._clock() - state.since
        return {"state": words[state.is_up], "since": since, "connections": state.connections}


def _by_key(told: Json, view: View) -> dict[tuple[Any, ...], Row]:
    # kept with the message: each row of a view asks for it
    kept: dict[str, dict[tuple[Any, ...], Row]] = told.setdefault("by_key", {})
    if view.table not in kept:
        kept[view.table] = {_key(row, view): row for row in told["tables"][view.table]["lines"]}
    return kept[view.table]


def _key(row: Row, view: View) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in view.by)


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def ordered(rows: Iterable[Row], column: Column, *, is_reversed: bool) -> list[Row]:
    """Rows by a column: numbers with the largest first, texts from A on; what has no value comes last."""
    there: list[Row] = []
    lacking: list[Row] = []
    for row in rows:
        (lacking if row.get(column.name) is None else there).append(row)
    key: Callable[[Row], Any] = (
        (lambda row: row[column.name]) if column.is_number else (lambda row: str(row[column.name]).casefold())
    )
    return [*sorted(there, key=key, reverse=column.is_number != is_reversed), *lacking]


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that a terminal has room for, with two blanks behind each."""
    kept = [*columns]
    while sum(one.width + 2 for one in kept) > width and len(kept) > 1:
        ranked = [at for at, one in enumerate(kept) if one.rank == max(other.rank for other in kept)]
        if not kept[ranked[-1]].rank:
            break
        del kept[ranked[-1]]
    return kept


def condition(view: View, row: Row) -> str:
    """A filter that a row's exchanges pass."""
    known = [(name, row.get(name)) for name in view.by if row.get(name) is not None]
    return " and ".join(f"{name} == {_literal(value)}" for name, value in known)


def _literal(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def of_exchange(line: Json) -> Row:
    """The row of an exchange in the list."""
    names = [*line["topic"]["names"], *line["group"]["names"]]
    size_of = (line["sent"] or 0) + (line["received"] or 0)
    return line | {"topics": ", ".join(names) or None, "size": size_of, "error_text": line["error_text"] or None}
