"""Tests of decoding by schemas: what a library wrote reads back, and nothing that is wrong ends a list."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.reading.avro_limits import Endless, check
from recorder.reading.schema_sources import USERINFO, NoSchema, Registry, Schema
from recorder.reading.schemas import MAX_DATA, MAX_SCHEMAS, Schemas, Value, schemas_at
from tests.servers import Quiet, serving

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "prices", "type": {"type": "map", "values": "double"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
    ],
}
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(1 << 63), (1 << 63) - 1),
        "note": st.none() | TEXT,
        "raw": TEXT.map(str.encode),
        "prices": st.dictionaries(TEXT, st.floats(allow_nan=False), max_size=4),
        "tags": st.lists(TEXT, max_size=4),
        "state": st.sampled_from(["NEW", "PAID"]),
    }
)


class Kept:
    """Schemas by id. `asked`: how often."""

    def __init__(self, **schemas: Schema) -> None:
        self.schemas, self.asked = {int(name[1:]): schema for name, schema in schemas.items()}, 0

    def schema(self, number: int) -> Schema:
        self.asked += 1
        if number not in self.schemas:
            raise NoSchema("there is none")
        return self.schemas[number]


def avro(schema: Any, value: Any, number: int = 7) -> bytes:
    """What Confluent's serializer writes."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


AVRO = Schemas(Kept(s7=Schema("AVRO", json.dumps(ORDER))))


@given(ORDERS)
def test_what_fastavro_wrote_reads_back(order: dict[str, Any]) -> None:
    found = AVRO.value(avro(ORDER, order))
    assert found.why is None
    assert json.loads(found.text or "") == order | {"raw": order["raw"].decode()}


@given(st.binary(max_size=60))
def test_broken_bytes_are_shown_as_they_are_with_a_reason(data: bytes) -> None:
    whole = b"\0\0\0\0\7" + data
    found = AVRO.value(whole)
    if found.why is None:
        stream = BytesIO(data)
        fastavro.schemaless_reader(stream, fastavro.parse_schema(ORDER))
        assert not stream.read()
    else:
        assert found.text == whole.decode("utf-8", "backslashreplace")
        assert found.why.startswith("schema 7: ")


def test_bytes_behind_a_value_are_a_reason() -> None:
    order: dict[str, Any] = {"id": 1, "note": None, "raw": b"", "prices": {}, "tags": [], "state": "NEW"}
    assert AVRO.value(avro(ORDER, order) + b"more").why == "schema 7: 4 bytes are left behind its data"


def test_what_names_no_schema_has_no_reason() -> None:
    assert [AVRO.value(data) for data in (None, b"", b"text", b"\0ab")] == [
        Value(None),
        Value(""),
        Value("text"),
        Value("\0ab"),
    ]


def test_an_unknown_id_is_asked_for_once_and_there_are_not_too_many() -> None:
    source = Kept()
    schemas = Schemas(source)
    for number in (1, 1, 2):
        assert schemas.value(b"\0" + number.to_bytes(4, "big") + bytes([source.asked])).why == (
            f"schema {number}: there is none"
        )
    assert source.asked == 2
    whys = {schemas.value(b"\0" + number.to_bytes(4, "big")).why for number in range(MAX_SCHEMAS + 5)}
    assert source.asked == MAX_SCHEMAS
    assert f"schema {MAX_SCHEMAS + 4}: more than {MAX_SCHEMAS} schemas are named" in whys


def test_json_schema_is_shown_as_json() -> None:
    schemas = Schemas(Kept(s1=Schema("JSON", "{}")))
    assert schemas.value(b'\0\0\0\0\1{"a": 1}') == Value('{"a": 1}')
    assert (schemas.value(b"\0\0\0\0\1{").why or "").startswith("schema 1: its data don't fit it")


