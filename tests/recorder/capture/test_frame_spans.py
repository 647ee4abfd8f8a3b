"""Tests of the spans of frames from a conversation: they equal its marks, for any chunks."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.conversation import Conversation
from proxy.conversation.exchange import Direction, FrameKind
from proxy.conversation.routes import Routes
from proxy.conversation.step import Verdict
from proxy.wire import catalog, keys
from recorder.capture.frame_spans import FrameSpan
from tests.recorder.capture import traffic
from tests.recorder.capture.feeding import feed_chunk
from tests.recorder.capture.traffic import framed
from tests.sweeps import examples

KINDS = (keys.METADATA, keys.HEARTBEAT, keys.PRODUCE, keys.SASL_AUTHENTICATE, traffic.VENDOR)
Piece = tuple[str, int | None, int, int, int, int]


def cut_pieces(talk: Conversation, chunk: traffic.Chunk, kinds: list[FrameKind]) -> list[Piece]:
    step, found = feed_chunk(talk, chunk.direction, chunk.data, chunk.at_ns, kinds[chunk.direction])
    for one in found:
        kinds[chunk.direction] = one.kind
    return [piece(one, step.offset, len(step.data)) for one in found]


def piece(found: FrameSpan, base: int, length: int) -> Piece:
    number = found.exchange.number if found.exchange else None
    start, stop = max(found.start, 0), min(found.stop, length)
    return found.kind.value, number, base + found.start, base + found.stop, base + start, base + stop


def marked_pieces(talk: Conversation, chunk: traffic.Chunk) -> list[Piece]:
    step = (talk.responses if chunk.direction else talk.requests)(chunk.data, chunk.at_ns)
    return [
        (m.kind.value, m.exchange.number if m.exchange else None, m.begin, m.end, m.start, m.stop) for m in step.marks
    ]


@examples(60)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 4, 30, 300, 9000]))
def test_the_frames_are_those_that_marks_would_give(seed: int, largest: int) -> None:
    rng = random.Random(seed)
    talk = traffic.cut(rng, traffic.talk(rng, 1, 4 if largest == 1 else 15, KINDS), largest)
    fast, slow = Conversation(Routes(), decides=False), Conversation(Routes.everything(), decides=False)
    kinds = [FrameKind.REQUEST, FrameKind.RESPONSE]
    for chunk in talk.chunks:
        assert cut_pieces(fast, chunk, kinds) == marked_pieces(slow, chunk)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_tokens_lie_between_the_frames(size: int) -> None:
    fast, slow = Conversation(Routes(), decides=False), Conversation(Routes.everything(), decides=False)
    heartbeat = traffic.call(random.Random(1), keys.HEARTBEAT, 1, "c")
    handshake = framed(catalog.encode_request(17, 0, 1, "c", {"mechanism": "PLAIN"}))
    stream = handshake + framed(b"a token") + framed(b"") + heartbeat.request
    first, last = len(handshake), len(stream) - len(heartbeat.request)
    for talk in (fast, slow):
        talk.follow(Verdict(Direction.REQUEST, first, True, "PLAIN", False))
        talk.follow(Verdict(Direction.REQUEST, last, False, "PLAIN", True))
    kinds = [FrameKind.REQUEST, FrameKind.RESPONSE]
    seen = []
    for at in range(0, len(stream), size):
        chunk = traffic.Chunk(Direction.REQUEST, stream[at : at + size], at)
        pieces = cut_pieces(fast, chunk, kinds)
        assert pieces == marked_pieces(slow, chunk)
        seen += [kind for kind, _, _, end, _, stop in pieces if stop == end]
    assert seen == ["request", "token", "token", "request"]


def test_the_proxys_answers_are_recorded_where_they_were_sent() -> None:
    rng = random.Random(2)
    calls = [traffic.call(rng, keys.HEARTBEAT, number, "c") for number in range(3)]
    talk = Conversation(Routes(), decides=False)
    feed_chunk(talk, Direction.REQUEST, b"".join(call.request for call in calls), 1, FrameKind.REQUEST)
    made = framed((1).to_bytes(4, "big"))
    talk.answer(talk.in_flight[1], made)
    first, last = calls[0].answer or b"", calls[2].answer or b""
    _, found = feed_chunk(talk, Direction.RESPONSE, first + last, 2, FrameKind.RESPONSE)
    assert [one.exchange.number for one in found if one.exchange] == [0, 1, 2]
    assert [(one.start, one.stop) for one in found] == [
        (0, len(first)),
        (len(first), len(first)),
        (len(first), len(first + last)),
    ]


@pytest.mark.parametrize("size", [1, 20, 5000])
def test_requests_that_are_abandoned_and_late_answers_lie_where_they_came(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("proxy.conversation.conversation.MAX_IN_FLIGHT", 3)
    rng = random.Random(3)
    calls = [traffic.call(rng, traffic.VENDOR, number, "c") for number in range(8)]
    fast, slow = Conversation(Routes(), decides=False), Conversation(Routes.everything(), decides=False)
    kinds = [FrameKind.REQUEST, FrameKind.RESPONSE]
    for direction, stream in enumerate(
        (b"".join(call.request for call in calls), framed(b"\0\0\0\1late") + framed(b"\0\0\0\2") * 3)
    ):
        for at in range(0, len(stream), size):
            chunk = traffic.Chunk(Direction(direction), stream[at : at + size], at)
            assert cut_pieces(fast, chunk, kinds) == marked_pieces(slow, chunk)
        assert kinds[direction] is (FrameKind.BYTES if direction else FrameKind.REQUEST)
