"""Everything about one connection: its facts, its events, and exchanges by api with their errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proxy.terminal import printable
from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from recorder.capture import frames as c
from recorder.capture.reader import READING, Row, files, row_groups
from recorder.capture.remote import Place
from recorder.inspect.details import detail
from recorder.inspect.lines import api_name, error_counts, instant, moment
from recorder.query.columns import Rows
from recorder.reading.exchanges import pairs
from recorder.reading.rows import of_exchanges, rows
from recorder.terminal import count, size

_EVENTS = [name for name, _ in c.EVENT_COLUMNS]
# Memory of an event as a Python value; also of a connection, and of an api on it.
ENTRY_SIZE = 2000
# facts of the `opened` event, in the order in which they are shown
_FACTS = ("client", "listener", "node", "upstream", "tls", "cluster", "dialect", "principal")
# what the proxy decided: a sentence that needs no name before it
_DECISION = "event"
# facts of other events that are shown
_SHOWN_DETAILS = {
    c.EVENT_LOGIN: ("principal", "mechanism"),
    c.EVENT_HALF_CLOSED: ("by",),
    # why the proxy ended the connection, if it was the proxy's decision
    c.EVENT_CLOSED: (_DECISION, "setting", "api", "version", "length", "limit", "what", "reason"),
}


@dataclass(slots=True)
class Api:
    """Counts of an api's exchanges: all, by outcome, errors by name, unread responses by reason."""

    exchanges: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Connection:
    """A connection, with its events in order of time, and its frames' number and bytes.

    `first_ns`, `last_ns`: the times of its first and last frame, ns since 1970; None without frames.
    """

    session: str
    number: int
    events: list[Row] = field(default_factory=list)
    apis: dict[str, Api] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None
    frames: int = 0
    bytes: int = 0

    @property
    def id(self) -> str:
        """SESSION/CONNECTION."""
        return f"{self.session}/{self.number}"

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the `opened` event; {} if it is missing. The principal is that of the last login."""
        opened = next((event for event in self.events if event[c.KIND] == c.EVENT_OPENED), None)
        known = detail(opened) if opened else {}
        logins = [detail(event) for event in self.events if event[c.KIND] == c.EVENT_LOGIN]
        names = [login["principal"] for login in logins if login.get("principal")]
        return known | ({"principal": names[-1]} if names else {})


def connections(folder: Place, wanted: Rows, *, most: int = DEFAULT_BUDGET) -> list[Connection]:
    """The connections that `wanted` selects and that have frames or events, ordered by session.

    `most`: the limit in bytes of memory for each of these: rows of files, connections, the error codes of a response.
    Errors: as of `rows`.
    """
    found: dict[tuple[str, int], Connection] = {}
    allowance = Allowance("telling of connections", most)

    def of(row: Row) -> Connection:
        key = row[c.SESSION], row[c.CONNECTION]
        if key not in found:
            allowance.take(ENTRY_SIZE)
            found[key] = Connection(*key)
        return found[key]

    def counted() -> Iterator[Row]:
        for row in rows(folder, wanted, bodies=of_exchanges, most=most):
            _count(of(row), row)
            yield row

    for pair in pairs(counted(), most=most):
        api = _api(of(pair.head), api_name(pair.head), allowance)
        api.exchanges += 1
        api.outcomes[pair.outcome.value] += 1
        if pair.reading:
            api.errors.update(error_counts(pair.reading))
            api.unread.update([pair.reading.unread.value] if pair.reading.unread else [])
    for event in _events(folder, wanted, allowance):
        of(event).events.append(event)
    return [found[key] for key in sorted(found)]


def _api(connection: Connection, name: str, allowance: Allowance) -> Api:
    if name not in connection.apis:
        allowance.take(ENTRY_SIZE)
        connection.apis[name] = Api()
    return connection.apis[name]


def _count(connection: Connection, row: Row) -> None:
    connection.frames += 1
    connection.bytes += row[c.SIZE]
    at_ns = row[c.AT_NS]
    connection.first_ns = at_ns if connection.first_ns is None else min(connection.first_ns, at_ns)
    connection.last_ns = at_ns if connection.last_ns is None else max(connection.last_ns, at_ns)


def _events(folder: Place, wanted: Rows, allowance: Allowance) -> list[Row]:
    found: list[Row] = []
    for file in files(folder, c.EVENTS_FOLDER):
        for group in row_groups(file, _EVENTS, where=wanted.expression, allowance=Allowance(READING, allowance.size)):
            allowance.take(len(group) * ENTRY_SIZE)
            found += group.to_pylist()
    return sorted(found, key=lambda row: row[c.AT_NS])


def as_json(found: Connection) -> dict[str, Any]:
    """The connection, ready for JSON."""
    apis = {
        name: {"exchanges": api.exchanges, "outcomes": api.outcomes, "errors": api.errors, "unread": api.unread}
        for name, api in found.apis.items()
    }
    events = [
        {"at": instant(event[c.AT_NS]), "kind": event[c.KIND]}
        | {name: event[name] for name in (c.CAUSE, c.FRAMES, c.BYTES) if event[name] is not None}
        | {"detail": detail(event)}
        for event in found.events
    ]
    times = {"first": found.first_ns, "last": found.last_ns}
    facts = {"id": found.id, **found.facts, "frames": found.frames, "bytes": found.bytes}
    facts |= {name: None if at is None else instant(at) for name, at in times.items()}
    return facts | {"apis": apis, "events": events}


def as_text(found: Connection) -> Iterator[str]:
    """The connection as printable lines."""
    return map(printable, _lines(found))


def _lines(found: Connection) -> Iterator[str]:
    yield f"{found.id}  connection, {count(found.frames, 'frame')}, {size(found.bytes)}"
    facts = found.facts
    parts = [f"{name} {_shown(facts[name])}" for name in _FACTS if facts.get(name) is not None]
    if parts:
        yield f"  {', '.join(parts)}"
    yield from _event_lines(found)
    for name, api in sorted(found.apis.items(), key=lambda item: -item[1].exchanges):
        yield f"  {_api_line(name, api)}"


def _api_line(name: str, api: Api) -> str:
    others = [
        f"{often} {outcome.replace('_', ' ')}" for outcome, often in api.outcomes.items() if outcome != "answered"
    ]
    errors = [f"{error} x{often}" for error, often in api.errors.most_common()]
    unread = [f"{often} unread ({why})" for why, often in api.unread.most_common()]
    return ", ".join([f"{name}: {count(api.exchanges, 'exchange')}", *others, *errors, *unread])


def _event_lines(found: Connection) -> Iterator[str]:
    for event in found.events:
        if event[c.KIND] == c.EVENT_LOGIN and not detail(event).get("principal"):
            # it marks the beginning or the end of bare tokens
            continue
        lost = [] if event[c.KIND] != c.EVENT_GAP else [_lost(event[c.FRAMES])]
        known = detail(event)
        shown = [name for name in _SHOWN_DETAILS.get(event[c.KIND], ()) if known.get(name)]
        facts = [str(known[name]) if name == _DECISION else f"{name} {known[name]}" for name in shown]
        parts = [event[c.CAUSE] or "", *lost, *facts]
        yield f"  {moment(event[c.AT_NS])} {event[c.KIND].replace('_', ' ')} {', '.join(filter(None, parts))}".rstrip()


def _shown(value: Any) -> str:
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"


def _lost(frames: int | None) -> str:
    return "an unknown number of frames lost" if frames is None else f"{frames} frames lost"
