"""Tests of assembling frames from the log's entries, entry by entry."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.conversation import Conversation
from proxy.wire import catalog, keys
from proxy.wire.dialects import Dialect
from recorder.capture import frames as c
from recorder.capture import spool, storage
from recorder.capture.assembly import Assembly
from recorder.capture.inventory import Inventory
from recorder.capture.ranges import RangeFiles
from recorder.capture.spool import Entry, EntryKind, Spans
from tests.recorder.capture import traffic
from tests.recorder.capture.logged import account, closing, opened
from tests.recorder.capture.looks import event_rows, frame_rows
from tests.recorder.capture.traffic import framed

RNG = random.Random(1)
METADATA = traffic.call(RNG, keys.METADATA, 1, "c", 100)


class Log:
    """Feeds entries to an assembly; `rows` publishes the rows and returns them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = RangeFiles(folder, "s", 1, None)
        self.assembly = Assembly()
        self.assembly.begin_range(self.files, 1_000)
        self.now = self.count = 0

    def feed(self, kind: EntryKind, data: bytes = b"", direction: int = 0, offset: int = 0, spans: Spans = ()) -> None:
        self.now += 1
        self.assembly.feed(Entry(kind, direction, 1, offset, self.now, data, spans, self.count))
        self.count += 1

    def feed_json(self, kind: EntryKind, fields: object, direction: int = 0, offset: int = 0) -> None:
        self.feed(kind, json.dumps(fields).encode(), direction, offset)

    def rows(self) -> list[dict[str, Any]]:
        self.assembly.finish()
        storage.publish(self.files.finish(), storage.ignore_step)
        return frame_rows(self.folder)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    begun = Log(tmp_path)
    begun.feed_json(EntryKind.OPENED, opened())
    return begun


def test_masked_spans_are_those_of_the_frame(log: Log) -> None:
    log.feed(EntryKind.BYTES, METADATA.request[:40], spans=((30, 10),))
    log.feed(
        EntryKind.BYTES, METADATA.request[40:] + METADATA.request, offset=40, spans=((0, 5), (len(METADATA.request), 3))
    )
    first, second = log.rows()
    assert first["masked"] == [(26, 15)]
    assert second["masked"] == [(len(METADATA.request) - (len(METADATA.request) - 40) - 4, 3)]


def test_bytes_cut_out_of_an_entry_are_counted_but_not_stored(log: Log) -> None:
    request = METADATA.request
    log.feed(EntryKind.CUT, request[:40] + request[70:] + request[:-3], spans=((40, 30), (2 * len(request) - 3, 3)))
    first, second = log.rows()
    assert (first["dropped"], first["frame"]) == (
        [{"start": 36, "length": 30}],
        request[4:40] + bytes(30) + request[70:],
    )
    assert (second["dropped"], second["frame"]) == (
        [{"start": len(request) - 7, "length": 3}],
        request[4:-3] + bytes(3),
    )


def rows_of(folder: Path, *entries: tuple[EntryKind, bytes, int, Spans]) -> list[dict[str, Any]]:
    """Returns the rows of a client's entries: kind, data, offset and spans of each."""
    folder.mkdir()
    begun = Log(folder)
    begun.feed_json(EntryKind.OPENED, opened())
    for kind, data, offset, spans in entries:
        begun.feed(kind, data, 0, offset, spans)
    return [{**row, c.AT: None, c.AT_NS: None, c.MONO_NS: None, c.FIRST_MONO_NS: None} for row in begun.rows()]


@pytest.mark.parametrize(("at", "length"), [(6, 5), (6, 9), (40, 9)])
def test_what_a_rule_left_out_of_a_frame_is_the_same_in_one_entry_and_in_several(
    at: int, length: int, tmp_path: Path
) -> None:
    request = METADATA.request
    behind = at + length
    whole = rows_of(tmp_path / "1", (EntryKind.CUT, request[:at] + request[behind:], 0, ((at, length),)))
    pieces = [
        (EntryKind.BYTES, request[:at], 0, ()),
        (EntryKind.CUT, b"", at, ((0, length),)),
        (EntryKind.BYTES, request[behind:], behind, ()),
    ]
    assert whole[0]["dropped"] == [{"start": at - 4, "length": length}]
    assert whole[0]["size"] == len(request) - 4
    assert rows_of(tmp_path / "2", *pieces) == whole