def test_a_value_that_is_too_large_is_shown_as_it_is() -> None:
    schemas = Schemas(Kept(s1=Schema("JSON", "{}")))
    assert (
        schemas.value(b"\0\0\0\0\1" + b'"' + b"a" * MAX_DATA + b'"').why == "schema 1: more than 1 MiB are not decoded"
    )
    long = {"type": "record", "name": "N", "fields": [{"name": "a" * 10_000, "type": "boolean"}]}
    many = {"type": "array", "items": long}
    large = Schemas(Kept(s7=Schema("AVRO", json.dumps(many)))).value(avro(many, [{"a" * 10_000: True}] * 1000))
    assert large.why == "schema 7: its data make more than 1048576 letters"


def nested(depth: int) -> Any:
    schema: Any = "int"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def record(name: str, *types: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(types)],
    }


def doubling(times: int) -> list[Any]:
    """Types of which each has the one before twice; the first has no bytes."""
    return [record("T0", "null"), *(record(f"T{at}", f"T{at - 1}", f"T{at - 1}") for at in range(1, times))]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record("N", ["null", "N"]), "refers to itself"),
        (record("N", "N"), "refers to itself"),
        ({**record("N", ["null", "a.N"]), "namespace": "a"}, "refers to itself"),
        ({"type": "array", "items": "null"}, "array of values without bytes"),
        ({"type": "array", "items": record("E")}, "array of values without bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "array of values without bytes"),
        (nested(101), "more than 100 levels"),
        (doubling(30), "more than 10000 values without bytes"),
        ({"type": "map", "values": record("W", *["null"] * 20)}, "more than 16 values without bytes of each"),
    ],
)
def test_a_schema_whose_data_could_be_endless_is_not_used(schema: Any, why: str) -> None:
    with pytest.raises(Endless, match=why):
        check([schema])
    found = Schemas(Kept(s7=Schema("AVRO", json.dumps(schema)))).value(b"\0\0\0\0\7" + b"\2" * 100_000)
    assert why in (found.why or "")


@pytest.mark.parametrize("schema", [ORDER, nested(90), doubling(8), ["null", record("R", ["null", "int"])]])
def test_usual_schemas_are_used(schema: Any) -> None:
    check([schema])


