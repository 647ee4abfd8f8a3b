"""Tests of special cases among a broker's frames."""

from __future__ import annotations

import json
import struct

import pytest

from proxy.conversation import Cause, Conversation, FrameKind, Routes
from proxy.wire.framing import FrameLimits
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.script import VENDOR, request, response
from tests.tables import each_row


def asked(*frames: bytes) -> Conversation:
    talk = Conversation(Routes(), FrameLimits(response=1000))
    talk.requests(b"".join(frames), 10)
    return talk


def test_an_unrequested_response_ends_the_connection() -> None:
    step = asked(request(HEARTBEAT, 3, 1)).responses(response(1) + response(2), 20)
    assert [e.correlation_id for e in step.finished] == [1]
    assert step.cause is Cause.UNEXPECTED_RESPONSE
    assert b"".join(map(bytes, step.outgoing())) == response(1)


def test_responses_in_another_order_end_the_connection() -> None:
    step = asked(request(HEARTBEAT, 3, 1), request(HEARTBEAT, 3, 2)).responses(response(2), 20)
    assert step.cause is Cause.UNEXPECTED_RESPONSE


def test_opaque_requests_before_the_one_that_is_answered_have_no_answer() -> None:
    talk = asked(request(VENDOR, 0, 1), request(VENDOR, 0, 2), request(HEARTBEAT, 3, 3))
    step = talk.responses(response(3), 20)
    assert [e.correlation_id for e in step.finished] == [3]
    assert [e.correlation_id for e in step.unanswered] == [1, 2]
    assert not talk.in_flight


def test_our_answer_after_an_opaque_request_has_its_turn_when_that_is_skipped() -> None:
    talk = Conversation(Routes(answered_by_proxy=lambda key, version: key == 18))
    (answered,) = talk.requests(request(VENDOR, 0, 1) + request(18, 9, 2) + request(HEARTBEAT, 3, 3), 10).to_answer
    talk.answer(answered, response(2, b"ours"))
    assert talk.own_answers_due(15).outgoing() == [b""]
    step = talk.responses(response(3), 20)
    assert b"".join(map(bytes, step.outgoing())) == response(2, b"ours") + response(3)
    assert [e.correlation_id for e in step.unanswered] == [1]


def test_requests_stay_in_flight_when_a_response_matches_none() -> None:
    talk = asked(request(HEARTBEAT, 3, 1), request(HEARTBEAT, 3, 2))
    talk.responses(response(9), 20)
    assert [e.correlation_id for e in talk.in_flight] == [1, 2]


def test_no_known_request_is_skipped() -> None:
    talk = asked(request(VENDOR, 0, 1), request(HEARTBEAT, 3, 2), request(HEARTBEAT, 3, 3))
    assert talk.responses(response(3), 20).cause is Cause.UNEXPECTED_RESPONSE


@each_row("size", [-1, 0, 3, 1001])
@each_row("rest", [b"", b"rest of it"])
def test_a_length_that_no_response_has_ends_the_connection(size: int, rest: bytes) -> None:
    step = asked(request(HEARTBEAT, 3, 1)).responses(struct.pack(">i", size) + rest, 20)
    assert step.cause is Cause.BAD_LENGTH
    assert step.outgoing() == [b""]


def test_the_same_correlation_id_twice_is_answered_in_order() -> None:
    talk = asked(request(HEARTBEAT, 3, 7), request(HEARTBEAT, 3, 7))
    step = talk.responses(response(7, b"a") + response(7, b"bc"), 20)
    assert [(e.number, e.response_size) for e in step.finished] == [(0, 5), (1, 6)]


def test_a_response_stands_where_its_step_says_or_before_it() -> None:
    talk = asked(*(request(HEARTBEAT, 3, number) for number in range(4)))
    data = b"".join(response(number, b"body") for number in range(4))
    step = talk.responses(data[:34], 20)
    assert [step.data[e.response_at :][:12] for e in step.finished] == [response(0, b"body"), response(1, b"body")]
    step = talk.responses(data[34:40], 30)
    assert [e.response_at for e in step.finished] == [-10]
    # its head is held until it is whole
    step = talk.responses(data[40:], 40)
    assert [step.data[e.response_at :] for e in step.finished] == [response(3, b"body")]


def test_times_are_those_of_the_first_and_the_last_byte() -> None:
    talk = asked(request(HEARTBEAT, 3, 7), request(HEARTBEAT, 3, 8))
    frame = response(7, b"body")
    talk.responses(frame[:3], 100)
    talk.responses(frame[3:9], 200)
    (first,) = talk.responses(frame[9:] + response(8)[:2], 300).finished
    assert (first.response_first_ns, first.response_last_ns) == (100, 300)
    (second,) = talk.responses(response(8)[2:], 400).finished
    assert (second.response_first_ns, second.previous_last_ns) == (300, 300)


def test_an_early_answer_is_paired_with_the_request_that_is_still_arriving() -> None:
    talk = Conversation(Routes())
    frame = request(HEARTBEAT, 3, 7, b"body")
    talk.requests(frame[:-1], 10)
    (exchange,) = talk.responses(response(7), 20).finished
    talk.requests(frame[-1:], 30)
    assert (exchange.response_first_ns, exchange.request_last_ns) == (20, 30)
    assert talk.sequence == 2


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> Conversation:
    """A conversation whose broker got too many opaque requests, and answered none of them."""
    monkeypatch.setattr("proxy.conversation.conversation.MAX_IN_FLIGHT", 3)
    # the login is over, so unreadable bytes are no secret
    talk = asked(request(HEARTBEAT, 3, 99))
    talk.responses(response(99), 15)
    talk.requests(b"".join(request(VENDOR, 0, number) for number in range(4)), 20)
    return talk


def test_a_response_to_an_abandoned_request_passes_and_may_hold_secrets(given_up: Conversation) -> None:
    late = response(2, b"late")
    for chunk in (late[:5], late[5:9], late[9:] + late):
        step = given_up.responses(chunk, 30)
        assert (step.cause, step.finished, step.unanswered) == (None, [], [])
        assert [(mark.kind, mark.exchange, mark.may_hold_secret) for mark in step.marks] in (
            [],
            [(FrameKind.BYTES, None, True)],
            [(FrameKind.BYTES, None, True)] * 2,
        )
    assert given_up.responses_side.without_exchange == 2
    assert given_up.sequence == 8
    again = Conversation.from_state(Routes(), json.loads(json.dumps(given_up.state())))
    assert again.responses(late, 40).cause is None


def test_known_requests_are_paired_after_an_abandoned_one(given_up: Conversation) -> None:
    given_up.requests(request(HEARTBEAT, 3, 9) + request(VENDOR, 0, 10) + request(HEARTBEAT, 3, 11), 40)
    step = given_up.responses(response(3) + response(9) + response(10) + response(11), 50)
    assert [e.correlation_id for e in step.finished] == [9, 11]
    assert step.cause is None
    assert not given_up.in_flight
    given_up.requests(request(HEARTBEAT, 3, 12), 60)
    # an invalid length still ends the connection
    assert given_up.responses(struct.pack(">ii", 1001, 12), 70).cause is Cause.BAD_LENGTH


def test_an_answer_that_makes_no_sense_ends_a_connection_on_which_nothing_was_abandoned() -> None:
    talk = asked(request(VENDOR, 0, 1))
    assert talk.responses(response(2), 20).cause is Cause.UNEXPECTED_RESPONSE
