"""Tests of the state that a connection carries from one range to the next."""

import json
import random

import pytest

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction
from proxy.conversation.kafka07 import Routes07
from proxy.conversation.routes import Routes
from proxy.wire import keys
from proxy.wire.dialects import Dialect
from proxy.wire.headers import CLIENT_ID_SIZE_AT
from recorder.capture.connection_state import ConnectionState
from tests.recorder.capture import traffic
from tests.recorder.capture.feeding import feed_chunk
from tests.recorder.capture.logged import opened

RNG = random.Random(1)
CALL = traffic.call(RNG, keys.METADATA, 1, "one")
ROUTES = Routes()
EACH = {one.dialect: one for one in (ROUTES, Routes07())}


def conn() -> ConnectionState:
    return ConnectionState(9, Conversation(ROUTES, decides=False), opened(node=1, client="c:2"))


def feed(one: ConnectionState, chunk: bytes) -> None:
    assert one.conversation is not None
    feed_chunk(one.conversation, Direction.REQUEST, chunk, 5, one.kinds[0])


def exchange(one: ConnectionState, client_id: str | None, number: int = 1):
    call = traffic.call(RNG, keys.METADATA, number, client_id)
    feed(one, call.request)
    assert one.conversation is not None
    return one.conversation.in_flight[-1], call.request[4:]


def test_the_first_client_id_is_the_usual_one_and_others_are_kept_for_their_response() -> None:
    one = conn()
    assert one.usual_client_id is None
    assert one.note_client_id(*exchange(one, "one")) == "one"
    assert one.usual_client_id == "one"
    assert not one.unusual_client_ids
    assert one.note_client_id(*exchange(one, "two", 2)) == "two"
    assert one.note_client_id(*exchange(one, None, 3)) is None
    assert list(one.unusual_client_ids) == [(1, "two"), (2, None)]


@pytest.mark.parametrize("head", [b"", b"\0\3\0\0\0\0\0\1\x7f\xff", b"\0\3\0\0\0\0\0\1\xff\x00"])
def test_a_head_without_a_client_id_has_none(head: bytes) -> None:
    one = conn()
    asked, _ = exchange(one, "one")
    assert one.note_client_id(asked, head) is None


def test_spans_are_given_in_offsets_of_the_frame_and_forgotten() -> None:
    one = conn()
    one.masks[0].extend([(10, 14), (14, 20), (25, 40)])
    assert one.may_have_special_frames(0)
    assert not one.may_have_special_frames(1)
    assert one.spans(0, 8, 30) == ([(2, 10), (17, 5)], [], [])
    assert list(one.masks[0]) == [(25, 40)]
    assert one.spans(0, 30, 40) == ([(0, 10)], [], [])
    assert not one.may_have_special_frames(0)


def test_an_omitted_frames_mark_is_used_once() -> None:
    one = conn()
    asked, _ = exchange(one, "one")
    for direction, begin in ((0, 0), (1, 40)):
        one.left_out[direction].add(begin)
        assert one.may_have_special_frames(direction)
        assert one.leaves_out(direction, asked, begin)
        assert not one.leaves_out(direction, asked, begin)
    assert (one.left_out, list(one.left_out_responses)) == ((set(), set()), [])
    assert not one.may_have_special_frames(0)
    assert not one.may_have_special_frames(1)


def test_a_connection_continues_in_another_compactor_from_its_state() -> None:
    one = conn()
    exchange(one, "one")
    feed(one, CALL.request[:30])
    one.parts[0] = bytearray(CALL.request[:30])
    one.first_ns[0] = 4
    one.masks[0].append((3, 9))
    one.sequence, one.principal, one.usual_client_id_bytes = 7, "alice", b"\0\3one"
    one.unusual_client_ids.append((3, "two"))
    blob = bytearray(b"others")
    saved = json.loads(json.dumps(one.state(blob)))
    other = ConnectionState.from_state(EACH, saved, bytes(blob))
    assert other.parts == one.parts
    again = bytearray(b"others")
    assert json.loads(json.dumps(other.state(again))) == saved
    assert again == blob
    assert other.shared_columns() == one.shared_columns()
    assert other.shared_columns().principal == "alice"


def test_a_broken_connection_stays_broken_in_another_process() -> None:
    one = conn()
    exchange(one, "one")
    feed(one, CALL.request[:30])
    whole = one.conversation.requests_side.open_begin if one.conversation else 0
    one.parts[0] = bytearray(b"half")
    one.break_off("queue_full", 77)
    one.break_off("again", 78)
    assert one.conversation is None
    assert one.parts == [None, None]
    assert one.broken == {
        "reason": "queue_full",
        "since_ns": 77,
        "next_exchange": 2,
        "next_response": 0,
        "next_whole": 1,
        "cut": "Metadata",
        "cut_size": len(CALL.request) - 4,
        "behind": whole,
        "offsets": [whole, 0],
    }
    other = ConnectionState.from_state(EACH, json.loads(json.dumps(one.state(bytearray()))), b"")
    assert (other.conversation, other.broken) == (None, one.broken)