PROTO = """syntax = "proto3";
package shop;
import "money.proto";
message Order {
  message Line { string sku = 1; int32 count = 2; }
  int64 id = 1;
  repeated Line lines = 2;
  Money total = 3;
}
message Note { string text = 1; }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { string currency = 1; int64 cents = 2; }'
# an Order as Google's own library writes it, by hand: fields 1 (varint), 2 and 3 (messages)
ORDER_BYTES = b"\x08\x2a\x12\x07\x0a\x03abc\x10\x02\x1a\x06\x0a\x02EU\x10\x05"


@pytest.fixture(scope="module")
def protobuf() -> Schemas:
    return Schemas(Kept(s9=Schema("PROTOBUF", PROTO, {"money.proto": MONEY})))


@pytest.mark.real
def test_protobuf_is_decoded_by_the_indexes_of_its_message(protobuf: Schemas) -> None:
    head = b"\0\0\0\0\x09"
    order = protobuf.value(head + b"\0" + ORDER_BYTES)
    assert order.why is None
    assert json.loads(order.text or "") == {
        "id": "42",
        "lines": [{"sku": "abc", "count": 2}],
        "total": {"currency": "EU", "cents": "5"},
    }
    # [1]: the second message; [0, 0]: a message within the first one
    assert protobuf.value(head + b"\x02\x02" + b"\x0a\x02hi").text == '{"text": "hi"}'
    assert protobuf.value(head + b"\x04\x00\x00" + b"\x0a\x02hi").text == '{"sku": "hi"}'
    for wrong in (b"", b"\x02\x08", b"\x03", b"\0" + ORDER_BYTES[:-1], b"\xff" * 9):
        assert (protobuf.value(head + wrong).why or "").startswith("schema 9: ")


@pytest.mark.real
def test_a_wrong_proto_file_costs_its_own_values_alone(capfd: pytest.CaptureFixture[str]) -> None:
    sources = Kept(
        s1=Schema("PROTOBUF", "message \x1b[31m"),
        s2=Schema("PROTOBUF", 'syntax = "proto3";', {"../../away.proto": MONEY}),
        s3=Schema("THRIFT", ""),
    )
    schemas = Schemas(sources)
    assert [schemas.value(b"\0\0\0\0" + bytes([number])).why for number in (1, 2, 3)] == [
        "schema 1: protoc does not take it",
        "schema 2: it imports a file outside its folder",
        "schema 3: it is of an unknown kind",
    ]
    assert capfd.readouterr() == ("", "")


def test_a_folder_has_a_file_for_each_schema(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "8.json").write_text("{}")
    order: dict[str, Any] = {"id": 1, "note": None, "raw": b"", "prices": {}, "tags": [], "state": "NEW"}
    schemas = schemas_at(str(tmp_path))
    assert json.loads(schemas.text(avro(ORDER, order)) or "")["id"] == 1
    assert schemas.value(b"\0\0\0\0\x08[1]") == Value("[1]")
    assert schemas.value(b"\0\0\0\0\x09").why == "schema 9: no file 9.avsc, 9.json or 9.proto"
    (tmp_path / "10.avsc").write_text("{" * 5000)
    assert schemas.value(b"\0\0\0\0\x0a").why is not None
    with pytest.raises(ValueError, match="neither the URL of a schema registry nor a folder"):
        schemas_at(str(tmp_path / "missing"))


class _Answers(Quiet, http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))  # type: ignore[attr-defined]
        status, body = self.server.answers.get(self.path, (404, b"{}"))  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """A registry. `answers`: status and body by path; `asked`: paths and credentials."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, str | None]] = []

    def has(self, path: str, **answer: Any) -> None:
        self.answers[path] = (200, json.dumps(answer).encode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    with serving(server):
        yield server


def test_a_registry_is_asked_once_for_each_schema_and_for_what_it_needs(server: Server) -> None:
    server.has(
        "/schemas/ids/7",
        schema=json.dumps(record("R", "shop.Money")),
        references=[{"name": "shop.Money", "subject": "money/value", "version": 2}],
    )
    server.has("/subjects/money%2Fvalue/versions/2", schema=json.dumps({**record("Money", "int"), "namespace": "shop"}))
    server.has("/schemas/ids/8", schema="{}", schemaType="JSON")
    schemas = schemas_at(f"http://127.0.0.1:{server.server_port}/")
    for _ in range(2):
        assert schemas.text(b"\0\0\0\0\7\4") == '{"f0": {"f0": 2}}'
        assert schemas.text(b"\0\0\0\0\x08[]") == "[]"
    assert [path for path, _ in server.asked] == [
        "/schemas/ids/7",
        "/subjects/money%2Fvalue/versions/2",
        "/schemas/ids/8",
    ]
    assert {told for _, told in server.asked} == {None}


def test_what_a_registry_gets_wrong_is_a_reason(server: Server) -> None:
    server.answers |= {
        "/schemas/ids/1": (500, b"no"),
        "/schemas/ids/2": (200, b"no json"),
        "/schemas/ids/3": (200, b"{}"),
        "/schemas/ids/4": (302, b""),
        "/schemas/ids/5": (200, b" " * ((1 << 20) + 1)),
    }
    endless = {"name": "a", "subject": "a", "version": 1}
    server.has("/schemas/ids/6", schema='"int"', references=[{**endless, "name": str(at)} for at in range(200)])
    server.has("/subjects/a/versions/1", schema='"int"')
    schemas = schemas_at(f"http://127.0.0.1:{server.server_port}")
    assert [schemas.value(b"\0\0\0\0" + bytes([number])).why for number in range(8)] == [
        "schema 0: the registry answers 404",
        "schema 1: the registry answers 500",
        "schema 2: the registry's answer is no JSON object",
        "schema 3: the registry's answer has no schema",
        "schema 4: the registry answers 302",
        "schema 5: the registry's answer has more than 1 MiB",
        "schema 6: it needs more than 100 others",
        "schema 7: the registry answers 404",
    ]


@pytest.mark.parametrize("given_by", ["url", "variable"])
def test_credentials_are_sent_and_never_told(server: Server, monkeypatch: pytest.MonkeyPatch, given_by: str) -> None:
    at = f"127.0.0.1:{server.server_port}"
    url = f"http://me:hunter2@{at}" if given_by == "url" else f"http://{at}"
    if given_by == "variable":
        monkeypatch.setenv(USERINFO, "me:hunter2")
    registry = Registry(url)
    with pytest.raises(NoSchema) as refused:
        registry.schema(1)
    assert server.asked == [("/schemas/ids/1", "Basic bWU6aHVudGVyMg==")]
    assert "hunter2" not in str(refused.value)


def test_credentials_of_other_programs_are_not_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(NoSchema):
        Registry(f"http://127.0.0.1:{server.server_port}").schema(1)
    assert server.asked == [("/schemas/ids/1", None)]


def test_credentials_that_no_header_can_hold_are_not_the_answer_s_fault(server: Server) -> None:
    with pytest.raises(NoSchema) as refused:
        Registry(f"http://\u0142:hunter2@127.0.0.1:{server.server_port}").schema(1)
    assert str(refused.value) == "asking the registry fails (UnicodeEncodeError)"
    assert server.asked == []


def test_a_registry_that_can_not_be_reached_is_asked_once(server: Server) -> None:
    closed = Server()
    closed.server_close()
    schemas = schemas_at(f"http://me:hunter2@127.0.0.1:{closed.server_port}")
    whys = {schemas.value(b"\0\0\0\0" + bytes([number])).why for number in range(3)}
    assert whys == {f"schema {number}: the registry can't be asked: ConnectionError" for number in range(3)}


class _Drips(Quiet, http.server.BaseHTTPRequestHandler):
    """Sends a byte now and then, as long as the server is there: of its head, or of its body."""

    def do_GET(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n"
        self.wfile.write(head + (b"\r\n" if self.path.endswith("/1") else b"X: "))
        with suppress(OSError):
            while not self.server.is_over.wait(0.01):  # type: ignore[attr-defined]
                self.wfile.write(b" ")


@pytest.mark.parametrize("number", [1, 2], ids=["body", "head"])
def test_a_registry_whose_answer_never_ends_is_asked_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(server, "RequestHandlerClass", _Drips)
    monkeypatch.setattr("recorder.reading.schema_sources.MAX_SECONDS", 0.5)
    server.is_over = threading.Event()  # type: ignore[attr-defined]
    schemas = schemas_at(f"http://127.0.0.1:{server.server_port}")
    whys = {schemas.value(b"\0\0\0\0" + bytes([at])).why for at in (number, 3)}
    server.is_over.set()  # type: ignore[attr-defined]
    assert whys == {f"schema {at}: the registry's answers take more than 0.5 s" for at in (number, 3)}


def test_other_entries_of_a_folder_cost_no_schema(tmp_path: Path) -> None:
    (tmp_path / "7.proto").write_text('syntax = "proto3"; import "shop.proto"; message Order { Money price = 1; }')
    (tmp_path / "shop.proto").write_text('syntax = "proto3"; message Money { int32 cents = 1; }')
    (tmp_path / "0-elsewhere.proto").symlink_to(tmp_path / "shop.proto")
    (tmp_path / "0-large.proto").write_bytes(b" " * ((1 << 20) + 1))
    (tmp_path / "0-folder.proto").mkdir()
    assert schemas_at(str(tmp_path)).value(b"\0\0\0\0\7\0\x0a\2\x08\5") == Value('{"price": {"cents": 5}}')


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_a_decimal_of_many_digits_is_not_read(kind: str) -> None:
    size = {"name": "F", "size": 2000} if kind == "fixed" else {}
    schema = {"type": kind, "logicalType": "decimal", "precision": 4000, "scale": 2} | size
    schemas = Schemas(Kept(s0=Schema("AVRO", json.dumps(schema))))
    data = (b"" if size else b"\xa0\x1f") + b"\x7f" * 2000
    assert schemas.value(b"\0\0\0\0\0" + data).why == "schema 0: a decimal has more than 1024 bytes"


def test_a_decimal_is_shown() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert Schemas(Kept(s0=Schema("AVRO", json.dumps(schema)))).text(b"\0\0\0\0\0\4\4\xd2") == '"12.34"'
