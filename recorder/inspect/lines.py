"""Frames and exchanges as lines: cells of columns for people, a JSON object in each line for programs. No colours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.error_codes import kafka_error
from proxy.wire.error_reader import Unread
from proxy.wire.long_polls import Wait
from proxy.wire.normal_errors import is_normal
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome
from recorder.capture.reader import Row
from recorder.facts.response_errors import ResponseErrors, row_errors
from recorder.inspect.layouts import Cells, Layouts
from recorder.reading.exchanges import Pair, exchange_id, short_exchange_id
from recorder.reading.known import answered
from recorder.terminal import count, milliseconds, size

TITLES = {"time": "time (UTC)", "direction": "", "frame": "frame", "exchange": "exchange", "client": "client"}
TITLES |= {name: name for name in ("node", "api", "ver", "size", "sent", "received", "ms")}
FRAME_TITLES = TITLES | {"rest": "client id, errors, notes"}
EXCHANGE_TITLES = TITLES | {"rest": "client id, outcome, errors"}
# Each layout leaves room for a client id of usual length.
FRAME_LAYOUTS: Layouts = (
    (140, "time:26 frame:10 client:21 direction:2 node:4 api:24 ver:3 size:8 ms:8"),
    (100, "time:12 frame:8 direction:2 node:4 api:20 ver:3 size:7 ms:6"),
    (80, "time:12 frame:8 direction:2 api:18 size:7 ms:6"),
    (56, "time:12 frame:7 direction:2 api:14 ms:5"),
    (0, "frame:7 direction:2 api:14 ms:5"),
)
EXCHANGE_LAYOUTS: Layouts = (
    (140, "time:26 exchange:10 client:21 node:4 api:24 ver:3 sent:8 received:8 ms:8"),
    (100, "time:12 exchange:8 node:4 api:20 ver:3 received:8 ms:6"),
    (80, "time:12 exchange:8 api:18 ver:3 ms:6"),
    (56, "time:12 exchange:8 api:14 ms:5"),
    (0, "exchange:8 api:14 ms:5"),
)
# The words for a response with unknown errors.
UNREAD = {
    Unread.MASKED: "errors masked",
    Unread.OMITTED: "errors not kept",
    Unread.CUT: "errors cut off",
    Unread.UNKNOWN_VERSION: "errors unknown",
    Unread.MALFORMED: "errors unreadable",
    Unread.TOO_LARGE: "errors not read",
    Unread.OVER_BUDGET: "errors not read: more than --budget",
}


def moment(at_ns: int) -> str:
    """Wall-clock nanoseconds as UTC, to the microsecond."""
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S}.{at_ns % 10**9 // 1000:06}"


def instant(at_ns: int) -> str:
    """As `moment`, for programs: as RFC 3339 has it, "2026-11-21T12:00:00.000001Z"."""
    return f"{moment(at_ns).replace(' ', 'T')}Z"


def frame_id(row: Row) -> str:
    """A frame's id, as an argument of `inspect show`: SESSION/CONNECTION/SEQUENCE."""
    return f"{row[c.SESSION]}/{short_id(row)}"


def short_id(row: Row) -> str:
    """A frame within its session: CONNECTION/SEQUENCE."""
    return f"{row[c.CONNECTION]}/{row[c.SEQUENCE]}"


def frame_cells(row: Row, most: int = DEFAULT_BUDGET) -> Cells:
    """A frame as a line under FRAME_TITLES. A response's row must hold its body if the capture has it.

    A row of which facts tell the errors needs none.

    `most`: the limit in bytes of memory for its error codes.
    """
    notes = [row[c.CLIENT_ID] or "", "by proxy" if row[c.MADE_BY] == c.BY_PROXY else ""]
    reading = _reading(row, most) if row[c.KIND] == c.RESPONSE else None
    notes += [errors_text(reading, row[c.API_KEY]) if reading else "", row[c.NOTE] or ""]
    notes += ["one-way" if row[c.AWAITS] is False else "", "masked" if row[c.MASKED] else ""]
    cells = _shared_cells(row) | {"frame": short_id(row), "size": size(row[c.SIZE]), "ms": _ms(row[c.LATENCY_NS])}
    return Cells(cells | {"direction": "<-" if row[c.KIND] == c.RESPONSE else "->"}, _joined(notes))


def _reading(response: Row, most: int) -> ResponseErrors:
    return answered(response) or row_errors(response, budget=Budget(most))


