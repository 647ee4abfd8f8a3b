"""Entries made into frames again, entry by entry."""

import json
import random
from pathlib import Path

import pytest

from proxy.conversation.conversation import Conversation
from proxy.wire import catalog
from proxy.wire.dialects import Dialect
from recorder.capture import storage
from recorder.capture.assembly import Assembly
from recorder.capture.ranges import RangeFiles
from recorder.capture.spool import Entry, Kind
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import event_rows, frame_rows
from tests.recorder.capture.traffic import framed

RNG = random.Random(1)
METADATA = traffic.call(RNG, traffic.METADATA, 1, "c", 100)


class Log:
    """Entries fed to an assembly; `rows` publishes them and looks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = RangeFiles(folder, "s", 1, None)
        self.assembly = Assembly()
        self.assembly.begin_range(self.files, 1_000)
        self.now = 0

    def feed(self, kind: Kind, data: bytes = b"", direction: int = 0, offset: int = 0, **more: object) -> None:
        self.now += 1
        self.assembly.feed(Entry(kind, direction, 1, offset, self.now, data, **more))  # type: ignore[arg-type]

    def facts(self, kind: Kind, facts: object, direction: int = 0, offset: int = 0) -> None:
        self.feed(kind, json.dumps(facts).encode(), direction, offset)

    def rows(self) -> list[dict[str, object]]:
        self.assembly.finish()
        storage.publish(self.files.finish(), storage.no_steps)
        return frame_rows(self.folder)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    opened = Log(tmp_path)
    opened.facts(Kind.OPENED, {"client": "c:1", "node": 2})
    return opened


def test_masked_spans_are_those_of_the_frame(log: Log) -> None:
    log.feed(Kind.BYTES, METADATA.request[:40], spans=((30, 10),))
    log.feed(
        Kind.BYTES, METADATA.request[40:] + METADATA.request, offset=40, spans=((0, 5), (len(METADATA.request), 3))
    )
    first, second = log.rows()
    assert first["masked"] == [(26, 15)]
    assert second["masked"] == [(len(METADATA.request) - (len(METADATA.request) - 40) - 4, 3)]


def test_what_a_setting_left_out_is_counted_but_not_kept(log: Log) -> None:
    request = METADATA.request
    log.feed(Kind.BYTES, request[:40])
    log.facts(Kind.OMITTED, {"length": 30}, offset=40)
    log.feed(Kind.BYTES, request[70:], offset=70)
    log.feed(Kind.BYTES, METADATA.answer or b"", direction=1)
    asked, answered = log.rows()
    assert (asked["size"], asked["stored"]) == (len(request) - 4, len(request) - 34)
    assert asked["omitted"] == [(36, 30)]
    assert asked["frame"] == request[4:40] + request[70:]
    assert answered["exchange"] == asked["exchange"]


def test_a_login_is_followed_and_never_decided_again(log: Log) -> None:
    handshake = framed(catalog.encode_request(17, 0, 1, "c", {"mechanism": "PLAIN"}))
    behind = len(handshake) + 12
    log.facts(Kind.LOGIN, {"token": True, "mechanism": "PLAIN", "ended": False}, offset=len(handshake))
    log.facts(Kind.LOGIN, {"token": False, "mechanism": "PLAIN", "ended": True}, offset=behind)
    log.facts(Kind.LOGIN, {"principal": "alice", "mechanism": "PLAIN"})
    log.feed(Kind.BYTES, handshake + framed(bytes(8)) + METADATA.request, spans=((len(handshake) + 4, 8),))
    rows = log.rows()
    assert [row["kind"] for row in rows] == ["request", "token", "request"]
    assert rows[1]["masked"] == [(0, 8)]
    assert {row["principal"] for row in rows} == {"alice"}
    assert len(event_rows(log.folder, "login")) == 3


def test_a_certificates_subject_is_who_it_is_until_somebody_logs_in(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.facts(Kind.OPENED, {"client": "c:1", "node": 2, "tls": True, "principal": "CN=orders"})
    log.feed(Kind.BYTES, METADATA.request)
    log.facts(Kind.LOGIN, {"principal": "alice", "mechanism": "PLAIN"})
    log.feed(Kind.BYTES, METADATA.request)
    assert [row["principal"] for row in log.rows()] == ["CN=orders", "alice"]


def test_what_0_7_does_not_say_is_null_and_the_rest_is_there(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.facts(Kind.OPENED, {"client": "c:1", "node": None, "dialect": "kafka-0.7", "cluster": "old"})
    log.feed(Kind.BYTES, framed(b"\0\0produce") + framed(b"\0\1fetch") + framed(b"\0\7what"))
    log.feed(Kind.BYTES, framed(b"\0\3"), direction=1)
    log.feed(Kind.BYTES, b"\0\0\0", offset=31)
    rows = log.rows()
    heads = ("kind", "api_key", "api", "awaits", "exchange", "size", "request_size", "latency_ns", "note")
    assert [tuple(row[name] for name in heads) for row in rows] == [
        ("request", 0, "0.7/produce", False, 0, 9, None, None, None),
        ("request", 1, "0.7/fetch", True, 1, 7, None, None, None),
        ("request", 7, None, True, 2, 6, None, None, "unknown_api"),
        ("response", 1, "0.7/fetch", None, 1, 2, 7, 1, None),
        ("bytes", None, None, None, None, 3, None, None, "cut in its head"),
    ]
    nothing = ("node", "principal", "api_version", "correlation_id", "client_id", "masked", "omitted")
    for row in rows:
        assert {row[name] for name in nothing} == {None}
        assert (row["dialect"], row["cluster"]) == ("kafka-0.7", "old")
    (closed,) = event_rows(tmp_path, "closed")
    assert json.loads(closed["detail"]) == {
        "open": 1,
        "exchanges": [{"exchange": 2, "api": None, "correlation_id": None}],
    }


def test_a_hole_drops_the_frame_that_it_cuts_and_a_resync_goes_on(log: Log) -> None:
    other = Conversation(log.assembly.routes[Dialect.KAFKA])
    other.requests(METADATA.request * 3, 1)
    log.feed(Kind.BYTES, METADATA.request + METADATA.request[:30])
    log.facts(Kind.HOLE, {"reason": "queue_full", "offsets": [1, 0]})
    log.feed(Kind.BYTES, b"what no tap writes into a gap")
    account = {"reason": "queue_full", "since_ns": 1, "early": [], "requests": {"Metadata": 1}, "responses": {}}
    log.facts(Kind.RESYNC, {"state": other.boundary_state(), "account": account})
    log.feed(Kind.BYTES, (METADATA.answer or b"") * 3, direction=1)
    rows = log.rows()
    assert [(row["kind"], row["exchange"], row["sequence"]) for row in rows] == [
        ("request", 0, 0),
        ("response", 0, 3),
        ("response", 1, 4),
        ("response", 2, 5),
    ]
    (gap,) = event_rows(log.folder, "gap")
    assert (gap["frames"], gap["bytes"]) == (2, 2 * len(METADATA.request))
    assert json.loads(gap["detail"])["lost"] == {"Metadata": {"requests": 2}}


def test_an_answer_of_the_proxy_that_waited_through_a_gap_is_a_row(log: Log) -> None:
    other = Conversation(log.assembly.routes[Dialect.KAFKA])
    other.requests(METADATA.request, 1)
    other.made(1, framed(b"made"))
    log.facts(Kind.HOLE, {"reason": "queue_full", "offsets": [0, 0]})
    account = {"reason": "queue_full", "since_ns": 1, "early": [], "requests": {}, "responses": {}}
    log.facts(Kind.RESYNC, {"state": other.boundary_state(), "account": account})
    (row,) = log.rows()
    assert (row["made_by"], row["frame"], row["exchange"]) == ("proxy", b"made", 0)


def test_bytes_that_never_became_a_frame_are_a_row(log: Log) -> None:
    log.feed(Kind.UNFRAMED, b"GET ....", spans=((4, 4),))
    (row,) = log.rows()
    assert (row["kind"], row["frame"], row["masked"], row["made_by"]) == ("bytes", b"GET ....", [(4, 4)], "client")


def test_behind_bytes_that_cannot_be_read_everything_is_kept_as_it_comes(log: Log) -> None:
    log.feed(Kind.BYTES, METADATA.request + b"\xff\xff\xff\xff rest")
    log.feed(Kind.BYTES, b"more", offset=len(METADATA.request) + 9)
    rows = log.rows()
    assert [row["kind"] for row in rows] == ["request", "bytes", "bytes"]
    assert [row["note"] for row in rows[1:]] == ["bad_length", "behind what could not be read"]
    assert [row["frame"] for row in rows[1:]] == [b"\xff\xff\xff\xff rest", b"more"]


def test_a_cut_response_says_so(log: Log) -> None:
    log.feed(Kind.BYTES, METADATA.request)
    log.feed(Kind.BYTES, (METADATA.answer or b"")[:12], direction=1)
    log.facts(Kind.CLOSED, {"cause": "broker_reset"})
    row = log.rows()[-1]
    assert row["frame"] == (METADATA.answer or b"")[4:12]
    assert row["note"] == f"cut: {len(METADATA.answer or b'') - 12} bytes never came"
    assert row["transfer_ns"] == 1
    (closed,) = event_rows(log.folder, "closed")
    assert closed["cause"] == "broker_reset"


def test_a_head_that_never_came_whole_is_bytes(log: Log) -> None:
    log.feed(Kind.BYTES, METADATA.request[:5])
    (row,) = log.rows()
    assert (row["kind"], row["frame"], row["note"]) == ("bytes", METADATA.request[:5], "cut in its head")


def test_entries_of_a_connection_that_is_not_known_are_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for kind in (Kind.BYTES, Kind.UNFRAMED, Kind.MADE, Kind.END_OF_STREAM):
        log.feed(kind, METADATA.request)
    log.facts(Kind.OMITTED, {"length": 3})
    log.facts(Kind.LOGIN, {"token": True, "mechanism": None, "ended": False})
    log.facts(Kind.HOLE, {"reason": "queue_full", "offsets": [0, 0]})
    log.facts(Kind.RESYNC, {"state": {}, "account": {}})
    log.facts(Kind.CLOSED, {"cause": "drained"})
    assert log.rows() == []


def test_a_made_answer_to_a_lost_request_is_passed_over(log: Log) -> None:
    log.feed(Kind.MADE, framed(b"made"), direction=1, offset=99)
    assert log.rows() == []
