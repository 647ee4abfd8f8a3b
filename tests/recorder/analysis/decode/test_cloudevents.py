"""Tests of CloudEvents in records: each mode, each broken clause of the Kafka binding, and the SDK's events."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings import kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import records
from proxy.wire.records import Compression, Record
from recorder.analysis.decode import cloudevents
from recorder.analysis.decode.cloudevents import MEANINGS, Clause, Event, Mode, event_in, may_hold_events
from tests.tables import each_row

FOUR: dict[str, bytes | None] = {"ce_id": b"1", "ce_source": b"/here", "ce_specversion": b"1.0", "ce_type": b"t"}
BODY = {"id": "1", "source": "/here", "specversion": "1.0", "type": "t"}
JSON_EVENT: dict[str, bytes | None] = {"content-type": b"application/cloudevents+json; charset=UTF-8"}
DATA = b"\x01\x02"
PAGE = Path(__file__).resolve().parents[4] / "docs" / "cloudevents.md"


def event(headers: dict[str, bytes | None], value: bytes | None = DATA, *more: tuple[str, bytes | None]) -> Event:
    found = event_in(Record(0, value=value, headers=(*headers.items(), *more)))
    assert found
    return found


def no_event(headers: dict[str, bytes | None], value: bytes | None = DATA) -> None:
    assert event_in(Record(0, value=value, headers=(*headers.items(),))) is None


def body(**other: Any) -> bytes:
    """Returns a structured event; None removes a member."""
    return json.dumps({name: value for name, value in (BODY | other).items() if value is not None}).encode()


# --- modes ----------------------------------------------------------------------------------------------


def test_a_record_with_all_mandatory_attributes_as_headers_is_a_binary_event() -> None:
    found = event(FOUR | {"ce_time": b"2018-04-05T03:56:24Z", "content-type": b"application/avro", "trace": b"x"})
    assert (found.mode, found.data_bytes, found.is_tombstone, found.broken) == (Mode.BINARY, 2, False, {})
    assert found.attributes == BODY | {"time": "2018-04-05T03:56:24Z", "datacontenttype": "application/avro"}


def test_a_content_type_of_cloudevents_is_structured_in_any_case_of_letters() -> None:
    found = event({"content-type": b"Application/CloudEvents+JSON"}, body(data={"a": 1}))
    assert (found.mode, found.form, found.attributes, found.broken) == (Mode.STRUCTURED, "json", BODY, {})
    assert found.data_bytes == len('{"a": 1}')


def test_a_structured_event_may_say_its_attributes_in_headers_too() -> None:
    assert event(FOUR | JSON_EVENT, body()).broken == {}
    moments: dict[str, bytes | None] = {"ce_time": b"2018-04-05T03:56:24+00:00"}
    assert event(FOUR | JSON_EVENT | moments, body(time="2018-04-05T03:56:24Z")).broken == {}


def test_before_headers_there_were_structured_events_alone() -> None:
    found = event({}, body(data="x", datacontenttype="text/plain"))
    assert (found.mode, found.form, found.data_bytes, found.broken) == (Mode.STRUCTURED, "json", 1, {})


def test_an_event_in_another_format_is_opaque() -> None:
    found = event({"content-type": b"application/cloudevents+avro"}, b"\x00\xff")
    assert (found.mode, found.form, found.attributes, found.broken) == (Mode.STRUCTURED, "avro", {}, {})
    assert event(FOUR | {"content-type": b"application/cloudevents+avro"}).attributes == BODY


def test_other_records_are_no_events() -> None:
    no_event({}, None)
    no_event({}, b'{"specversion": "1.0", "type": "t"}')
    no_event({}, b'"specversion"')
    no_event({"content-type": b"application/json", "type": b"t", "ce_vendor": b"x"}, b"{}")
    no_event({"content-type": b"text/plain"}, b'["specversion"]')


def test_only_a_binary_event_without_data_is_a_tombstone() -> None:
    found = event(FOUR, None)
    assert (found.is_tombstone, found.data_bytes, found.broken) == (True, None, {})
    assert not event(FOUR, b"").is_tombstone
    structured = event(JSON_EVENT, body())
    assert (structured.is_tombstone, structured.data_bytes) == (False, None)


def test_extensions_in_json_are_written_as_headers_would_have_them() -> None:
    found = event(JSON_EVENT, body(sampled=True, rank=7, partitionkey="k", subject=None))
    assert found.attributes == BODY | {"sampled": "true", "rank": "7", "partitionkey": "k"}
    assert found.broken == {}


@each_row(
    ("data", "size"),
    [
        ({"data": {"a": [1, 2]}}, len('{"a": [1, 2]}')),
        ({"data": "ä", "datacontenttype": "text/plain"}, 2),
        ({"data": "ä", "datacontenttype": "application/json"}, len('"\\u00e4"')),
        ({"data_base64": "AQID"}, 3),
        ({}, None),
    ],
    ids=["json", "text", "text of json", "base64", "none"],
)
def test_datas_bytes_are_those_of_the_data_itself(data: dict[str, Any], size: int | None) -> None:
    found = event(JSON_EVENT, body(**data))
    assert (found.data_bytes, found.broken) == (size, {})


# --- clauses --------------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Clause, dict[str, bytes | None], bytes | None]] = {
    "a batch": (Clause.MODES, {"content-type": b"application/cloudevents-batch+json"}, b"[]"),
    "no type": (Clause.MANDATORY, {name: FOUR[name] for name in FOUR if name != "ce_type"}, DATA),
    "value not of its type": (Clause.DATA, FOUR | {"content-type": b"application/json"}, b"{"),
    "value not UTF-8": (Clause.DATA, FOUR | {"content-type": b"application/vnd.x+json"}, b'"\xff"'),
    "ce_datacontenttype": (Clause.CONTENT_TYPE, FOUR | {"ce_datacontenttype": b"text/plain"}, DATA),
    "Content-Type": (Clause.CONTENT_TYPE, FOUR | {"Content-Type": b"text/plain"}, DATA),
    "ce_data": (Clause.DATA_IS_VALUE, FOUR | {"ce_data": b"x"}, None),
    "ce_data_base64": (Clause.DATA_IS_VALUE, FOUR | {"ce_data_base64": b"x"}, None),
    "header not UTF-8": (Clause.HEADERS, FOUR | {"ce_subject": b"\xff"}, DATA),
    "null header": (Clause.HEADERS, FOUR | {"ce_subject": None}, DATA),
    "mandatory header not UTF-8": (Clause.HEADERS, FOUR | {"ce_id": b"\xff"}, DATA),
    "headers as of HTTP": (Clause.HEADER_NAMES, {f"ce-{name[3:]}": FOUR[name] for name in FOUR}, DATA),
    "capitals": (Clause.HEADER_NAMES, FOUR | {"ce_Subject": b"s"}, DATA),
    "a name not UTF-8": (Clause.HEADER_NAMES, FOUR | {"ce_\ufffd": b"s"}, DATA),
    "other content-type": (Clause.MEDIA_TYPE, {"content-type": b"application/json"}, body()),
    "no event format": (Clause.MEDIA_TYPE, {"content-type": b"application/cloudevents"}, body()),
    "Content-Type of an event": (Clause.MEDIA_TYPE, {"Content-Type": JSON_EVENT["content-type"]}, body()),
    "no value": (Clause.EVENT_FORMAT, JSON_EVENT, None),
    "no JSON": (Clause.EVENT_FORMAT, JSON_EVENT, b"{"),
    "no object": (Clause.EVENT_FORMAT, JSON_EVENT, b"[]"),
    "JSON not UTF-8": (Clause.EVENT_FORMAT, JSON_EVENT, body(subject="?").replace(b"?", b"\xff")),
    "a wrong escape": (Clause.EVENT_FORMAT, JSON_EVENT, body(subject="?").replace(b"?", b"\\ud800")),
    "no id": (Clause.EVENT_FORMAT, JSON_EVENT, body(id=None)),
    "an empty id": (Clause.EVENT_FORMAT, JSON_EVENT, body(id="")),
    "a number as type": (Clause.EVENT_FORMAT, JSON_EVENT, body(type=7)),
    "an object as extension": (Clause.EVENT_FORMAT, JSON_EVENT, body(extension={"a": 1})),
    "a name with a dash": (Clause.EVENT_FORMAT, JSON_EVENT, body(**{"my-name": "x"})),
    "data twice": (Clause.EVENT_FORMAT, JSON_EVENT, body(data=1, data_base64="AQ==")),
    "no base64": (Clause.EVENT_FORMAT, JSON_EVENT, body(data_base64="?")),
    "base64 of a number": (Clause.EVENT_FORMAT, JSON_EVENT, body(data_base64=5)),
    "another header": (Clause.SAME_HEADERS, FOUR | JSON_EVENT, body(id="2")),
}


@each_row(("clause", "headers", "value"), BROKEN.values(), ids=BROKEN)
def test_a_clause_that_is_broken_is_named_alone(
    clause: Clause, headers: dict[str, bytes | None], value: bytes | None
) -> None:
    found = event(headers, value)
    assert [*found.broken] == [clause]
    assert found.broken[clause]


def test_an_attribute_that_stands_twice_is_no_single_header() -> None:
    assert [*event(FOUR, DATA, ("ce_id", b"2")).broken] == [Clause.HEADERS]


def test_each_clause_has_been_broken_and_is_explained() -> None:
    assert {clause for clause, _, _ in BROKEN.values()} == {*Clause} == MEANINGS.keys()
    page = PAGE.read_text()
    assert [clause for clause, meaning in MEANINGS.items() if f"| {clause} | {meaning} |" not in page] == []


def test_headers_with_some_of_the_attributes_are_an_incomplete_event_that_says_which_are_missing() -> None:
    found = event({"ce_id": b"1", "ce_source": b"/here"})
    assert (found.mode, found.broken) == (Mode.INCOMPLETE, {Clause.MANDATORY: "no specversion, type"})


def test_several_clauses_may_be_broken_at_once() -> None:
    found = event({"ce-id": b"\xff", "ce_data": b"x"}, None)
    assert {*found.broken} == {Clause.HEADER_NAMES, Clause.HEADERS, Clause.DATA_IS_VALUE, Clause.MANDATORY}


def test_a_value_that_is_too_large_to_be_parsed_is_an_event_by_its_headers_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cloudevents, "MOST_JSON", 10)
    no_event({}, body())
    found = event(JSON_EVENT, body())
    assert (found.mode, found.attributes, found.broken) == (Mode.STRUCTURED, {}, {})
    assert event(JSON_EVENT | FOUR, body()).attributes == BODY


@pytest.mark.parametrize(("opens", "closes"), ["[]", "{}"], ids=["arrays", "objects"])
def test_an_array_or_an_object_as_an_attribute_takes_a_few_times_its_bytes(opens: str, closes: str) -> None:
    many = ",".join([opens + closes] * 100_000)
    nested = f"[{many}]" if opens == "[" else f'{{"x":[{many}]}}'
    value = f'{json.dumps(BODY)[:-1]},"strange":{nested}}}'.encode()
    event(JSON_EVENT, body())
    tracemalloc.start()
    found = event(JSON_EVENT, value)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.attributes["strange"] == nested
    assert {*found.broken} == {Clause.EVENT_FORMAT}
    # parsed, each would be an object of at least 56 bytes, from three bytes of JSON
    assert most < 10 * len(value)


def test_members_that_are_null_are_not_there() -> None:
    found = event(JSON_EVENT, b'{"id":"1","source":"/here","specversion":"1.0","type":"t","subject":null,"data":null}')
    assert (found.attributes, found.data_bytes, found.broken) == (BODY, None, {})


# --- the SDK's events -----------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=20)
MOMENTS = st.datetimes(
    datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))])
)
EXTENSIONS = st.dictionaries(st.from_regex("[a-z0-9]{1,8}", fullmatch=True).map("x".__add__), TEXT, max_size=3)
OPTIONAL = st.fixed_dictionaries(
    {}, optional={"subject": TEXT, "dataschema": TEXT, "partitionkey": TEXT, "time": MOMENTS}
)
ATTRIBUTES = st.fixed_dictionaries({"id": TEXT, "source": TEXT, "type": TEXT})
JSON_DATA = st.dictionaries(TEXT, st.integers() | TEXT | st.booleans(), max_size=4)
DATAS = st.one_of(
    st.tuples(st.just("application/json"), JSON_DATA),
    st.tuples(st.just("text/plain"), TEXT),
    st.tuples(st.just("application/octet-stream"), st.binary(min_size=1)),
)


def as_told(attributes: dict[str, Any]) -> dict[str, str]:
    """Returns attributes as text; the SDK writes UTC as Z."""
    return {
        name: value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
        for name, value in attributes.items()
    }


@pytest.mark.parametrize("write", [kafka.to_binary, kafka.to_structured], ids=["binary", "structured"])
@given(ATTRIBUTES, OPTIONAL, EXTENSIONS, DATAS)
def test_an_event_of_the_sdk_comes_back_whole(
    write: Any, attributes: dict[str, Any], optional: dict[str, Any], extensions: dict[str, str], data: tuple[str, Any]
) -> None:
    made = CloudEvent({**attributes, **optional, **extensions, "datacontenttype": data[0]}, data[1])
    message = write(made, JSONFormat())
    key = None if message.key is None else message.key.encode()
    found = event_in(Record(0, key=key, value=message.value, headers=(*message.headers.items(),)))
    assert found
    assert found.mode == ("binary" if write is kafka.to_binary else "structured")
    assert found.attributes == as_told(made.get_attributes())
    assert found.broken == {}
    assert found.data_bytes == len(JSONFormat().write_data(data[1], data[0]))


@given(
    st.lists(st.tuples(st.sampled_from([*FOUR, "content-type", "ce-id", "ce_", "x"]), st.none() | st.binary())),
    st.binary(),
)
def test_any_record_is_an_event_or_none(headers: list[tuple[str, bytes | None]], value: bytes) -> None:
    event_in(Record(0, value=value, headers=(*headers,)))


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)
    )
)
def test_any_json_is_an_event_or_a_violation(value: Any) -> None:
    for members in (value, BODY | {"x": value, "data": value}, BODY | {"id": value, "data_base64": value}):
        assert event(JSON_EVENT, json.dumps(members).encode()).mode == Mode.STRUCTURED


NAMES = [
    "ce_id",
    "CE_Id",
    "ce-id",
    "Ce-Source",
    "cE_type",
    "ce_specversion",
    "content-type",
    "Content-Type",
    "x",
    "\u212a",
]
VALUES = [None, b"", b"1", b"text/plain", b"application/cloudevents+json", b"Application/CloudEvents-Batch", b"\xff"]
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=5)
RECORDS = st.lists(
    st.builds(
        lambda headers, value: Record(0, value=value, headers=tuple(headers)),
        HEADERS,
        st.sampled_from([None, b"", b"{}", body(), body(subject="s"), b'"specversion"']),
    ),
    max_size=3,
)


@given(RECORDS, st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_a_batch_that_is_skipped_holds_no_event(found: list[Record], codec: Compression) -> None:
    data = records.write_batch(found, codec=codec)
    (batch,) = records.batches(data)
    if not may_hold_events(data, batch):
        assert [event_in(record) for record in found] == [None] * len(found)


def test_batches_without_a_mark_are_passed_over() -> None:
    plain = records.write_batch([Record(0, value=b"{}", headers=(("content-type", b"application/json"),))])
    event = records.write_batch([Record(0, value=body())])
    data = plain + event
    assert [may_hold_events(data, batch) for batch in records.batches(data)] == [False, True]


TEXT_OF_DATA = '{"grüße": "€"}'


@each_row(
    ("media_type", "value"),
    [
        ("application/json; charset=UTF-16", TEXT_OF_DATA.encode("utf-16")),
        ("application/json;charset=utf-16", TEXT_OF_DATA.encode("utf-16-be")),
        ('text/json; charset="utf-16le"', TEXT_OF_DATA.encode("utf-16-le")),
        ("application/json; charset=utf-32", TEXT_OF_DATA.encode("utf-32-be")),
        ("application/json; charset=windows-1252", TEXT_OF_DATA.encode("cp1252")),
        ("application/json; charset=ISO-8859-15", TEXT_OF_DATA.encode("iso8859-15")),
        ("application/vnd.x+json; charset=utf-8", TEXT_OF_DATA.encode()),
        ("application/json; charset=x-own", TEXT_OF_DATA.encode()),
    ],
)
def test_data_in_the_charset_of_its_media_type_breaks_nothing(media_type: str, value: bytes) -> None:
    assert event({**FOUR, "content-type": media_type.encode()}, value).broken == {}


@each_row(
    ("media_type", "value"),
    [
        ("application/json", TEXT_OF_DATA.encode("utf-16")),
        ("application/json; charset=us-ascii", TEXT_OF_DATA.encode()),
        ("application/json; charset=utf-16", TEXT_OF_DATA.encode()),
        ("application/json; charset=utf-8", TEXT_OF_DATA.encode("cp1252")),
        ("application/json; charset=punycode", TEXT_OF_DATA.encode("cp1252")),
    ],
)
def test_data_in_another_charset_than_that_of_its_media_type_is_named(media_type: str, value: bytes) -> None:
    assert [*event({**FOUR, "content-type": media_type.encode()}, value).broken] == [Clause.DATA]


def test_a_structured_event_may_have_a_charset_too() -> None:
    content_type = b"application/cloudevents+json; charset=UTF-16"
    found = event({"content-type": content_type}, body(subject="grüße").decode().encode("utf-16"))
    assert (found.broken, found.attributes["subject"]) == ({}, "grüße")
