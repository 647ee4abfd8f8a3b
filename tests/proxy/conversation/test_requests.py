"""Tests of special cases among a client's frames."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Cause, Conversation, FrameKind, OpaqueReason, Routes
from proxy.wire.framing import FrameLimits
from proxy.wire.keys import API_VERSIONS, HEARTBEAT, SASL_HANDSHAKE
from tests.proxy.conversation.script import VENDOR, framed, produce, request, response
from tests.tables import each_row


def test_a_request_is_in_flight_before_its_bytes_may_leave() -> None:
    talk = Conversation(Routes())
    step = talk.requests(request(HEARTBEAT, 3, 7)[:20], 10)
    assert [exchange.correlation_id for exchange in talk.in_flight] == [7]
    assert b"".join(map(bytes, step.outgoing())) == request(HEARTBEAT, 3, 7)[:20]


def test_a_head_that_is_cut_is_held_back_until_it_is_known() -> None:
    talk = Conversation(Routes())
    frame = request(HEARTBEAT, 3, 7)
    first = talk.requests(frame[:11], 10)
    assert (first.outgoing(), first.unclassified) == ([b""], 11)
    second = talk.requests(frame[11:], 30)
    assert b"".join(map(bytes, second.outgoing())) == frame
    (exchange,) = talk.in_flight
    assert (exchange.request_first_ns, exchange.request_last_ns) == (10, 30)


def test_the_last_byte_counts_even_if_it_comes_alone() -> None:
    talk = Conversation(Routes())
    frame = request(HEARTBEAT, 3, 7, b"body")
    for at_ns, piece in ((10, frame[:20]), (20, frame[20:-1]), (30, frame[-1:])):
        talk.requests(piece, at_ns)
    assert talk.in_flight[0].request_last_ns == 30


def test_acks_far_after_a_long_client_id_are_waited_for() -> None:
    talk = Conversation(Routes())
    frame = produce(9, 7, 0, client_id=b"x" * 30_000)
    assert talk.requests(frame[:20_000], 10).outgoing() == [b""]
    step = talk.requests(frame[20_000:], 20)
    assert [exchange.correlation_id for exchange in step.one_way] == [7]
    assert not talk.in_flight


def test_a_produce_request_without_acks_is_opaque_and_paired() -> None:
    talk = Conversation(Routes())
    frame = request(0, 9, 7, client_id=b"")[:-1]
    frame = framed(frame[4:])
    step = talk.requests(frame + request(HEARTBEAT, 3, 8), 10)
    assert step.opaque_reasons == [OpaqueReason.UNREADABLE]
    assert [exchange.correlation_id for exchange in talk.in_flight] == [7, 8]


@each_row("size", [-1, -(2**31), 1001, 0x16030100, struct.unpack(">i", b"GET ")[0]])
def test_a_length_that_no_frame_has_ends_the_connection(size: int) -> None:
    talk = Conversation(Routes(), FrameLimits(request=1000))
    good = request(HEARTBEAT, 3, 1)
    step = talk.requests(good + struct.pack(">i", size) + b"rest of it", 10)
    assert step.cause is Cause.BAD_LENGTH
    assert b"".join(map(bytes, step.outgoing())) == good


def test_a_request_whose_version_can_not_be_rewritten_is_refused() -> None:
    talk = Conversation(Routes(refused=lambda key, version: version > 13))
    good = request(HEARTBEAT, 3, 1)
    step = talk.requests(good + request(3, 14, 2), 10)
    assert step.cause is Cause.UNSUPPORTED_VERSION
    assert b"".join(map(bytes, step.outgoing())) == good
    assert len(talk.in_flight) == 1


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (request(VENDOR, 0, 7), OpaqueReason.UNKNOWN_API),
        (request(HEARTBEAT, 99, 7), OpaqueReason.UNKNOWN_VERSION),
        (framed(struct.pack(">hhih", VENDOR, 0, 7, 500)), OpaqueReason.UNREADABLE),
        (framed(struct.pack(">hhi", VENDOR, 0, 7)), OpaqueReason.UNREADABLE),
    ],
)
def test_an_unknown_request_passes_opaque_and_is_paired_by_order(frame: bytes, reason: OpaqueReason) -> None:
    talk = Conversation(Routes())
    step = talk.requests(frame, 10)
    assert step.opaque_reasons == [reason]
    assert b"".join(map(bytes, step.outgoing())) == frame
    assert [e.correlation_id for e in talk.responses(response(7), 20).finished] == [7]


@each_row("size", range(8))
def test_a_frame_too_short_for_a_head_passes_as_bytes(size: int) -> None:
    talk = Conversation(Routes())
    short = framed(b"x" * size)
    step = talk.requests(short + request(HEARTBEAT, 3, 1), 10)
    assert step.opaque_reasons == [OpaqueReason.UNREADABLE]
    assert [(mark.kind, mark.end - mark.begin) for mark in step.marks] == [(FrameKind.BYTES, 4 + size)]
    assert b"".join(map(bytes, step.outgoing())) == short + request(HEARTBEAT, 3, 1)
    assert len(talk.in_flight) == 1


def test_unreadable_bytes_are_marked_until_a_request_shows_that_no_login_is_under_way() -> None:
    talk = Conversation(Routes())
    before = talk.requests(request(VENDOR, 0, 1), 10)
    assert [mark.may_hold_secret for mark in before.marks] == [True]
    talk.requests(request(HEARTBEAT, 3, 2), 20)
    assert talk.requests(request(VENDOR, 0, 3), 30).marks == []


def test_a_produce_request_that_cannot_be_read_shows_nothing_about_a_login() -> None:
    talk = Conversation(Routes())
    step = talk.requests(request(0, 9, 1, b"\xff" * 20), 10)
    assert step.opaque_reasons == [OpaqueReason.UNREADABLE]
    assert [mark.may_hold_secret for mark in step.marks] == [True]


@each_row("size", range(14))
def test_a_short_token_of_an_open_ended_login_leaves_at_once(size: int) -> None:
    talk = Conversation(Routes())
    talk.requests(request(SASL_HANDSHAKE, 0, 1, b"\0\6GSSAPI") + framed(b"the first token"), 10)
    step = talk.requests(framed(b"\5" * size), 20)
    assert (step.stop, step.unclassified) == (4 + size, 0)
    assert [mark.kind for mark in step.marks] == [FrameKind.TOKEN]


def test_a_request_that_the_proxy_answers_does_not_leave_however_it_is_cut() -> None:
    frame = request(18, 9, 2, b"long enough to be cut")
    for cut in range(len(frame)):
        talk = Conversation(Routes(answered_by_proxy=lambda key, version: key == 18))
        steps = [talk.requests(piece, 10) for piece in (frame[:cut], frame[cut:]) if piece]
        assert b"".join(bytes(piece) for step in steps for piece in step.outgoing()) == b""
        assert [e.correlation_id for step in steps for e in step.to_answer] == [2]


def test_unanswered_opaque_requests_are_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.conversation.conversation.MAX_IN_FLIGHT", 3)
    talk = Conversation(Routes())
    first = talk.requests(b"".join(request(VENDOR, 0, number) for number in range(3)), 10)
    assert (first.unanswered, len(talk.in_flight)) == ([], 3)
    second = talk.requests(request(VENDOR, 0, 3) + request(VENDOR, 0, 4)[:-1], 20)
    assert [e.correlation_id for e in second.unanswered] == [0, 1, 2, 3, 4]
    third = talk.requests(request(VENDOR, 0, 4)[-1:] + request(VENDOR, 0, 5) + request(HEARTBEAT, 3, 6), 30)
    assert [e.correlation_id for e in third.one_way] == [5]
    assert [e.correlation_id for e in talk.in_flight] == [6]


def test_neither_a_known_request_nor_one_of_a_login_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.conversation.conversation.MAX_IN_FLIGHT", 3)
    for stays in (request(HEARTBEAT, 3, 1), request(API_VERSIONS, 99, 1)):
        talk = Conversation(Routes())
        step = talk.requests(request(VENDOR, 0, 0) + stays + request(VENDOR, 0, 2) * 5, 10)
        assert [e.correlation_id for e in step.unanswered] == [0]
        assert talk.must_await_oldest
        assert not talk.requests(request(VENDOR, 0, 3), 20).unanswered
        assert talk.requests(request(API_VERSIONS, 99, 1), 20).one_way == []
        assert len(talk.in_flight) == 7


@given(
    st.lists(
        st.tuples(
            st.sampled_from([2, 3, 8, 9, 13]),
            st.sampled_from([1, 1, -1, 0]),
            st.sampled_from([b"a", b"a", b"b", b"long" * 200]),
            st.binary(max_size=20),
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_only_produce_requests_with_acks_await_a_response_whatever_came_before(
    asked: list[tuple[int, int, bytes, bytes]], cuts: random.Random
) -> None:
    frames = [produce(version, number, acks, name, tail) for number, (version, acks, name, tail) in enumerate(asked)]
    data = b"".join(frames)
    conversation, one_way = Conversation(Routes()), list[int | None]()
    places = sorted({0, len(data), *(cuts.randrange(len(data) + 1) for _ in range(cuts.randrange(6)))})
    for start, stop in pairwise(places):
        one_way += [exchange.correlation_id for exchange in conversation.requests(data[start:stop], 1).one_way]
    awaited = [exchange.correlation_id for exchange in conversation.in_flight]
    assert one_way == [number for number, (_, acks, *_) in enumerate(asked) if not acks]
    assert awaited == [number for number, (_, acks, *_) in enumerate(asked) if acks]


def test_a_produce_request_that_ends_before_its_acks_is_opaque_after_one_that_does_not() -> None:
    whole, cut = produce(3, 1, 1, b"a"), request(0, 3, 2, b"\xff\xff", b"a")
    conversation = Conversation(Routes())
    # the bytes behind the cut one are those that acks would be
    conversation.requests(whole + cut + b"\0\1" + whole[2:], 1)
    assert [exchange.opaque is not None for exchange in conversation.in_flight][:2] == [False, True]
