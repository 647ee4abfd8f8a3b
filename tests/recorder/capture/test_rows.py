"""Tests of the rows of frames: each value is in its column."""

import random

import pytest

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction, FrameKind
from proxy.conversation.routes import Routes
from proxy.wire import catalog, keys
from proxy.wire.keys import CONTROLLED_SHUTDOWN
from recorder.capture.columns import EventRows, FrameRows, SharedDictionaries
from recorder.capture.connection_state import ConnectionState
from recorder.capture.frames import HOUR_NS
from recorder.capture.rows import RECORD_APIS, RowMaker
from tests.recorder.capture import traffic
from tests.recorder.capture.feeding import feed_chunk

RNG = random.Random(1)


class Groups:
    """A sink that keeps one group for each hour and kind of frames."""

    def __init__(self) -> None:
        self.shared = SharedDictionaries()
        self.groups: dict[tuple[int, bool], FrameRows] = {}

    def frame_rows(self, at_ns: int, clock_offset_ns: int, size: int, *, carries_records: bool) -> FrameRows:
        where = at_ns // HOUR_NS, carries_records
        return self.groups.setdefault(where, FrameRows("s", None, self.shared, clock_offset_ns))

    def event_rows(self, at_ns: int) -> EventRows:
        return EventRows("s", None)

    def rows(self) -> list[dict[str, object]]:
        return [row for _, group in sorted(self.groups.items()) for row in group.table().to_pylist()]


def made(clock_offset_ns: int = 0) -> tuple[Groups, RowMaker, ConnectionState]:
    groups = Groups()
    rows = RowMaker(groups, clock_offset_ns)
    conn = ConnectionState(3, Conversation(Routes(), decides=False), {"client": "c:1"})
    rows.update_shared_values(conn)
    return groups, rows, conn


def test_a_run_of_requests_and_their_responses() -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    calls = [traffic.call(RNG, api, n, name) for n, (api, name) in enumerate([(3, "one"), (12, "two"), (3, None)])]
    asked, answered = (b"".join(call.request for call in calls), b"".join(call.answer or b"" for call in calls))
    step, found = feed_chunk(conn.conversation, Direction.REQUEST, asked, 10, FrameKind.REQUEST)
    rows.add_run(conn, 0, step.data, found, 10)
    step, found = feed_chunk(conn.conversation, Direction.RESPONSE, answered, 25, FrameKind.RESPONSE)
    rows.add_run(conn, 1, step.data, found, 25)
    got = groups.rows()
    assert [row["kind"] for row in got] == ["request"] * 3 + ["response"] * 3
    assert [row["client_id"] for row in got] == ["one", "two", None] * 2
    assert [row["sequence"] for row in got] == list(range(6))
    assert [row["exchange"] for row in got] == [0, 1, 2] * 2
    assert [row["latency_ns"] for row in got] == [None] * 3 + [15] * 3
    assert [row["frame"] for row in got] == [c.request[4:] for c in calls] + [(c.answer or b"")[4:] for c in calls]
    assert (rows.frames, rows.bytes) == (6, len(asked) + len(answered) - 24)


def test_frames_with_records_and_others_go_into_groups_of_their_own() -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    apis = [0, 3, 3, 1, 78, 12, 0]
    calls = [traffic.call(RNG, api, n, "one") for n, api in enumerate(apis)]
    step, found = feed_chunk(
        conn.conversation, Direction.REQUEST, b"".join(call.request for call in calls), 10, FrameKind.REQUEST
    )
    rows.add_run(conn, 0, step.data, found, 10)
    of_kind = {carries_records: group.table().to_pylist() for (_, carries_records), group in groups.groups.items()}
    assert [(row["api_key"], row["sequence"]) for row in of_kind[True]] == [(0, 0), (1, 3), (78, 4), (0, 6)]
    assert [(row["api_key"], row["sequence"]) for row in of_kind[False]] == [(3, 1), (3, 2), (12, 5)]
    for kind in of_kind.values():
        assert [row["frame"] for row in kind] == [calls[row["sequence"]].request[4:] for row in kind]


def test_frames_of_kafka_07_with_messages_are_data() -> None:
    assert {"0.7/produce", "0.7/fetch", "0.7/multifetch", "0.7/multiproduce"} == {
        name for name in RECORD_APIS if name is not None and name.startswith("0.7/")
    }


def test_an_empty_run_makes_nothing() -> None:
    groups, rows, conn = made()
    rows.add_run(conn, 0, b"", [], 1)
    assert groups.groups == {}


def test_rows_change_their_group_with_the_hour_both_ways() -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    for mono_ns in (HOUR_NS - 1, HOUR_NS, HOUR_NS - 2):
        call = traffic.call(RNG, keys.METADATA, 1, "one")
        step, found = feed_chunk(conn.conversation, Direction.REQUEST, call.request, mono_ns, FrameKind.REQUEST)
        rows.add_run(conn, 0, step.data, found, mono_ns)
    assert [len(group) for _, group in sorted(groups.groups.items())] == [2, 1]


def test_a_frame_that_no_exchange_owns() -> None:
    groups, rows, conn = made(clock_offset_ns=1_000)
    rows.add_frame(conn, 1, FrameKind.TOKEN, None, b"\0\0\0", 9, 7, [(0, 3)], [], "why")
    (row,) = groups.rows()
    assert (row["kind"], row["made_by"], row["exchange"], row["client"]) == ("token", "broker", None, "c:1")
    assert (row["mono_ns"], row["first_mono_ns"], row["at_ns"], row["note"]) == (9, 7, 1_009, "why")


