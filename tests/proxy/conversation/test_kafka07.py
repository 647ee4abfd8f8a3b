"""Tests of the dialect of 0.7, cut anywhere: bytes pass unchanged, and a response goes to the oldest open request."""

from __future__ import annotations

import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Cause, Conversation, OpaqueReason, Routes, Routes07, timings
from proxy.conversation.conversation import DEFAULT_LIMITS
from proxy.conversation.exchange import TIME_UNKNOWN
from proxy.wire.dialects import Dialect
from proxy.wire.framing import FrameLimits
from tests.proxy.conversation.runs import Run, rest_of
from tests.proxy.conversation.script import Asked, Script, byte_by_byte, framed, produce, schedules, whole
from tests.proxy.wire.kafka07.clients import FRAMES
from tests.tables import each_row

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)
NAMES = ["0.7/produce", "0.7/fetch", "0.7/multifetch", "0.7/multiproduce", "0.7/offsets"]
NEVER_ANSWERED = (PRODUCE, MULTIPRODUCE)
# the calls of old clients (a name that contains another one comes first), and what they send
CALLS = {
    "multisend": "multiproduce",
    "multifetch": "multifetch",
    "fetch": "fetch",
    "offsets": "offsets",
    "produce": "produce",
}
ROUTES = Routes07()


def talk(limits: FrameLimits = DEFAULT_LIMITS) -> Conversation:
    return Conversation(ROUTES, limits)


def request(number: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">h", number) + body)


def response(error: int = 0, body: bytes = b"") -> bytes:
    return framed(struct.pack(">h", error) + body)


@st.composite
def exchanges(draw: st.DrawFn) -> Asked:
    number = draw(st.integers(PRODUCE, OFFSETS))
    answer = response(draw(st.integers(-1, 4)), draw(st.binary(max_size=60)))
    asked = request(number, draw(st.binary(max_size=60)))
    return Asked(asked, None if number in NEVER_ANSWERED else answer, number, 0, 0)


scripts = st.lists(exchanges(), max_size=8).map(Script)


def expected(script: Script) -> list[tuple[object, ...]]:
    return [
        (number, asked.key, None, None, len(asked.request) - 4, len(asked.response) - 4)
        for number, asked in enumerate(script.exchanges)
        if asked.response is not None
    ]


@given(script=scripts, data=st.data())
def test_bytes_pass_unchanged_and_responses_are_paired_for_any_cuts(script: Script, data: st.DataObject) -> None:
    run = Run(talk()).feed(data.draw(schedules(script)))
    assert (run.sent(True), run.sent(False)) == (script.requests, script.responses)
    assert run.finished() == expected(script)
    assert run.one_way() == [n for n, asked in enumerate(script.exchanges) if asked.response is None]
    assert not run.talk.in_flight
    assert [(step.cause, step.marks, step.verdicts, step.opaque_reasons) for _, step in run.steps] == [
        (None, [], [], []) for _ in run.steps
    ]


@given(script=scripts)
def test_fed_whole_or_byte_by_byte_comes_to_the_same(script: Script) -> None:
    in_one, in_bytes = Run(talk()).feed(whole(script)), Run(talk()).feed(byte_by_byte(script))
    assert in_bytes.finished() == in_one.finished() == expected(script)
    assert in_bytes.talk.sequence == in_one.talk.sequence == len(script.exchanges) + len(expected(script))


@given(script=scripts, data=st.data())
def test_a_conversation_of_0_7_continues_in_another_process_from_its_state(script: Script, data: st.DataObject) -> None:
    chunks = data.draw(schedules(script))
    cut = data.draw(st.integers(0, len(chunks)))
    before, straight = Run(talk()).feed(chunks[:cut]), Run(talk()).feed(chunks)
    saved = json.loads(json.dumps(before.talk.state()))
    after = Run(Conversation.from_state(ROUTES, saved)).feed(chunks[cut:])
    assert before.finished() + after.finished() == straight.finished()
    assert after.talk.state() == straight.talk.state()


@given(script=scripts, data=st.data())
def test_a_conversation_resumes_after_a_gap_at_the_next_frame_of_each_direction(
    script: Script, data: st.DataObject
) -> None:
    chunks = data.draw(schedules(script))
    cut = data.draw(st.integers(0, len(chunks)))
    state = Run(talk()).feed(chunks[:cut]).talk.boundary_state()
    if state is None:
        return
    after = Run(Conversation.from_state(ROUTES, json.loads(json.dumps(state))))
    seen = after.feed(rest_of(after.talk.offsets, chunks)).finished()
    straight = Run(talk()).feed(chunks)
    assert seen == straight.finished()[len(straight.finished()) - len(seen) :]
    assert (after.talk.sequence, after.talk.next_request_number) == (
        straight.talk.sequence,
        straight.talk.next_request_number,
    )


def test_produces_between_are_skipped() -> None:
    one = talk()
    step = one.requests(b"".join(map(request, (FETCH, PRODUCE, MULTIPRODUCE, OFFSETS, PRODUCE, MULTIFETCH))), 10)
    assert [exchange.api for exchange in step.one_way] == [NAMES[PRODUCE], NAMES[MULTIPRODUCE], NAMES[PRODUCE]]
    assert [exchange.api for exchange in one.in_flight] == [NAMES[FETCH], NAMES[OFFSETS], NAMES[MULTIFETCH]]
    answered = one.responses(response(0, b"a") + response(0, b"bb") + response(3), 20).finished
    assert [(exchange.number, exchange.api, exchange.response_size) for exchange in answered] == [
        (0, NAMES[FETCH], 3),
        (3, NAMES[OFFSETS], 4),
        (5, NAMES[MULTIFETCH], 2),
    ]