@pytest.mark.parametrize("most", [0, 12, 100])
def test_long_spans_of_a_cut_entry_are_counted_as_short_ones_are(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = METADATA.request
    entry = request[:30] + request[40:50] + request[55:] + request[:30], 0, ((30, 10), (50, 5), (len(request) + 30, 7))
    rest = (EntryKind.BYTES, request[37:], len(request) + 37, ())
    wanted = rows_of(tmp_path / "1", (EntryKind.CUT, *entry), rest)
    monkeypatch.setattr(spool, "MAX_FILLED", most)
    assert len(wanted) == 2
    assert rows_of(tmp_path / "2", (EntryKind.CUT, *entry), rest) == wanted


@pytest.mark.parametrize("spans", [((40, 30), (20, 5)), ((40, 30), (69, 5))])
def test_cut_out_bytes_that_are_not_in_order_are_passed_over(log: Log, spans: Spans) -> None:
    log.feed(EntryKind.CUT, METADATA.request[:60], spans=spans)
    assert log.rows() == []
    assert log.assembly.invalid_bytes


def test_omitted_bytes_are_counted_but_not_stored(log: Log) -> None:
    request = METADATA.request
    log.feed(EntryKind.BYTES, request[:40])
    log.feed_json(EntryKind.OMITTED, {"length": 30}, offset=40)
    log.feed(EntryKind.BYTES, request[70:], offset=70)
    log.feed(EntryKind.BYTES, METADATA.answer or b"", direction=1)
    asked, answered = log.rows()
    assert (asked["size"], asked["stored"]) == (len(request) - 4, len(request) - 34)
    assert asked["omitted"] == [(36, 30)]
    assert asked["frame"] == request[4:40] + request[70:]
    assert answered["exchange"] == asked["exchange"]


def test_a_login_is_followed_and_never_decided_again(log: Log) -> None:
    handshake = framed(catalog.encode_request(17, 0, 1, "c", {"mechanism": "PLAIN"}))
    behind = len(handshake) + 12
    log.feed_json(EntryKind.LOGIN, {"token": True, "mechanism": "PLAIN", "ended": False}, offset=len(handshake))
    log.feed_json(EntryKind.LOGIN, {"token": False, "mechanism": "PLAIN", "ended": True}, offset=behind)
    log.feed_json(EntryKind.LOGIN, {"principal": "alice", "mechanism": "PLAIN"})
    log.feed(EntryKind.BYTES, handshake + framed(bytes(8)) + METADATA.request, spans=((len(handshake) + 4, 8),))
    rows = log.rows()
    assert [row["kind"] for row in rows] == ["request", "token", "request"]
    assert rows[1]["masked"] == [(0, 8)]
    assert {row["principal"] for row in rows} == {"alice"}
    assert len(event_rows(log.folder, "login")) == 3


def test_a_certificates_subject_is_the_principal_until_a_login(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.feed_json(EntryKind.OPENED, opened(tls=True, principal="CN=orders"))
    log.feed(EntryKind.BYTES, METADATA.request)
    log.feed_json(EntryKind.LOGIN, {"principal": "alice", "mechanism": "PLAIN"})
    log.feed(EntryKind.BYTES, METADATA.request, offset=len(METADATA.request))
    assert [row["principal"] for row in log.rows()] == ["CN=orders", "alice"]


def test_columns_that_0_7_lacks_are_null(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.feed_json(EntryKind.OPENED, opened(node=None, dialect="kafka-0.7", cluster="old"))
    log.feed(EntryKind.BYTES, framed(b"\0\0produce") + framed(b"\0\1fetch") + framed(b"\0\7what"))
    log.feed(EntryKind.BYTES, framed(b"\0\3"), direction=1)
    log.feed(EntryKind.BYTES, b"\0\0\0", offset=34)
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


def test_a_hole_drops_the_frame_that_it_cuts_and_a_resync_continues(log: Log) -> None:
    other = Conversation(log.assembly.routes[Dialect.KAFKA])
    other.requests(METADATA.request * 3, 1)
    log.feed(EntryKind.BYTES, METADATA.request + METADATA.request[:30])
    log.feed_json(EntryKind.GAP, {"reason": "queue_full", "offsets": [1, 0]})
    log.feed(EntryKind.BYTES, b"what no tap writes into a gap")
    size = len(METADATA.request) - 4
    counted = account(requests={"Metadata": 1}, request_bytes={"Metadata": size})
    log.feed_json(EntryKind.RESYNC, {"state": other.boundary_state(), "account": counted, "left_out_responses": []})
    log.feed(EntryKind.BYTES, (METADATA.answer or b"") * 3, direction=1)
    rows = log.rows()
    assert [(row["kind"], row["exchange"], row["sequence"]) for row in rows] == [
        ("request", 0, 0),
        ("response", 0, 3),
        ("response", 1, 4),
        ("response", 2, 5),
    ]
    (gap,) = event_rows(log.folder, "gap")
    assert (gap["frames"], gap["bytes"]) == (2, 2 * len(METADATA.request))
    assert json.loads(gap["detail"])["lost"] == {"Metadata": {"requests": 2, "request_bytes": 2 * size}}


def test_an_answer_of_the_proxy_that_waited_through_a_gap_is_a_row(log: Log) -> None:
    other = Conversation(log.assembly.routes[Dialect.KAFKA])
    other.requests(METADATA.request, 1)
    other.answer(other.in_flight[0], framed(b"made"))
    log.feed_json(EntryKind.GAP, {"reason": "queue_full", "offsets": [0, 0]})
    counted = account()
    log.feed_json(EntryKind.RESYNC, {"state": other.boundary_state(), "account": counted, "left_out_responses": []})
    (row,) = log.rows()
    assert (row["made_by"], row["frame"], row["exchange"]) == ("proxy", b"made", 0)


def test_an_answer_of_the_proxy_finds_its_request_among_others_that_came_with_it_in_pieces(log: Log) -> None:
    newer = framed(b"\0\x12\x7f\0\0\0\0\7\xff\xff\0")
    log.feed(EntryKind.BYTES, newer)
    log.feed(EntryKind.BYTES, METADATA.request[:9], offset=len(newer))
    log.feed(EntryKind.OWN_ANSWER, framed(b"made"), direction=1, offset=7)
    log.feed(EntryKind.BYTES, METADATA.request[9:], offset=len(newer) + 9)
    log.feed(EntryKind.BYTES, METADATA.answer or b"", direction=1)
    rows = [(row["kind"], row["exchange"], row["made_by"]) for row in log.rows()]
    assert rows == [
        ("request", 0, "client"),
        ("response", 0, "proxy"),
        ("request", 1, "client"),
        ("response", 1, "broker"),
    ]


def test_bytes_that_never_became_a_frame_are_a_row(log: Log) -> None:
    log.feed(EntryKind.UNFRAMED, b"GET ....", spans=((4, 4),))
    (row,) = log.rows()
    assert (row["kind"], row["frame"], row["masked"], row["made_by"]) == ("bytes", b"GET ....", [(4, 4)], "client")


def test_behind_bytes_that_cannot_be_read_everything_is_kept_as_it_comes(log: Log) -> None:
    log.feed(EntryKind.BYTES, METADATA.request + b"\xff\xff\xff\xff rest")
    log.feed(EntryKind.BYTES, b"more", offset=len(METADATA.request) + 9)
    rows = log.rows()
    assert [row["kind"] for row in rows] == ["request", "bytes", "bytes"]
    assert [row["note"] for row in rows[1:]] == ["bad_length", "behind what could not be read"]
    assert [row["frame"] for row in rows[1:]] == [b"\xff\xff\xff\xff rest", b"more"]


def test_a_cut_response_is_shown_as_cut(log: Log) -> None:
    log.feed(EntryKind.BYTES, METADATA.request)
    log.feed(EntryKind.BYTES, (METADATA.answer or b"")[:12], direction=1)
    log.feed_json(EntryKind.CLOSED, closing(cause="broker_reset"))
    row = log.rows()[-1]
    assert row["frame"] == (METADATA.answer or b"")[4:12]
    assert row["note"] == f"cut: {len(METADATA.answer or b'') - 12} bytes never came"
    assert row["transfer_ns"] == 1
    (closed,) = event_rows(log.folder, "closed")
    assert closed["cause"] == "broker_reset"


def test_a_head_that_never_came_whole_is_bytes(log: Log) -> None:
    log.feed(EntryKind.BYTES, METADATA.request[:5])
    (row,) = log.rows()
    assert (row["kind"], row["frame"], row["note"]) == ("bytes", METADATA.request[:5], "cut in its head")


def test_a_connection_whose_opening_is_lost_has_a_gap_and_no_rows(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for kind in (EntryKind.BYTES, EntryKind.UNFRAMED, EntryKind.OWN_ANSWER, EntryKind.END_OF_STREAM):
        log.feed(kind, METADATA.request)
    log.feed_json(EntryKind.OMITTED, {"length": 3}, direction=1, offset=40)
    log.feed_json(EntryKind.LOGIN, {"token": True, "mechanism": None, "ended": False})
    log.feed_json(EntryKind.GAP, {"reason": "queue_full"})
    talk = Conversation(log.assembly.routes[Dialect.KAFKA])
    log.feed_json(
        EntryKind.RESYNC,
        {"state": talk.state(), "account": account(), "left_out_responses": []},
    )
    log.feed_json(EntryKind.CLOSED, closing(sequence=4, offsets=[len(METADATA.request), 43]))
    assert log.rows() == []
    (gap,) = event_rows(tmp_path, "gap")
    assert (gap["cause"], gap["connection"], gap["frames"]) == ("spool_damaged", 1, 4)
    # up to the end of the stream that was seen
    assert gap["bytes"] == len(METADATA.request) + 43


def test_a_made_answer_to_a_lost_request_is_skipped(log: Log) -> None:
    log.feed(EntryKind.OWN_ANSWER, framed(b"made"), direction=1, offset=99)
    assert log.rows() == []


# a log whose entries have numbers


class Numbered(Log):
    """Entries of several connections, with a writer's numbers; entries named in `lost` are not fed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.inventory = Inventory()
        self.offsets: dict[tuple[int, int], int] = {}

    def say(
        self, kind: EntryKind, connection: int, told: object = None, *, data: bytes = b"", direction: int = 0
    ) -> None:
        data = data or (b"" if told is None else json.dumps(told).encode())
        self.now += 1
        offset = self.offsets.get((connection, direction), 0)
        (number,) = self.inventory.number_entries([(kind, 0, connection, 0, 0, data, ())])
        entry = Entry(kind, direction, connection, offset, self.now, data, (), number)
        if kind == EntryKind.BYTES:
            self.offsets[connection, direction] = offset + len(data)
        if connection not in self.lost:
            self.assembly.feed(entry)

    lost: tuple[int, ...] = ()

    def call(self, connection: int) -> None:
        self.say(EntryKind.BYTES, connection, data=METADATA.request)
        self.say(EntryKind.BYTES, connection, data=METADATA.answer or b"", direction=1)

    def close(self, connection: int) -> None:
        offsets = [self.offsets.get((connection, direction), 0) for direction in (0, 1)]
        told = {"cause": "drained", "sequence": offsets[0] // len(METADATA.request) * 2, "offsets": offsets}
        self.say(EntryKind.CLOSED, connection, told)

    def begin_segment(self) -> None:
        self.assembly.feed(Entry(EntryKind.INVENTORY, 0, -1, 0, self.now, self.inventory.text(), (), 0))

    def checkpoint(self, connection: int, talk: Conversation) -> None:
        told = {"opened": OPENED, "opened_ns": 1, "principal": "alice", "state": talk.boundary_state()}
        self.say(EntryKind.CHECKPOINT, connection, told | {"arriving": [False, False], "left_out_responses": []})

    def gaps(self) -> list[tuple[object, ...]]:
        rows = event_rows(self.folder, "gap")
        return [(row["connection"], row["cause"], row["frames"], row["bytes"]) for row in rows]


OPENED = opened()
CALL_BYTES = len(METADATA.request) + len(METADATA.answer or b"")


@pytest.fixture
def numbered(tmp_path: Path) -> Numbered:
    log = Numbered(tmp_path)
    for connection in (1, 2):
        log.say(EntryKind.OPENED, connection, OPENED)
        log.call(connection)
    return log


def test_a_connection_with_a_lost_entry_has_a_gap_and_the_others_continue(numbered: Numbered) -> None:
    numbered.lost = (1,)
    numbered.call(1)
    numbered.lost = ()
    for connection in (1, 2):
        numbered.call(connection)
        numbered.close(connection)
    assert [row["connection"] for row in numbered.rows()] == [1, 1, 2, 2, 2, 2]
    assert numbered.gaps() == [(1, "spool_damaged", 4, 2 * CALL_BYTES)]


def test_an_entry_without_bytes_is_missed_too(numbered: Numbered) -> None:
    numbered.lost = (1,)
    numbered.say(EntryKind.END_OF_STREAM, 1)
    numbered.lost = ()
    numbered.call(1)
    numbered.close(1)
    numbered.rows()
    assert numbered.gaps() == [(1, "spool_damaged", 2, CALL_BYTES)]


def test_a_record_that_broke_off_continues_at_its_next_checkpoint(numbered: Numbered) -> None:
    numbered.lost = (1,)
    numbered.call(1)
    numbered.lost = ()
    talk = Conversation(numbered.assembly.routes[Dialect.KAFKA])
    talk.requests(METADATA.request * 2, 1)
    talk.responses((METADATA.answer or b"") * 2, 2)
    for connection in (1, 2):
        # a reader that has lost nothing ignores the checkpoint
        numbered.checkpoint(connection, talk)
        numbered.call(connection)
        numbered.close(connection)
    rows = numbered.rows()
    assert [(row["connection"], row["sequence"]) for row in rows] == [
        *((1, number) for number in (0, 1, 4, 5)),
        *((2, number) for number in (0, 1, 2, 3)),
    ]
    assert [row["principal"] for row in rows] == [None, None, "alice", "alice", *[None] * 4]
    assert numbered.gaps() == [(1, "spool_damaged", 2, CALL_BYTES)]


def test_a_checkpoint_restores_a_connection_whose_opening_is_lost(numbered: Numbered) -> None:
    numbered.lost = (3,)
    numbered.say(EntryKind.OPENED, 3, OPENED)
    numbered.call(3)
    numbered.lost = ()
    numbered.begin_segment()
    talk = Conversation(numbered.assembly.routes[Dialect.KAFKA])
    talk.requests(METADATA.request, 1)
    talk.responses(METADATA.answer or b"", 2)
    numbered.checkpoint(3, talk)
    numbered.call(3)
    numbered.close(3)
    rows = [row for row in numbered.rows() if row["connection"] == 3]
    assert [(row["sequence"], row["client"], row["listener"]) for row in rows] == [(2, "c:1", "l:1"), (3, "c:1", "l:1")]
    assert numbered.gaps() == [(3, "spool_damaged", 2, CALL_BYTES)]
    assert [row["connection"] for row in event_rows(numbered.folder, "opened")] == [1, 2, 3]


def test_connections_without_remaining_rows_are_counted_with_their_frames_and_bytes(numbered: Numbered) -> None:
    numbered.lost = (3, 4)
    for connection in (3, 4):
        numbered.say(EntryKind.OPENED, connection, OPENED)
        numbered.call(connection)
        numbered.close(connection)
    numbered.begin_segment()
    numbered.begin_segment()
    numbered.rows()
    assert numbered.gaps() == [(None, "spool_damaged", 4, 2 * CALL_BYTES)]
    (gap,) = event_rows(numbered.folder, "gap")
    assert json.loads(gap["detail"]) == {"connections": 2}


def test_a_connection_whose_end_alone_is_lost_is_closed_at_the_next_segment(numbered: Numbered) -> None:
    numbered.lost = (1,)
    numbered.call(1)
    numbered.close(1)
    numbered.begin_segment()
    numbered.rows()
    assert numbered.gaps() == [(1, "spool_damaged", 2, CALL_BYTES)]
    closed = [(row["connection"], row["cause"], row["frames"]) for row in event_rows(numbered.folder, "closed")]
    assert closed == [(1, "spool_damaged", 4), (2, "session_ended", 2)]


def test_connections_lost_as_a_whole_share_one_event(numbered: Numbered) -> None:
    numbered.lost = (1, 3)
    numbered.say(EntryKind.OPENED, 3, OPENED)
    for connection in (1, 3):
        numbered.call(connection)
        numbered.close(connection)
    numbered.begin_segment()
    numbered.rows()
    assert numbered.gaps() == [(1, "spool_damaged", None, None), (None, "spool_damaged", 4, 2 * CALL_BYTES)]
    assert json.loads(event_rows(numbered.folder, "gap")[1]["detail"]) == {"connections": 1, "ends_of": [1]}


NONSENSE: dict[str, tuple[EntryKind, object]] = {
    "garbage to go on from": (EntryKind.RESYNC, {"state": {"in_flight": 7}, "account": {}}),
    "a list": (EntryKind.LOGIN, []),
    "neither name nor verdict": (EntryKind.LOGIN, {"mechanism": None}),
    "a second opening": (EntryKind.OPENED, OPENED),
    "a kind of no connection": (EntryKind.NODE, {"node_id": 1, "upstream": "u", "listener": "l", "cluster": "main"}),
    "left out between frames": (EntryKind.OMITTED, {"length": 9}),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_a_nonsensical_entry_breaks_only_its_connection(numbered: Numbered, what: str) -> None:
    kind, told = NONSENSE[what]
    numbered.say(kind, 1, told)
    assert numbered.assembly.invalid_bytes > 0
    for connection in (1, 2):
        numbered.call(connection)
        numbered.close(connection)
    assert [row["connection"] for row in numbered.rows()] == [1, 1, 2, 2, 2, 2]
    assert numbered.gaps() == [(1, "spool_damaged", 2, CALL_BYTES)]


def test_omitted_bytes_are_never_invented(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes a response of 1 GiB with its first 8 bytes, one in the middle, and the last one."""
    log.feed(EntryKind.BYTES, METADATA.request)
    size = 1 << 30
    answer = size.to_bytes(4, "big") + (METADATA.answer or b"")[4:8]
    log.feed(EntryKind.BYTES, answer, 1)
    log.feed_json(EntryKind.OMITTED, {"length": 1 << 26}, 1, offset=8)
    log.feed(EntryKind.BYTES, b"x", 1, offset=8 + (1 << 26))
    for at in range(9 + (1 << 26), size - (1 << 26), 1 << 26):
        log.feed_json(EntryKind.OMITTED, {"length": 1 << 26}, 1, offset=at)
    at += 1 << 26
    log.feed_json(EntryKind.OMITTED, {"length": size + 3 - at}, 1, offset=at)
    log.feed(EntryKind.BYTES, b"y", 1, offset=size + 3)
    row = log.rows()[-1]
    assert (row["size"], row["stored"], row["note"]) == (size, 6, None)
    assert row["frame"] == answer[4:] + b"xy"
    assert sum(length for _, length in row["omitted"]) == size - 6
