"""Tests of any conversation, cut anywhere: no byte is changed or lost, and each frame is recognised."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Conversation, Direction, Exchange, FrameKind, Mark, Routes
from proxy.conversation.conversation import MAX_SPARE
from proxy.conversation.routes import always
from proxy.conversation.side import SEARCHED_BYTES_PER_FRAME, Side
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.runs import Run, rest_of
from tests.proxy.conversation.script import (
    VENDOR,
    Asked,
    Chunk,
    Script,
    byte_by_byte,
    request,
    response,
    schedules,
    scripts,
    whole,
)
from tests.tables import each_row


def expected(script: Script) -> list[tuple[int, int, int, int, int, int]]:
    """The slow, obvious twin: the exchanges that must be finished at the end, in order."""
    return [
        (number, asked.key, asked.version, asked.correlation_id, len(asked.request) - 4, len(asked.response) - 4)
        for number, asked in enumerate(script.exchanges)
        if asked.response is not None
    ]


@given(script=scripts, data=st.data())
def test_bytes_pass_unchanged_and_responses_are_paired_for_any_cuts(script: Script, data: st.DataObject) -> None:
    run = Run(Conversation(Routes())).feed(data.draw(schedules(script)))
    assert run.sent(True) == script.requests
    assert run.sent(False) == script.responses
    assert run.finished() == expected(script)
    assert run.one_way() == [n for n, asked in enumerate(script.exchanges) if asked.response is None]
    assert not run.talk.in_flight
    assert all(step.cause is None for _, step in run.steps)


@given(script=scripts)
def test_fed_whole_or_byte_by_byte_comes_to_the_same(script: Script) -> None:
    in_one = Run(Conversation(Routes.everything())).feed(whole(script))
    in_bytes = Run(Conversation(Routes.everything())).feed(byte_by_byte(script))
    assert in_bytes.finished() == in_one.finished() == expected(script)
    assert in_bytes.frames(True) == in_one.frames(True)
    assert in_bytes.talk.sequence == in_one.talk.sequence


class InTurns(Run):
    """A conversation with at most `most` frames in a step: the rest of the bytes is fed again.

    `reported`: the chunks that a relay reports to the recorder, by `from_client`, without the bytes that a step leaves.
    """

    def __init__(self, routes: Routes, most: int) -> None:
        super().__init__(Conversation(routes, max_frames=most))
        self.reported = {True: b"", False: b""}

    def feed(self, chunks: list[Chunk]) -> InTurns:
        for chunk in chunks:
            data = chunk.data
            while data:
                super().feed([replace(chunk, data=data)])
                rest = self.steps[-1][1].rest
                self.reported[chunk.from_client] += data[: -len(rest)] if rest else data
                data = rest
        return self


@given(script=scripts, data=st.data(), most=st.integers(1, 40))
def test_small_steps_give_the_results_of_one_large_step(script: Script, data: st.DataObject, most: int) -> None:
    chunks = data.draw(schedules(script))
    at_once = Run(Conversation(Routes.everything())).feed(chunks)
    in_turns = InTurns(Routes.everything(), most).feed(chunks)
    assert in_turns.sent(True) == script.requests
    assert in_turns.sent(False) == script.responses
    assert in_turns.finished() == at_once.finished() == expected(script)
    assert in_turns.one_way() == at_once.one_way()
    assert in_turns.frames(True) == at_once.frames(True)
    assert in_turns.talk.state() == at_once.talk.state()


@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_step_looks_at_so_many_plain_frames_and_leaves_the_others(most: int) -> None:
    talk = Conversation(Routes(), max_frames=most)
    asked, answered = request(HEARTBEAT, 3, 1) * 250, response(1) * 250
    for number in range(1, 250 // most + 1):
        asked = talk.requests(asked, 1).rest
        assert len(talk.in_flight) == number * most
    while asked:
        asked = talk.requests(asked, 1).rest
    while answered:
        step = talk.responses(answered, 2)
        answered = step.rest
        assert 0 < len(step.finished) <= most


def test_a_frame_that_is_not_plain_counts_as_several() -> None:
    talk, special, each = Conversation(Routes(), max_frames=100), request(VENDOR, 0, 1), 100 // Side.special_cost + 1
    left = special * 3 * each
    for _ in range(3):
        step = talk.requests(left, 1)
        left = step.rest
        assert (len(step.opaque_reasons), step.data) == (each, special * each)
    assert not left


def test_between_frames_that_are_not_plain_there_is_no_room_for_more_plain_ones() -> None:
    talk, most = Conversation(Routes(), max_frames=100), 2 * 100
    left = (request(HEARTBEAT, 3, 1) * 90 + request(VENDOR, 0, 2)) * 10
    while left:
        before = len(talk.in_flight)
        left = talk.requests(left, 1).rest
        assert len(talk.in_flight) - before <= most


@each_row("size", [1, 300, 1500, 1600, 1601, 5000])
@each_row("from_client", [True, False], ids=["requests", "answers"])
def test_a_step_searches_a_bounded_number_of_bytes(from_client: bool, size: int) -> None:
    most = 100
    marked = {"mark_request": always, "mark_response": always}
    routes = Routes(**marked, search_request=always, search_response=always)
    asked, answered = request(HEARTBEAT, 3, 1, bytes(size)), response(1, bytes(size))
    run = InTurns(routes, most).feed([Chunk(True, asked * 20, 1), Chunk(False, answered * 20, 2)])
    assert run.frames(from_client) == [asked if from_client else answered] * 20
    for side, step in run.steps:
        if side is from_client:
            assert sum(mark.stop - mark.start for mark in step.marks) <= most * SEARCHED_BYTES_PER_FRAME + size
            assert len(step.data) <= 2 * most * SEARCHED_BYTES_PER_FRAME
    assert len(run.finished()) == 20


@given(script=scripts, data=st.data(), most=st.integers(1, 40))
def test_each_byte_is_reported_once_wherever_the_search_stops(script: Script, data: st.DataObject, most: int) -> None:
    routes = Routes(mark_request=always, mark_response=always, search_request=always, search_response=always)
    run = InTurns(routes, most).feed(data.draw(schedules(script)))
    assert run.reported == {True: script.requests, False: script.responses}
    assert (run.sent(True), run.sent(False)) == (script.requests, script.responses)


@each_row("held", range(1, 12))
def test_a_search_that_can_pay_for_nothing_leaves_no_byte_of_an_earlier_chunk(held: int) -> None:
    routes, frame = Routes(mark_request=always, search_request=always), request(HEARTBEAT, 3, 1, bytes(60))
    talk = Conversation(routes, max_frames=1)
    talk.requests(frame[:held], 1)
    step = talk.requests(frame[held:], 2)
    assert len(step.rest) < len(frame) - held
    assert frame.endswith(step.rest)


class Reusing(Run):
    """A conversation that gets back every finished exchange once it has been noted."""

    def feed(self, chunks: list[Chunk]) -> Reusing:
        self.noted: list[tuple[object, ...]] = []
        for chunk in chunks:
            before = len(self.steps)
            super().feed([chunk])
            for _, step in self.steps[before:]:
                self.noted += map(everything, step.finished)
                self.talk.reuse(step.finished)
        return self


def everything(exchange: Exchange) -> tuple[object, ...]:
    return tuple(getattr(exchange, name) for name in Exchange.__slots__)


@given(script=scripts, data=st.data())
def test_exchanges_that_serve_again_are_like_new(script: Script, data: st.DataObject) -> None:
    chunks = data.draw(schedules(script))
    routes = Routes()
    new, again = Run(Conversation(routes)).feed(chunks), Reusing(Conversation(routes)).feed(chunks)
    assert again.noted == [everything(exchange) for _, step in new.steps for exchange in step.finished]
    assert again.talk.state() == new.talk.state()


def test_an_exchange_that_is_over_serves_again_and_one_whose_request_is_still_coming_does_not() -> None:
    talk = Conversation(Routes())
    talk.requests(request(HEARTBEAT, 4, 1), 10)
    (over,) = talk.responses(response(1), 20).finished
    talk.reuse([over])
    asked = request(HEARTBEAT, 4, 2)
    talk.requests(asked[:-1], 30)
    assert list(talk.in_flight) == [over]
    (early,) = talk.responses(response(2), 40).finished
    talk.reuse([early])
    talk.requests(asked[-1:] + request(HEARTBEAT, 4, 3), 50)
    (next_one,) = talk.in_flight
    assert next_one is not early
    assert early.request_last_ns == 50


def test_no_more_exchanges_are_kept_than_a_burst_has() -> None:
    talk = Conversation(Routes())
    talk.requests(b"".join(request(HEARTBEAT, 4, number) for number in range(1000)), 10)
    first = talk.responses(b"".join(response(number) for number in range(1000)), 20).finished
    talk.reuse(first)
    talk.requests(b"".join(request(HEARTBEAT, 4, number) for number in range(1000)), 30)
    assert len({id(one) for one in talk.in_flight} & {id(one) for one in first}) == MAX_SPARE


@given(script=scripts, data=st.data())
def test_the_pieces_of_marked_frames_are_the_frames(script: Script, data: st.DataObject) -> None:
    run = Run(Conversation(Routes.everything())).feed(data.draw(schedules(script)))
    assert run.frames(True) == [asked.request for asked in script.exchanges]
    assert run.frames(False) == [asked.response for asked in script.exchanges if asked.response is not None]


@given(script=scripts, data=st.data())
def test_sequence_and_offsets_count_what_has_come(script: Script, data: st.DataObject) -> None:
    talk, arrived = Conversation(Routes()), {True: 0, False: 0}
    for chunk in data.draw(schedules(script)):
        Run(talk).feed([chunk])
        arrived[chunk.from_client] += len(chunk.data)
        assert talk.offsets == (arrived[True], arrived[False])
        whole_frames = _whole_frames(script.requests[: arrived[True]]) + _whole_frames(
            script.responses[: arrived[False]]
        )
        assert talk.sequence == whole_frames


def _whole_frames(stream: bytes) -> int:
    count = at = 0
    while at + 4 <= len(stream) and at + 4 + int.from_bytes(stream[at : at + 4], "big") <= len(stream):
        at += 4 + int.from_bytes(stream[at : at + 4], "big")
        count += 1
    return count


@given(script=scripts, data=st.data())
def test_a_conversation_continues_in_another_process_from_its_state(script: Script, data: st.DataObject) -> None:
    chunks = data.draw(schedules(script))
    cut = data.draw(st.integers(0, len(chunks)))
    routes = Routes.everything()
    before = Run(Conversation(routes)).feed(chunks[:cut])
    saved = json.loads(json.dumps(before.talk.state()))
    after = Run(Conversation.from_state(routes, saved)).feed(chunks[cut:])
    straight = Run(Conversation(routes)).feed(chunks)
    assert before.finished() + after.finished() == straight.finished()
    assert _marks(before) + _marks(after) == _marks(straight)
    assert after.talk.state() == straight.talk.state()


def _marks(run: Run) -> list[tuple[object, ...]]:
    return [
        (mark.kind, mark.begin, mark.end, mark.start, mark.stop, mark.exchange and mark.exchange.number)
        for _, step in run.steps
        for mark in step.marks
    ]


@given(script=scripts, data=st.data())
def test_a_conversation_resumes_after_a_gap_at_the_next_frame_of_each_direction(
    script: Script, data: st.DataObject
) -> None:
    chunks = data.draw(schedules(script))
    cut = data.draw(st.integers(0, len(chunks)))
    routes = Routes.everything()
    before = Run(Conversation(routes)).feed(chunks[:cut])
    state = before.talk.boundary_state()
    if state is None:
        assert before.talk.requests_side.held or before.talk.responses_side.held
        return
    after = Run(Conversation.from_state(routes, json.loads(json.dumps(state))))
    after.feed(rest_of(after.talk.offsets, chunks))
    straight = Run(Conversation(routes)).feed(chunks)
    seen = after.finished()
    assert seen == straight.finished()[len(straight.finished()) - len(seen) :]
    assert after.talk.sequence == straight.talk.sequence
    assert after.talk.next_request_number == straight.talk.next_request_number


def test_an_answer_of_our_own_waits_for_the_answers_before_it() -> None:
    talk = Conversation(Routes(answered_by_proxy=lambda key, version: key == 18))
    talk.requests(request(HEARTBEAT, 3, 1), 10)
    step = talk.requests(request(18, 9, 2) + request(HEARTBEAT, 3, 3), 20)
    (answered,) = step.to_answer
    assert answered.correlation_id == 2
    assert b"".join(map(bytes, step.outgoing())) == request(HEARTBEAT, 3, 3)
    talk.answer(answered, response(2, b"ours"))
    assert talk.own_answers_due(25).outgoing() == [b""]
    answers = talk.responses(response(1) + response(3), 30)
    assert b"".join(map(bytes, answers.outgoing())) == response(1) + response(2, b"ours") + response(3)
    assert [(e.correlation_id, e.by_proxy) for e in answers.finished] == [(1, False), (2, True), (3, False)]


def test_an_answer_of_our_own_is_due_at_once_where_nothing_is_before_it() -> None:
    talk = Conversation(Routes(answered_by_proxy=lambda key, version: key == 18))
    (answered,) = talk.requests(request(18, 9, 2), 10).to_answer
    talk.answer(answered, response(2, b"ours"))
    step = talk.own_answers_due(20)
    assert b"".join(map(bytes, step.outgoing())) == response(2, b"ours")
    assert [(mark.kind, mark.exchange and mark.exchange.by_proxy) for mark in step.marks] == [
        (FrameKind.RESPONSE, True)
    ]
    assert talk.sequence == 2
    assert talk.offsets[Direction.RESPONSE] == 0


def test_an_answer_of_our_own_never_cuts_into_a_response() -> None:
    talk = Conversation(Routes(answered_by_proxy=lambda key, version: key == 18))
    (answered,) = talk.requests(request(HEARTBEAT, 3, 1) + request(18, 9, 2), 10).to_answer
    talk.answer(answered, response(2, b"ours"))
    whole_response = response(1, b"a long body")
    first = talk.responses(whole_response[:10], 20)
    assert talk.own_answers_due(25).outgoing() == [b""]
    second = talk.responses(whole_response[10:], 30)
    sent = b"".join(bytes(piece) for step in (first, second) for piece in step.outgoing())
    assert sent == whole_response + response(2, b"ours")


def test_a_mark_tells_whether_its_part_is_the_first_or_the_last() -> None:
    mark = Mark(FrameKind.REQUEST, None, begin=0, end=10, start=0, stop=4, may_hold_secret=True)
    assert (mark.first, mark.last) == (True, False)
    assert (mark._replace(start=4, stop=10).first, mark._replace(start=4, stop=10).last) == (False, True)


def test_a_script_is_as_it_looks() -> None:
    script = Script([Asked(request(HEARTBEAT, 3, 1), response(1), HEARTBEAT, 3, 1)])
    assert script.answerable(len(script.requests) - 1) == 0
    assert script.answerable(len(script.requests)) == len(script.responses)


def test_bytes_that_nobody_saw_end_with_the_frame_that_they_are_in() -> None:
    conversation = Conversation(Routes())
    asked = [request(HEARTBEAT, 3, number, body=b"x" * 20) for number in range(3)]
    conversation.requests(asked[0][:20], 1)
    assert conversation.lose(Direction.REQUEST, len(asked[0]) - 25) == []
    assert conversation.requests(asked[0][-5:] + asked[1][:20], 2).cause is None
    # the rest of the second one is lost with its end; its response is still awaited
    assert conversation.lose(Direction.REQUEST, len(asked[1]) - 20) == []
    conversation.requests(asked[2], 3)
    step = conversation.responses(b"".join(response(number) for number in range(3)), 4)
    assert [exchange.number for exchange in step.finished] == [0, 1, 2]
    assert conversation.offsets[0] == sum(map(len, asked))


def test_bytes_beyond_a_frame_or_of_its_head_are_lost_with_its_place() -> None:
    conversation = Conversation(Routes())
    asked = request(HEARTBEAT, 3, 0, body=b"x" * 20)
    assert conversation.lose(Direction.REQUEST, 5) is None
    conversation.requests(asked[:9], 1)
    assert conversation.lose(Direction.REQUEST, 5) is None
    conversation.requests(asked[9:20], 1)
    assert conversation.lose(Direction.REQUEST, len(asked) - 19) is None
    assert conversation.offsets == (20, 0)


def test_a_response_whose_end_is_lost_ends_its_exchange() -> None:
    conversation = Conversation(Routes())
    conversation.requests(request(HEARTBEAT, 3, 0), 1)
    answer = response(0, body=b"y" * 30)
    conversation.responses(answer[:10], 2)
    (ended,) = conversation.lose(Direction.RESPONSE, len(answer) - 10) or []
    assert ended.number == 0
    assert not conversation.unfinished


def test_it_goes_on_from_an_awaited_request_and_gives_up_those_before() -> None:
    conversation = Conversation(Routes())
    for number in range(3):
        conversation.requests(request(HEARTBEAT, 3, number), 1)
    awaited = conversation.in_flight[2]
    assert [one.number for one in conversation.resume((None, 500), awaited)] == [0, 1]
    step = conversation.responses(response(2), 2)
    assert [exchange.number for exchange in step.finished] == [2]
    assert step.offset == 500