def test_connections_of_0_7_have_no_client_id() -> None:
    facts = opened(dialect="kafka-0.7")
    one = ConnectionState(9, Conversation(EACH[Dialect.KAFKA_07], decides=False), facts)
    # in any other dialect, these bytes would be a client id or null
    for body in (b"", b"\0\0\0\0\0\0\0\3one", b"\0\0\0\0\0\0\xff\xff", b"\0\0\0\0\0\0\x80\0"):
        frame = b"\0\1" + body
        feed(one, traffic.framed(frame))
        assert one.conversation is not None
        assert (
            frame.startswith(one.usual_client_id_bytes, CLIENT_ID_SIZE_AT)
            or one.note_client_id(one.conversation.in_flight[-1], frame) is None
        )
        assert one.usual_client_id is None
    assert one.shared_columns().dialect == "kafka-0.7"
    other = ConnectionState.from_state(EACH, json.loads(json.dumps(one.state(bytearray()))), b"")
    assert (other.dialect, other.conversation and other.conversation.dialect) == (Dialect.KAFKA_07, Dialect.KAFKA_07)
    assert other.usual_client_id is None


def test_a_connection_recorded_before_dialects_is_of_kafka() -> None:
    assert conn().dialect is Dialect.KAFKA


def test_client_ids_of_requests_in_a_gap_are_unknown() -> None:
    one = conn()
    exchange(one, "one")
    one.break_off("queue_full", 77)
    beyond = Conversation(ROUTES)
    for number in range(3):
        beyond.requests(traffic.call(RNG, keys.METADATA, number, "two").request, number)
    one.resume(Conversation.from_state(ROUTES, beyond.boundary_state() or {}))
    assert list(one.unusual_client_ids) == [(1, None), (2, None)]
    assert one.sequence == 3
    assert one.broken is None


NEWER = [traffic.framed(b"\0\x12\x7f\0" + number.to_bytes(4, "big") + b"\xff\xff\0") for number in (7, 8, 7)]


def asks(one: ConnectionState, chunk: bytes) -> None:
    assert one.conversation is not None
    _, found = feed_chunk(one.conversation, Direction.REQUEST, chunk, 5, one.kinds[0])
    for frame in found:
        assert frame.exchange is not None
        one.request_began(frame.exchange)


def test_the_proxys_answers_find_their_requests_in_their_order() -> None:
    one = conn()
    asks(one, NEWER[0] + CALL.request + NEWER[1])
    asks(one, NEWER[2] + CALL.request)
    for correlation_id, number in ((7, 0), (8, 2), (7, 3)):
        answered = one.answered_by_proxy(correlation_id)
        assert answered.number == number
        one.conversation.answer(answered, b"made")  # type: ignore[union-attr]
    with pytest.raises(LookupError):
        one.answered_by_proxy(7)
    with pytest.raises(LookupError):
        one.answered_by_proxy(CALL.correlation_id or 0)


def test_an_older_proxy_has_answered_what_is_known_by_now() -> None:
    one = conn()
    asks(one, CALL.request + traffic.framed(b"\0\x12\0\3\0\0\0\7\xff\xff\0\2x\2y\0"))
    assert one.answered_by_proxy(7).number == 1


def test_behind_a_gap_the_proxys_answers_find_the_requests_that_are_still_in_flight() -> None:
    one = conn()
    asks(one, NEWER[0])
    one.break_off("queue_full", 77)
    with pytest.raises(LookupError):
        one.answered_by_proxy(7)
    beyond = Conversation(ROUTES)
    beyond.requests(NEWER[1], 1)
    one.resume(Conversation.from_state(ROUTES, beyond.boundary_state() or {}))
    assert one.answered_by_proxy(8).number == 0


def test_an_answer_of_the_proxy_that_the_next_range_begins_with_finds_its_request() -> None:
    one = conn()
    asks(one, NEWER[0])
    other = ConnectionState.from_state(EACH, json.loads(json.dumps(one.state(bytearray()))), b"")
    assert other.answered_by_proxy(7).number == 0


def test_client_ids_of_unanswered_requests_are_forgotten() -> None:
    one = conn()
    for number in range(5):
        one.note_client_id(*exchange(one, f"client-{number}", number))
    assert one.has_usual_client_id(0)
    assert not one.has_usual_client_id(3)
    assert list(one.unusual_client_ids) == [(3, "client-3"), (4, "client-4")]
    assert one.has_usual_client_id(5)
    assert not one.unusual_client_ids
