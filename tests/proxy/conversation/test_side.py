"""Tests of a direction's position in its stream: the bytes so far, the open frame's missing bytes, the next frame."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Cause, Conversation, Routes
from proxy.wire.framing import FrameLimits
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.script import VENDOR, framed, request, response

FRAME = request(HEARTBEAT, 3, 1, b"body")


def fed(data: bytes, *, routes: Routes | None = None) -> Conversation:
    talk = Conversation(routes or Routes.everything())
    talk.requests(data, 10)
    return talk


@given(cut=st.integers(0, 3 * len(FRAME)))
def test_the_arrived_and_the_missing_bytes_end_at_a_frame_boundary(cut: int) -> None:
    side = fed((FRAME * 3)[:cut]).requests_side
    assert side.arrived == cut
    into = cut % len(FRAME)
    # while the length itself is incomplete, only its missing bytes are known
    expected = 0 if not into else 4 - into if into < 4 else len(FRAME) - into
    assert side.missing == expected
    if side.bytes_left:
        assert side.next_offset == cut + side.missing


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1])
def test_a_length_that_no_frame_may_have_ends_the_connection(size: int) -> None:
    talk = Conversation(Routes.everything(), FrameLimits(request=1000))
    step = talk.requests(size.to_bytes(4, "big", signed=True) + bytes(20), 10)
    assert step.cause is Cause.BAD_LENGTH
    assert step.stop == 0


def test_a_login_that_ends_within_a_frame_leaves_its_last_pieces_as_secret_as_its_first() -> None:
    talk, opaque = Conversation(Routes()), response(1, bytes(40))
    talk.requests(request(VENDOR, 0, 1), 10)
    pieces = [talk.responses(opaque[:20], 20)]
    talk.requests(request(HEARTBEAT, 3, 2), 30)
    assert not talk.login.pending
    pieces.append(talk.responses(opaque[20:], 40))
    assert [mark.may_hold_secret for step in pieces for mark in step.marks] == [True, True]


def test_the_longest_frame_that_is_let_through_passes() -> None:
    talk = Conversation(Routes.everything(), FrameLimits(request=len(FRAME) - 4))
    assert talk.requests(FRAME, 10).cause is None


@given(cuts=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_a_marked_frame_is_marked_in_every_piece_without_gap_or_overlap(cuts: list[int]) -> None:
    talk, at, spans = Conversation(Routes.everything()), 0, []
    for size in [*cuts, len(FRAME)]:
        step = talk.requests(FRAME[at : at + size], 10)
        spans += [(mark.start, mark.stop) for mark in step.marks]
        at += size
    assert spans[0][0] == 0
    assert spans[-1][1] == len(FRAME)
    assert all(stop == start for (_, stop), (start, _) in pairwise(spans))


@given(cut=st.integers(1, 2 * len(FRAME) - 1))
def test_a_side_continues_from_its_state(cut: int) -> None:
    first, rest = (FRAME * 2)[:cut], (FRAME * 2)[cut:]
    told, kept = fed(first), fed(first)
    again = Conversation.from_state(Routes.everything(), json.loads(json.dumps(kept.state())))
    spans = []
    for talk in (told, again):
        spans.append([(mark.begin, mark.end, mark.start, mark.stop) for mark in talk.requests(rest, 20).marks])
        talk.responses(response(1) + response(1), 30)
    assert spans[0] == spans[1]
    assert again.requests_side.state() == told.requests_side.state()
    assert again.responses_side.state() == told.responses_side.state()
    assert again.requests_side.arrived == 2 * len(FRAME)


def test_a_token_is_no_exchange_and_is_counted_apart() -> None:
    handshake = request(17, 0, 1, b"\0\5PLAIN")
    talk = fed(handshake)
    talk.responses(response(1, bytes(6)), 20)
    talk.requests(framed(b"\0user\0secret"), 30)
    assert (talk.requests_side.without_exchange, talk.next_request_number) == (1, 1)


@given(cut=st.integers(12, len(FRAME) - 1), data=st.data())
def test_missing_bytes_are_skipped_as_if_they_had_arrived(cut: int, data: st.DataObject) -> None:
    whole, partly = fed(FRAME[:cut]), fed(FRAME[:cut])
    whole.requests((FRAME * 2)[cut:], 10)
    gone = data.draw(st.integers(0, len(FRAME) - cut - 1))
    partly.requests_side.skip(gone)
    assert partly.requests_side.arrived == cut + gone
    partly.requests((FRAME * 2)[cut + gone :], 10)
    assert partly.state() == whole.state()


@pytest.mark.parametrize("count", [len(FRAME) - 20, len(FRAME)])
def test_the_end_of_a_frame_is_never_stepped_over(count: int) -> None:
    side = fed(FRAME[:20]).requests_side
    with pytest.raises(ValueError, match="can't skip"):
        side.skip(count)
