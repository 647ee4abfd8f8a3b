"""Records of logs as lines: what each holds, who produced it and when, who fetched it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from proxy.command_line import INDENT, folded
from proxy.terminal import printable
from proxy.wire.error_codes import kafka_error
from recorder.inspect.chosen_columns import csv_line
from recorder.inspect.lines import instant, moment
from recorder.reading.elements import hash_shown, shown
from recorder.reading.records import Fetched, LogRecord, Produced
from recorder.reading.schemas import Value

_PLACE = ("cluster", "topic", "partition", "offset")
COLUMNS = (*_PLACE, "timestamp", "key", "value", "produced", "produced_by", "error", "fetched_by")
# letters of a key or a value that a list shows
_SHOWN = 80
Decode = Callable[[bytes | None], Value]
_NS_PER_MS = 1_000_000


def as_it_is(data: bytes | None) -> Value:
    """A key or a value without a schema."""
    return Value(shown(data))


def record_lines(
    record: LogRecord, width: int | None, decode: Decode = as_it_is, *, is_whole: bool = True
) -> Iterator[str]:
    """A record as lines for people.

    `decode`: what makes texts of its key and its value. `is_whole`: False if more may come to be known of it, which is
    not missed then.
    """
    offset = "offset unknown" if record.offset is None else f"offset {record.offset}"
    place = f"{printable(record.topic)}-{record.partition} {offset}"
    key, value = (_value(record, each, decode) for each in (record.key, record.value))
    mark = "hash " if record.is_hashed else ""
    facts = [place, f"key {mark}{_cut(key.text, record.key)}", f"value {mark}{_cut(value.text, record.value)}"]
    of_headers = ((name, _value(record, data, as_it_is).text, data) for name, data in record.headers)
    facts += [f"header {printable(name)}={mark}{_cut(text, data)}" for name, text, data in of_headers]
    yield from folded(", ".join(facts), width)
    for name, each in (("key", key), ("value", value)):
        if each.why:
            yield from folded(f"{INDENT}{name} not decoded: {printable(each.why)}", width)
    if is_whole or record.produced:
        yield from folded(INDENT + _produced(record.produced), width)
    for one in record.fetched:
        yield from folded(INDENT + _fetched(one), width)
    if is_whole and not record.fetched:
        untold = record.offset is None
        why = "its fetches are unknown: no answer told its offset" if untold else "no fetch of it was recorded"
        yield from folded(INDENT + why, width)


def _value(record: LogRecord, data: bytes | None, decode: Decode) -> Value:
    """A key or a value; where records are hashed, the hash, which no schema decodes."""
    return Value(hash_shown(data)) if record.is_hashed else decode(data)


def _produced(found: Produced | None) -> str:
    if found is None:
        return "its Produce was not recorded, or no answer told the offset"
    refused = f", refused: {kafka_error(found.error).name}" if found.error else ""
    return f"produced {moment(found.at_ns)} by {_who(found)}{refused}"


def _fetched(found: Fetched) -> str:
    group = "group unknown" if found.group is None else f"group {printable(found.group)}"
    return f"fetched  {moment(found.at_ns)} by {_who(found)}, {group}"


def _who(found: Produced | Fetched) -> str:
    named = printable(found.client_id) if found.client_id else "no client id"
    exchange = found.exchange.partition("/")[2]
    logged_in = f", principal {printable(found.principal)}" if found.principal else ""
    return f"{named} ({printable(found.client or '')}{logged_in}), {exchange}"


def _cut(text: str | None, data: bytes | None) -> str:
    if text is None:
        return "null"
    return printable(text) if len(text) <= _SHOWN else f"{printable(text[:_SHOWN])}... ({len(data or b'')} bytes)"


def record_json(record: LogRecord, decode: Decode = as_it_is) -> str:
    """A record as a line of JSON. What is unknown is null. `decode`: as of `record_lines`."""
    texts = {name: _value(record, data, decode) for name, data in (("key", record.key), ("value", record.value))}
    undecoded = {name: each.why for name, each in texts.items() if each.why}
    return json.dumps(
        {
            **_place(record),
            "timestamp": _time(record),
            **{name: each.text for name, each in texts.items()},
            **({"undecoded": undecoded} if undecoded else {}),
            **({"is_hashed": True} if record.is_hashed else {}),
            "headers": [
                {"name": name, "value": _value(record, value, as_it_is).text} for name, value in record.headers
            ],
            "produced": record.produced and _as_json(record.produced),
            "fetched": [_as_json(each) for each in record.fetched],
        }
    )


def record_csv(record: LogRecord, decode: Decode = as_it_is) -> str:
    """A record as a line of CSV, under COLUMNS. `decode`: as of `record_lines`."""
    made = record.produced
    readers = dict.fromkeys(f"{each.client_id or each.client} ({each.group or '?'})" for each in record.fetched)
    by = (instant(made.at_ns), made.client_id or made.client, _error(made)) if made else (None,) * 3
    texts = (_value(record, each, decode).text for each in (record.key, record.value))
    cells = (*_place(record).values(), _time(record), *texts, *by, ", ".join(readers))
    return csv_line(cells)


def _place(record: LogRecord) -> dict[str, Any]:
    place = {"cluster": record.cluster, "topic": record.topic}
    return {**place, "partition": record.partition, "offset": record.offset}


def _time(record: LogRecord) -> str | None:
    return None if record.timestamp_ms is None else instant(record.timestamp_ms * _NS_PER_MS)


def _as_json(found: Produced | Fetched) -> dict[str, Any]:
    facts = {"at": instant(found.at_ns), "client_id": found.client_id, "client": found.client}
    facts |= {"principal": found.principal, "exchange": found.exchange}
    return facts | ({"error": _error(found)} if isinstance(found, Produced) else {"group": found.group})


def _error(found: Produced) -> str | None:
    return None if found.error is None else kafka_error(found.error).name
