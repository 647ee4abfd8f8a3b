"""Counts the contents of a capture without reading bodies, and its losses, which are shown first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import RenderableType

from proxy.wire.budget import DEFAULT_BUDGET
from proxy.wire.errors import OverBudget, in_bytes
from recorder.capture import frames as c
from recorder.capture.remote import Place
from recorder.filters import Held
from recorder.inspect.in_force import InForce
from recorder.inspect.lines import instant, moment
from recorder.inspect.losses import Losses
from recorder.inspect.masked import why
from recorder.missing import missing_table
from recorder.reading.rows import tables
from recorder.terminal import Column, count, fitted, size

_COLUMNS = [c.SESSION, c.CONNECTION, c.KIND, c.MADE_BY, c.API_KEY, c.API, c.AT_NS, c.SIZE, c.STORED, c.NOTE, c.MASKED]
_COLUMNS += [c.OMITTED, c.RECORDS]
_EVENTS = [c.SESSION, c.CLUSTER, c.CONNECTION, c.AT_NS, c.KIND, c.CAUSE, c.FRAMES, c.BYTES, c.DETAIL]
# Letters of a session's name or of a time: these are not folded while another column can be left out.
LONGEST_NAME = 19
# The most gaps that a table lists; JSON has all of them.
MAX_GAPS = 20
# Bytes of memory: of a table's line with its cells; of a gap or a group of frames as a Python value; of a connection.
LINE_SIZE, ROW_SIZE, CONNECTION_SIZE = 4000, 1000, 500
# The kinds of frames without an API: login tokens and bytes, which the proxy pairs with no request or response.
_NO_EXCHANGE = (c.TOKEN, c.UNFRAMED)
# Events that become Python values at a time.
_AT_ONCE = 1024


@dataclass(slots=True)
class Session:
    """One session: the times of its first and last frame (ns since 1970), and its totals."""

    first_ns: int
    last_ns: int
    frames: int = 0
    bytes: int = 0
    connections: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Summary:
    """Counts by session, by api and kind, and by note; masked frames by reason; the gaps, oldest first."""

    sessions: dict[str, Session] = field(default_factory=dict)
    apis: dict[str, dict[str, tuple[int, int]]] = field(default_factory=lambda: defaultdict(dict))  # frames, bytes
    notes: Counter[str] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    losses: Losses = field(default_factory=Losses)
    in_force: InForce = field(default_factory=InForce)
    # bytes of memory for counts and gaps
    most: int = DEFAULT_BUDGET

    def add(self, frames: Any) -> None:
        """Counts the frames of one row group. Errors: OverBudget."""
        times = [(c.AT_NS, "min"), (c.AT_NS, "max")]
        for row in self._grouped(frames, [c.SESSION, c.CONNECTION], times):
            self._add_connection(row)
            self.losses.add_frames(row[c.SESSION], row[c.CONNECTION], row["size_count"])
        self.losses.add_cut(frames)
        for row in self._grouped(frames, [c.KIND, c.API_KEY, c.API], []):
            api = row[c.API] or (row[c.KIND] if row[c.API_KEY] is None else f"api {row[c.API_KEY]}")
            number, total = self.apis[api].get(row[c.KIND], (0, 0))
            self.apis[api][row[c.KIND]] = number + row["size_count"], total + row["size_sum"]
        noted = self._grouped(frames, [c.NOTE], [])
        self.notes.update({row[c.NOTE]: row["size_count"] for row in noted if row[c.NOTE]})
        self.notes.update(_special(frames))
        for row in self._grouped(frames.filter(_has_spans(frames, c.MASKED)), [c.KIND, c.API], []):
            self.masked[why(row[c.KIND], row[c.API])] += row["size_count"]

    def add_events(self, events: Any) -> None:
        """Counts the events of one row group. Errors: OverBudget."""
        for batch in events.to_batches(max_chunksize=_AT_ONCE):
            rows = batch.to_pylist()
            self.losses.add_events(rows)
            self.in_force.add_events(rows)
            self.gaps += [row for row in rows if row[c.KIND] == c.EVENT_GAP]
            self._check(0)

    def _grouped(self, frames: Any, keys: list[str], more: list[tuple[str, str]]) -> list[dict[str, Any]]:
        groups = frames.group_by(keys).aggregate([(c.SIZE, "count"), (c.SIZE, "sum"), *more])
        self._check(len(groups))
        rows: list[dict[str, Any]] = groups.to_pylist()
        return rows

    def _check(self, rows: int) -> None:
        """Raises OverBudget if `rows` further rows would exceed the memory limit."""
        lines = len(self.sessions) + len(self.apis) + len(self.notes) + self.losses.lines
        size = lines * LINE_SIZE + (rows + len(self.gaps)) * ROW_SIZE + self.losses.connections * CONNECTION_SIZE
        size += self.in_force.cost
        if size > self.most:
            raise OverBudget(f"counting what is in the capture makes more than {in_bytes(self.most)}")

    def _add_connection(self, row: dict[str, Any]) -> None:
        first, last = row["at_ns_min"], row["at_ns_max"]
        session = self.sessions.setdefault(row[c.SESSION], Session(first, last))
        session.first_ns, session.last_ns = min(session.first_ns, first), max(session.last_ns, last)
        session.frames += row["size_count"]
        session.bytes += row["size_sum"]
        session.connections.add(row[c.CONNECTION])


def summarize(folder: Place, notes: Iterable[str] = (), *, most: int = DEFAULT_BUDGET) -> Summary:
    """Counts everything in the capture.

    `notes`: sentences on frames that are not in its files. `most`: the limit in bytes of memory for a file, and for the
    counts. Errors: OverBudget, DamagedFileError, UnknownFormatError.
    """
    found = Summary(most=most)
    found.losses.notes += notes
    for frames in tables(folder, c.FRAMES_FOLDER, _COLUMNS, most=most):
        found.add(frames)
    for events in tables(folder, c.EVENTS_FOLDER, _EVENTS, most=most):
        found.add_events(events)
    found.gaps.sort(key=lambda gap: gap[c.AT_NS])
    return found


def held(folder: Place, *, most: int = DEFAULT_BUDGET) -> Held | None:
    """What the capture holds: its times and APIs; None if a file can't be read. `most`: as of `summarize`."""
    found = Summary(most=most)
    try:
        for frames in tables(folder, c.FRAMES_FOLDER, _COLUMNS, most=most):
            found.add(frames)
    except (OverBudget, c.DamagedFileError, c.UnknownFormatError):
        return None
    times = [(one.first_ns, one.last_ns) for one in found.sessions.values()]
    first_ns, last_ns = min((first for first, _ in times), default=None), max((last for _, last in times), default=None)
    return Held(first_ns, last_ns, tuple(api for api in found.apis if api not in _NO_EXCHANGE))