def test_a_masked_request_has_no_client_id_and_neither_has_its_response() -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    call = traffic.call(RNG, traffic.VENDOR, 1, "one")
    _, (asked,) = feed_chunk(conn.conversation, Direction.REQUEST, call.request, 1, FrameKind.REQUEST)
    frame = call.request[4:12] + bytes(len(call.request) - 12)
    rows.add_frame(conn, 0, asked.kind, asked.exchange, frame, 1, 1, [(8, len(frame) - 8)], [], "unknown_api")
    _, (answered,) = feed_chunk(conn.conversation, Direction.RESPONSE, call.answer or b"", 2, FrameKind.RESPONSE)
    rows.add_frame(conn, 1, answered.kind, answered.exchange, (call.answer or b"")[4:], 2, 2, [], [], "unknown_api")
    assert [row["client_id"] for row in groups.rows()] == [None, None]


def test_a_masked_first_request_does_not_decide_the_usual_client_id_of_its_connection() -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    calls = [traffic.call(RNG, keys.METADATA, number, "one") for number in range(3)]
    _, (asked,) = feed_chunk(conn.conversation, Direction.REQUEST, calls[0].request, 1, FrameKind.REQUEST)
    masked = calls[0].request[4:12] + bytes(len(calls[0].request) - 12)
    rows.add_frame(conn, 0, asked.kind, asked.exchange, masked, 1, 1, [(8, len(masked) - 8)], [], None)
    for call in calls[1:]:
        step, found = feed_chunk(conn.conversation, Direction.REQUEST, call.request, 2, FrameKind.REQUEST)
        rows.add_run(conn, 0, step.data, found, 2)
    answers = b"".join(call.answer or b"" for call in calls)
    step, found = feed_chunk(conn.conversation, Direction.RESPONSE, answers, 3, FrameKind.RESPONSE)
    assert (conn.usual_client_id, list(conn.unusual_client_ids)) == ("one", [(0, None)])
    rows.add_run(conn, 1, step.data, found, 3)
    got = groups.rows()
    assert [row["client_id"] for row in got] == [None, "one", "one"] * 2
    assert [row["frame"] for row in got[:3]] == [masked, *(call.request[4:] for call in calls[1:])]
    assert [row["size"] for row in got[:3]] == [len(call.request) - 4 for call in calls]


@pytest.mark.parametrize("usual", ["one", ""])
def test_a_later_masked_request_has_no_client_id_though_its_zeros_read_as_an_empty_one(usual: str) -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    first, second = (traffic.call(RNG, keys.METADATA, number, usual) for number in range(2))
    step, found = feed_chunk(conn.conversation, Direction.REQUEST, first.request, 1, FrameKind.REQUEST)
    rows.add_run(conn, 0, step.data, found, 1)
    _, (asked,) = feed_chunk(conn.conversation, Direction.REQUEST, second.request, 2, FrameKind.REQUEST)
    masked = second.request[4:12] + bytes(len(second.request) - 12)
    rows.add_frame(conn, 0, asked.kind, asked.exchange, masked, 2, 2, [(8, len(masked) - 8)], [], None)
    answers = (first.answer or b"") + (second.answer or b"")
    step, found = feed_chunk(conn.conversation, Direction.RESPONSE, answers, 3, FrameKind.RESPONSE)
    rows.add_run(conn, 1, step.data, found, 3)
    assert [row["client_id"] for row in groups.rows()] == [usual, None] * 2


def test_a_head_without_a_client_id_does_not_lend_the_bodys_bytes_to_it() -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    request = traffic.framed(catalog.encode_request(CONTROLLED_SHUTDOWN, 0, 1, None, {"broker_id": 5}))
    step, found = feed_chunk(conn.conversation, Direction.REQUEST, request, 1, FrameKind.REQUEST)
    rows.add_run(conn, 0, step.data, found, 1)
    assert [(row["api"], row["client_id"]) for row in groups.rows()] == [("ControlledShutdown", None)]
    assert conn.usual_client_id is None


def test_an_answer_of_the_proxy_is_its_own() -> None:
    groups, rows, conn = made()
    assert conn.conversation is not None
    call = traffic.call(RNG, keys.METADATA, 1, "one")
    feed_chunk(conn.conversation, Direction.REQUEST, call.request, 1, FrameKind.REQUEST)
    conn.conversation.answer(conn.conversation.in_flight[0], traffic.framed(b"made"))
    (exchange,) = conn.conversation.own_answers_due(5).finished
    rows.add_frame(conn, 1, FrameKind.RESPONSE, exchange, b"made", 5, 5, [], [], None)
    (row,) = groups.rows()
    assert (row["made_by"], row["frame"], row["latency_ns"]) == ("proxy", b"made", None)


def test_rows_after_a_set_clock_have_the_new_one() -> None:
    groups, rows, conn = made()
    rows.add_frame(conn, 0, FrameKind.BYTES, None, b"a", 5, 5, [], [], None)
    rows.set_clock(HOUR_NS)
    rows.add_frame(conn, 0, FrameKind.BYTES, None, b"b", 5, 5, [], [], None)
    assert [row["at_ns"] for row in groups.rows()] == [5, HOUR_NS + 5]