def test_the_frames_of_old_clients_are_what_their_calls_say() -> None:
    one = talk()
    for row in FRAMES["built"]:
        (exchange,) = (step := one.requests(bytes.fromhex(row["frame"]), 1)).one_way or [one.in_flight[-1]]
        said = next(name for call, name in CALLS.items() if call in row["call"].lower())
        assert exchange.api == f"0.7/{said}"
        one_way = said.endswith("produce")
        assert (exchange.awaits, exchange in step.one_way) == (not one_way, one_way)
    awaited = len(one.in_flight)
    step = one.responses(b"".join(bytes.fromhex(row["frame"]) for row in FRAMES["read"][:awaited]), 2)
    assert (len(step.finished), step.cause) == (awaited, None)


def test_times_are_those_of_the_chunks_in_which_bytes_came() -> None:
    one = talk()
    first, second = request(FETCH, b"first"), request(OFFSETS, b"second")
    one.requests(first[:3], 10)
    one.requests(first[3:] + second[:7], 20)
    one.requests(second[7:], 30)
    one.responses(response(0, b"long")[:5], 100)
    one.responses(response(0, b"long")[5:] + response()[:2], 150)
    (slow,) = one.responses(response()[2:], 170).finished
    assert (slow.request_first_ns, slow.request_last_ns, slow.response_first_ns) == (20, 30, 150)
    assert timings(slow) == (120, 120, 20)


def test_an_answer_to_a_request_that_is_still_arriving_is_its_answer() -> None:
    one, asked = talk(), request(FETCH, b"a long body")
    one.requests(asked[:9], 10)
    (early,) = one.responses(response(), 20).finished
    one.requests(asked[9:] + request(OFFSETS), 30)
    assert (early.number, timings(early).latency_ns) == (0, 0)
    assert [exchange.number for exchange in one.in_flight] == [1]


def test_behind_a_gap_the_time_of_an_open_request_is_not_known() -> None:
    one = talk()
    one.requests(request(FETCH, b"body")[:8], 10)
    again = Conversation.from_state(ROUTES, one.boundary_state() or {})
    assert [exchange.request_last_ns for exchange in again.in_flight] == [TIME_UNKNOWN]


@each_row("number", [5, 18, 32767, -1, -32768])
def test_a_type_that_0_7_does_not_have_passes_opaque_and_is_taken_to_be_answered(number: int) -> None:
    one = talk()
    step = one.requests(request(FETCH) + request(number, b"?"), 10)
    assert step.outgoing() == [request(FETCH) + request(number, b"?")]
    assert (step.opaque_reasons, step.one_way, step.cause) == ([OpaqueReason.UNKNOWN_API], [], None)
    unknown = one.in_flight[-1]
    assert (unknown.api_key, unknown.api, unknown.api_version) == (number, None, None)
    again = Conversation.from_state(ROUTES, json.loads(json.dumps(one.state())))
    assert again.in_flight[-1].api_key == number
    assert [exchange.api_key for exchange in one.responses(response() * 2, 20).finished] == [FETCH, number]


@each_row("length", [-1, -(2**31), 0, 1, 101, 2**31 - 1])
def test_an_impossible_length_ends_the_connection_after_the_good_frames(length: int) -> None:
    bad = struct.pack(">i", length)
    one = talk(FrameLimits(100, 100))
    step = one.requests(request(FETCH) + bad, 10)
    assert (step.cause, b"".join(map(bytes, step.outgoing()))) == (Cause.BAD_LENGTH, request(FETCH))
    step = one.responses(response() + bad, 20)
    assert (step.cause, b"".join(map(bytes, step.outgoing()))) == (Cause.BAD_LENGTH, response())
    assert len(step.finished) == 1


def test_the_longest_and_the_shortest_frames_pass() -> None:
    one = talk(FrameLimits(100, 200))
    assert one.requests(request(FETCH, bytes(98)) + request(OFFSETS), 10).cause is None
    assert one.responses(response(0, bytes(198)) + response(), 20).cause is None
    assert not one.in_flight


def test_a_response_without_a_pending_request_ends_the_connection() -> None:
    one = talk()
    one.requests(request(PRODUCE), 10)
    step = one.responses(response(), 20)
    assert (step.cause, step.stop) == (Cause.UNEXPECTED_RESPONSE, 0)


def test_nothing_is_a_secret_where_there_are_no_logins() -> None:
    one = talk()
    assert not one.login.pending
    # in Kafka's dialect, these bytes begin a Kerberos login
    assert not one.requests(framed(b"\x60" + bytes(20)), 10).verdicts
    assert not one.login.token_owed


def test_numbers_of_both_dialects_never_meet() -> None:
    """Metrics and recordings use the numbers in the routes."""
    one, other = Conversation(Routes()), talk()
    # both would be 1: version 1 of API 0, and type 1
    one.requests(produce(1, 7, acks=1), 10)
    other.requests(request(FETCH), 10)
    assert one.in_flight[0].route.api_and_version != other.in_flight[0].route.api_and_version
    assert ROUTES.of(other.in_flight[0].route.api_and_version).api == NAMES[FETCH]
    assert (one.dialect, other.dialect) == (Dialect.KAFKA, Dialect.KAFKA_07)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=40)), max_size=12))
def test_only_whole_frames_of_arbitrary_bytes_are_passed_on(chunks: list[tuple[bool, bytes]]) -> None:
    one, arrived, passed = talk(FrameLimits(50, 50)), [b"", b""], [b"", b""]
    for from_client, data in chunks:
        step = (one.requests if from_client else one.responses)(data, 1)
        arrived[from_client] += data
        passed[from_client] += b"".join(map(bytes, step.outgoing()))
        if step.cause is not None:
            break
    for came, went in zip(arrived, passed, strict=True):
        assert came.startswith(went)