def as_json(found: Summary) -> dict[str, Any]:
    """The summary as one JSON object."""
    return {
        "missing": found.losses.missing.as_json(),
        "sessions": [
            {"session": name, "first": instant(one.first_ns), "last": instant(one.last_ns), "frames": one.frames}
            | {"bytes": one.bytes, "connections": len(one.connections)}
            | found.in_force.of_session(name)
            for name, one in sorted(found.sessions.items())
        ],
        "clusters": found.in_force.clusters_as_json(),
        "apis": {
            api: {kind: {"frames": frames, "bytes": total} for kind, (frames, total) in kinds.items()}
            for api, kinds in sorted(found.apis.items())
        },
        "notes": dict(found.notes),
        "masked": dict(found.masked),
        "gaps": [{**gap, "at": instant(gap[c.AT_NS])} for gap in found.gaps],
    }


def as_tables(found: Summary, width: int) -> Iterable[RenderableType]:
    """The summary as tables that fit into `width`, losses first. Empty tables of notes, masks and gaps are left out."""
    yield missing_table(found.losses.missing, width)
    yield _sessions(found, width)
    if lines := found.in_force.session_lines():
        short = _short(found.in_force.sessions)
        rows = [(short[session], *more) for session, *more in lines]
        names = ["session", "kafka-wiretap", "Python", "settings told (--json has them)", "changed"]
        yield _filled("In force", names, [], rows, width)
    if nodes := found.in_force.node_lines():
        yield _filled("Nodes, as brokers told clients", ["cluster", "id", "node", "address", "rack"], [], nodes, width)
    yield _apis(found, width)
    if any(kind in found.apis for kind in _NO_EXCHANGE):
        yield _of_no_exchange(found, width)
    if found.notes:
        yield _filled("Out of the ordinary", ["what"], ["frames"], found.notes.most_common(), width)
    if found.masked:
        yield _filled("Masked: secrets are not recorded", ["in"], ["frames"], found.masked.most_common(), width)
    if found.gaps:
        yield _gaps(found, width)


