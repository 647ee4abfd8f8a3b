"""Lists as lines: aligned columns for people, one JSON object a line for programs. No colours, no wrapping."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from recorder.capture import frames as c
from recorder.inspect.exchanges import Pair
from recorder.terminal import milliseconds, size

Row = Mapping[str, Any]
# title, width, right-aligned; the last column is as wide as it likes
FRAME_TITLES = (
    ("time (UTC)", 26, False),
    ("id", 12, False),
    ("client", 21, False),
    ("", 2, False),
    ("node", 4, True),
    ("api", 24, False),
    ("ver", 3, True),
    ("size", 8, True),
    ("ms", 8, True),
    ("client id, notes", 0, False),
)
EXCHANGE_TITLES = (
    ("time (UTC)", 26, False),
    ("request", 12, False),
    ("response", 12, False),
    ("client", 21, False),
    ("node", 4, True),
    ("api", 24, False),
    ("ver", 3, True),
    ("sent", 8, True),
    ("received", 8, True),
    ("ms", 8, True),
    ("client id, outcome, errors", 0, False),
)
Titles = Sequence[tuple[str, int, bool]]


def moment(at_ns: int) -> str:
    """Wall-clock nanoseconds as UTC, to the microsecond."""
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}.{at_ns % 10**9 // 1000:06}"


def frame_id(row: Row) -> str:
    """What `inspect show` takes: SESSION/CONNECTION/SEQUENCE."""
    return f"{row[c.SESSION]}/{row[c.CONNECTION]}/{row[c.SEQUENCE]}"


def header(titles: Titles) -> str:
    """The line above a list."""
    return aligned(titles, [title for title, _, _ in titles])


def aligned(titles: Titles, cells: Sequence[str]) -> str:
    """The cells below each other; one that is too wide pushes the others, nothing is cut."""
    parts = [
        cell.rjust(width) if right else cell.ljust(width) for cell, (_, width, right) in zip(cells, titles, strict=True)
    ]
    return "  ".join(parts).rstrip()


def frame_line(row: Row) -> str:
    """A frame as a line under FRAME_TITLES."""
    direction = "<-" if row[c.KIND] == c.RESPONSE else "->"
    notes = [row[c.CLIENT_ID] or "", "by proxy" if row[c.MADE_BY] == c.BY_PROXY else "", row[c.NOTE] or ""]
    notes += ["one-way" if row[c.AWAITS] is False else "", "masked" if row[c.MASKED] else ""]
    cells = [moment(row[c.AT_NS]), _short_id(row), row[c.CLIENT] or "", direction, _or_blank(row[c.NODE]), _api(row)]
    cells += [_or_blank(row[c.API_VERSION]), size(row[c.SIZE]), _ms(row[c.LATENCY_NS]), _joined(notes)]
    return aligned(FRAME_TITLES, cells)


def exchange_line(pair: Pair, errors: Sequence[str]) -> str:
    """An exchange as a line under EXCHANGE_TITLES."""
    head, request, response = pair.head, pair.request, pair.response
    outcome = "" if pair.outcome == "answered" else pair.outcome.value.replace("_", " ")
    ids = [_short_id(row) if row else "-" for row in (request, response)]
    sizes = [size(row[c.SIZE]) if row else "-" for row in (request, response)]
    cells = [moment(head[c.AT_NS]), *ids, head[c.CLIENT] or "", _or_blank(head[c.NODE]), _api(head)]
    cells += [_or_blank(head[c.API_VERSION]), *sizes, _ms(response[c.LATENCY_NS] if response else None)]
    return aligned(EXCHANGE_TITLES, [*cells, _joined([head[c.CLIENT_ID] or "", outcome, " ".join(errors)])])


def frame_json(row: Row) -> str:
    """A frame's head as a line of JSON; nulls are left out."""
    facts = {name: value for name, value in row.items() if name not in (c.AT, c.FRAME) and value is not None}
    return json.dumps({"id": frame_id(row), "at": moment(row[c.AT_NS]), **facts})


def exchange_json(pair: Pair, errors: Sequence[str] | None) -> str:
    """An exchange as a line of JSON; nulls are left out. `errors` None: the bodies were not read."""
    head, request, response = pair.head, pair.request, pair.response
    shared = (c.SESSION, c.CONNECTION, c.EXCHANGE, c.CLIENT, c.NODE, c.LISTENER, c.PRINCIPAL)
    facts: dict[str, Any] = {"at": moment(head[c.AT_NS])} | {name: head[name] for name in shared}
    facts |= {name: head[name] for name in (c.API_KEY, c.API, c.API_VERSION, c.CORRELATION_ID, c.CLIENT_ID)}
    facts |= {"outcome": pair.outcome.value, "errors": errors}
    if request:
        facts |= {"request": frame_id(request), "request_size": request[c.SIZE]}
    if response:
        facts |= {"response": frame_id(response), "response_size": response[c.SIZE]}
        facts |= {name: response[name] for name in (c.LATENCY_NS, c.QUEUED_NS, c.TRANSFER_NS)}
    return json.dumps({name: value for name, value in facts.items() if value is not None})


def _short_id(row: Row) -> str:
    return f"{row[c.CONNECTION]}/{row[c.SEQUENCE]}"


def _api(row: Row) -> str:
    if row[c.API]:
        return str(row[c.API])
    return str(row[c.KIND]) if row[c.API_KEY] is None else f"api {row[c.API_KEY]}"


def _or_blank(value: Any) -> str:
    return "" if value is None else str(value)


def _ms(nanoseconds: int | None) -> str:
    return milliseconds(None if nanoseconds is None else nanoseconds / 1e6)


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)