def exchange_cells(pair: Pair) -> Cells:
    """An exchange as a line under EXCHANGE_TITLES."""
    head, request, response = pair.head, pair.request, pair.response
    outcome = "" if pair.outcome is Outcome.ANSWERED else pair.outcome.value.replace("_", " ")
    cells = _shared_cells(head) | {"exchange": short_exchange_id(head)}
    cells |= {name: size(row[c.SIZE]) if row else "-" for name, row in (("sent", request), ("received", response))}
    cells["ms"] = _ms(response[c.LATENCY_NS] if response else None)
    errors = errors_text(pair.reading, head[c.API_KEY]) if pair.reading else ""
    return Cells(cells, _joined([head[c.CLIENT_ID] or "", outcome, errors, wait_text(pair)]))


def errors_text(reading: ResponseErrors, api_key: int | None) -> str:
    """The errors by name, each with its number of occurrences; or why they are unknown.

    An error that is a normal step of the protocol in a response of this api is followed by "(normal)".
    """
    if reading.unread is not None:
        return UNREAD[reading.unread]
    return ", ".join(
        kafka_error(code).name
        + ("" if often == 1 else f" x{often}")
        + (" (normal)" if is_normal(api_key, code) else "")
        for code, often in Counter(reading.codes).items()
    )


def error_counts(reading: ResponseErrors) -> dict[str, int]:
    """The number of occurrences of each error, by name, in the order of the response."""
    return {kafka_error(code).name: often for code, often in Counter(reading.codes).items()}


def wait_text(pair: Pair) -> str:
    """For a possible long poll: the wait that its response shows, and the longest wait that its request allows.

    "" if the latency is the broker's work alone, or if the exchange is no long poll.
    """
    wait = pair.reading.wait if pair.reading else None
    if wait is None or wait.is_work:
        return ""
    shown = "" if wait is Wait.INCLUDES_WAIT else f": {wait.value}"
    allowed = "" if pair.allowed_ms is None else f", {count(pair.allowed_ms)} ms allowed"
    return f"long poll{shown}{allowed}"


def frame_json(row: Row, most: int = DEFAULT_BUDGET) -> str:
    """A frame's head as a line of JSON, with the errors of a response; other nulls are left out.

    `most`: as for `frame_cells`.
    """
    facts = {name: value for name, value in row.items() if name not in (c.AT, c.FRAME) and value is not None}
    errors = errors_json(_reading(row, most)) if row[c.KIND] == c.RESPONSE else {}
    return json.dumps({"id": frame_id(row), "at": instant(row[c.AT_NS]), **facts, **errors})


def exchange_json(pair: Pair) -> dict[str, Any]:
    """An exchange, ready for JSON, with the errors of its response; other nulls are left out."""
    head, request, response, reading = pair.head, pair.request, pair.response, pair.reading
    shared = (c.SESSION, c.CONNECTION, c.EXCHANGE, c.CLIENT, c.NODE, c.LISTENER, c.PRINCIPAL)
    facts: dict[str, Any] = {"id": exchange_id(head), "at": instant(head[c.AT_NS])}
    facts |= {name: head[name] for name in shared}
    facts |= {name: head[name] for name in (c.API_KEY, c.API, c.API_VERSION, c.CORRELATION_ID, c.CLIENT_ID)}
    facts |= {"outcome": pair.outcome.value, "allowed_ms": pair.allowed_ms}
    if request:
        facts |= {"request": frame_id(request), "request_size": request[c.SIZE]}
    if response:
        facts |= {"response": frame_id(response), "response_size": response[c.SIZE]}
        facts |= {name: response[name] for name in (c.LATENCY_NS, c.QUEUED_NS, c.TRANSFER_NS)}
    if reading:
        facts["wait"] = reading.wait and reading.wait.value
    known = {name: value for name, value in facts.items() if value is not None}
    return known | (errors_json(reading) if reading else {})


def errors_json(reading: ResponseErrors) -> dict[str, Any]:
    """`errors`: the number of occurrences by name, {} for none; if unknown, null, with the reason as `unread`."""
    if reading.unread is not None:
        return {"errors": None, "unread": reading.unread.value}
    return {"errors": error_counts(reading)}


def _shared_cells(row: Row) -> dict[str, str]:
    facts = {"time": moment(row[c.AT_NS]), "client": row[c.CLIENT] or "", "api": api_name(row)}
    return facts | {"node": _or_blank(row[c.NODE]), "ver": _or_blank(row[c.API_VERSION])}


def api_name(row: Row) -> str:
    """The name of a frame's api; its kind if it has none."""
    if row[c.API]:
        return str(row[c.API])
    return str(row[c.KIND]) if row[c.API_KEY] is None else f"api {row[c.API_KEY]}"


def _or_blank(value: Any) -> str:
    return "" if value is None else str(value)


def _ms(nanoseconds: int | None) -> str:
    return milliseconds(None if nanoseconds is None else nanoseconds / 1e6)


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)