def _gaps(found: Summary, width: int) -> RenderableType:
    shown = found.gaps[:MAX_GAPS]
    short = _short({gap[c.SESSION] for gap in shown})
    rows = [
        (
            *(_second(gap[c.AT_NS]), short[gap[c.SESSION]], gap[c.CAUSE]),
            *(_or_blank(gap[c.CONNECTION]), _or_blank(gap[c.FRAMES]), size(gap[c.BYTES])),
        )
        for gap in shown
    ]
    title = f"The first {MAX_GAPS} of {count(len(found.gaps))} gaps" if len(found.gaps) > MAX_GAPS else "Gaps"
    names, numbers = ["gap at (UTC)", "session", "cause"], ["conn", "lost frames", "lost bytes"]
    return _filled(title, names, numbers, rows, width)


def _sessions(found: Summary, width: int) -> RenderableType:
    short = _short(found.sessions)
    rows = [
        (
            *(short[name], _second(one.first_ns), _second(one.last_ns, after=one.first_ns)),
            *(len(one.connections), one.frames, size(one.bytes)),
        )
        for name, one in sorted(found.sessions.items())
    ]
    titles = ["session", "first frame (UTC)", "last frame"]
    return _filled("Sessions", titles, ["conns", "frames", "bytes"], rows, width)


def _short(sessions: Iterable[str]) -> dict[str, str]:
    """A short name for each session: the time in its name, unless two share it. `--session` accepts it as a prefix."""
    starts = {name: name.partition("-")[0] for name in sessions}
    often = Counter(starts.values())
    return {name: start if often[start] == 1 else name for name, start in starts.items()}


def _second(at_ns: int, after: int | None = None) -> str:
    """UTC to the second; without its date if that is the date of `after`."""
    second = moment(at_ns).partition(".")[0]
    day = None if after is None else moment(after)[: len("2026-11-21 ")]
    return second.removeprefix(day) if day else second


def _or_blank(value: int | None) -> int | str:
    return "" if value is None else value


def _apis(found: Summary, width: int) -> RenderableType:
    rows = []
    of_apis = [item for item in found.apis.items() if item[0] not in _NO_EXCHANGE]
    for api, kinds in sorted(of_apis, key=lambda item: -sum(frames for frames, _ in item[1].values())):
        answers, received = kinds.get(c.RESPONSE, (0, 0))
        others = [one for kind, one in kinds.items() if kind != c.RESPONSE]
        asked, sent = (sum(column) for column in zip((0, 0), *others, strict=True))
        rows.append((api, asked, answers, size(sent), size(received)))
    return _filled("Frames by API", ["API"], ["requests", "responses", "sent", "received"], rows, width)


def _of_no_exchange(found: Summary, width: int) -> RenderableType:
    kinds = {kind: found.apis.get(kind, {}).get(kind) for kind in _NO_EXCHANGE}
    rows = [(kind, counted[0], size(counted[1])) for kind, counted in kinds.items() if counted]
    return _filled("Frames of no exchange: inspect frames --kind", ["kind"], ["frames", "bytes"], rows, width)


def _filled(
    title: str, names: list[str], numbers: list[str], rows: Iterable[tuple[Any, ...]], width: int
) -> RenderableType:
    """A table. Its first name and first number are always shown; of the other columns the last are left out first."""
    columns = [Column(name, rank=at and len(numbers) + at, least=LONGEST_NAME) for at, name in enumerate(names)]
    columns += [Column(name, is_number=True, rank=at) for at, name in enumerate(numbers)]
    cells = [[count(cell) if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    return fitted(title, columns, cells, width)


def _special(frames: Any) -> dict[str, int]:
    """The number of frames made by the proxy, and of frames stored only in part."""
    found = {"partly left out": _true(_has_spans(frames, c.OMITTED))}
    found["made by the proxy"] = _true(pc.equal(frames[c.MADE_BY], c.BY_PROXY))
    return {name: number for name, number in found.items() if number}


def _has_spans(frames: Any, column: str) -> pa.ChunkedArray:
    return pc.greater(pc.list_value_length(frames[column]), 0)


def _true(mask: pa.ChunkedArray) -> int:
    return pc.sum(mask).as_py() or 0
