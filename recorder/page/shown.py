"""What the page shows of an exchange, ready for JSON: a line of the list; the whole, decoded.

Values of fields stand as a filter takes them, so that a click can make a condition of each. Times are texts, or ms:
JavaScript's numbers can't hold nanoseconds since 1970, nor all offsets, which become texts where they are too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from proxy.tools.plain import lines
from proxy.wire.budget import Budget
from proxy.wire.error_codes import kafka_error
from recorder.capture import frames as c
from recorder.capture.reader import Row
from recorder.group_lag import Seen, Standing
from recorder.inspect.body import body
from recorder.inspect.lines import error_counts, errors_text, frame_id, instant, wait_text
from recorder.page.counts import Counts, Lines
from recorder.page.series import has_fault
from recorder.query.evaluation import UNKNOWN, Element
from recorder.query.fields import FIELDS, Level
from recorder.reading.exchanges import Pair, exchange_id

# the largest number that JavaScript holds exactly
_LARGEST = (1 << 53) - 1
# names of topics and so on that a line of the list shows; elements that an exchange shows
_NAMES_SHOWN, _ELEMENTS_SHOWN = 4, 500
# bytes shown of a value, records of a partition, lines of a body; the memory for all of it
_BYTES_SHOWN, _RECORDS_SHOWN, _LINES_SHOWN = 1024, 50, 5000
_BUDGET = 32 << 20
_HEAD_FIELDS = tuple(field.name for field in FIELDS.values() if field.level is Level.HEAD and field.name != "kind")
_ELEMENT_FIELDS = tuple(field.name for field in FIELDS.values() if field.level is Level.ELEMENT)
Json = dict[str, Any]


def line(number: int, pair: Pair, head: Json, elements: Sequence[Element]) -> Json:
    """A line of the list. `number`: the exchange's number in `Recent`."""
    reading = pair.reading
    found: Json = {"number": number, "id": exchange_id(pair.head), "at": instant(head["at"])}
    found |= {name: head.get(name) for name in ("api", "version", "client_id", "node", "connection", "session")}
    found |= {name: head.get(name) for name in ("sent", "received", "outcome")}
    found |= {"latency_ms": _ms(head.get("latency")), "wait": bool(wait_text(pair))}
    found |= {"errors": [*error_counts(reading)] if reading else [], "fault": has_fault(pair, head)}
    found |= {"error_text": errors_text(reading, head["api_key"]) if reading else ""}
    return found | {name: _first([*_names(elements, name)]) for name in ("topic", "group")}


def _first(names: list[str]) -> Json:
    return {"names": names[:_NAMES_SHOWN], "more": max(len(names) - _NAMES_SHOWN, 0)}


def _names(elements: Iterable[Element], name: str) -> Iterator[str]:
    """The different values of a field of elements, as texts, in their order."""
    found = (each.get(name) for each in elements)
    yield from dict.fromkeys(value for value in found if isinstance(value, str))


def whole(pair: Pair, head: Json, elements: Sequence[Element]) -> Json:
    """An exchange with what both of its frames say, as `inspect show` has it: secrets masked, long values cut."""
    budget = Budget(_BUDGET)
    fields = [name for name in _ELEMENT_FIELDS if any(name in each for each in elements)]
    rows = [[_value(name, each.get(name)) for name in fields] for each in elements[:_ELEMENTS_SHOWN]]
    return {
        "id": exchange_id(pair.head),
        "at": instant(head["at"]),
        "head": [[name, _head_value(name, head)] for name in _HEAD_FIELDS if head.get(name) is not None],
        "errors": errors_text(pair.reading, head["api_key"]) if pair.reading else "",
        "wait": wait_text(pair),
        "fields": fields,
        "elements": rows,
        "more_elements": max(len(elements) - _ELEMENTS_SHOWN, 0),
        "frames": [_frame(row, pair.request, budget) for row in (pair.request, pair.response) if row],
    }


def _head_value(name: str, head: Json) -> Any:
    """A head's value as a filter takes it."""
    value = head[name]
    if name == "client":
        return value[1]
    if name == "at":
        return instant(value)
    return f"{value / 1e6:g}ms" if name in ("latency", "queued", "transfer") else _value(name, value)


def _value(name: str, value: Any) -> Any:
    """A value as a filter takes it; None for one that is not known."""
    if value is UNKNOWN:
        return None
    if name == "error" and isinstance(value, int):
        return kafka_error(value).name if value else "NONE"
    return str(value) if isinstance(value, int) and abs(value) > _LARGEST else value


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6


def _frame(row: Row, request: Row | None, budget: Budget) -> Json:
    """A frame's head, and its body as lines with their depth."""
    decoded = body(row, _RECORDS_SHOWN, request, budget=budget)
    told: list[Json] = []
    is_cut = False
    for each in lines(decoded.values or {}, 0, _BYTES_SHOWN):
        if len(told) == _LINES_SHOWN or not budget.text.try_take(len(each.text)):
            is_cut = True
            break
        text = each.text.lstrip(" ")
        told.append({"depth": (len(each.text) - len(text)) // 2, "text": text})
    notes = [decoded.why, row[c.NOTE] or "", "not all is shown: it is too long" if is_cut else ""]
    notes += ["made by the proxy" if row[c.MADE_BY] == c.BY_PROXY else ""]
    notes += ["its body is too large to be kept here" if row[c.FRAME] is None and not row[c.OMITTED] else ""]
    notes += [_OF_RULES[row[c.RECORDS]] if row.get(c.RECORDS) in _OF_RULES else ""]
    head = {"id": frame_id(row), "kind": row[c.KIND], "at": instant(row[c.AT_NS]), "size": row[c.SIZE]}
    return head | {"notes": [*filter(None, notes)], "lines": told}


def tables(counts: Counts, now_ns: int, limit: int) -> Json:
    """All tables of `counts`, each with its first lines, and how many others there are or were.

    `now_ns`: the moment at which groups' lag is judged, in ns since 1970. `limit`: of each table's lines.
    """
    found = {name: _table(counts.lines(name, limit), _sums) for name in counts.names}
    return found | {"lags": _table(counts.lags(now_ns, limit), _lag)}


def _table(found: Lines[Any], line: Callable[[Any], Json]) -> Json:
    return {"lines": [*map(line, found.shown)], "total": found.total, "forgotten": found.forgotten}


def _sums(line: Json) -> Json:
    return {name: line[name] for name in line if name != "last_ns"} | {"last": instant(line["last_ns"])}


def _lag(one: Standing) -> Json:
    return {
        "group": one.place.group,
        "topic": one.place.partition.topic,
        "partition": one.place.partition.number,
        "state": one.state,
        "lag": one.lag,
        "committed": one.committed.offset,
        "committed_at": _instant(one.committed),
        "end": one.end and one.end.offset,
        "end_at": one.end and _instant(one.end),
    }


def _instant(seen: Seen) -> str:
    return instant(round(seen.at * 1e9))


_OF_RULES = {
    c.DROP: "records are not kept, by a rule of the recording",
    c.HASH: "hashes stand in place of records' keys, values and headers, by a rule of the recording",
}
