"""Tests of the fuzz target of Kafka 0.7: mutations of its seeds, and checks that find planted faults."""

import random
from typing import Any

import pytest

from fuzz import conversations, kafka07, scripts
from fuzz.conversations import conversation, packed
from fuzz.findings import Finding
from fuzz.plays import Options
from proxy.conversation import Step
from proxy.conversation.kafka07 import ResponseSide07
from proxy.wire.kafka07 import RequestHead
from tests.sweeps import mostly_long

SCRIPTS = kafka07.scripts()
CHUNKS = [chunk for script in SCRIPTS.values() for chunk in script]
# so many parts, each of so many scripts
PARTS, EACH = 4, 100


@pytest.mark.real
@pytest.mark.parametrize("part", mostly_long(range(PARTS), usual=1))
def test_mutations_pass(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_PIECES", 100)
    rng = random.Random(part)
    for _ in range(EACH):
        script = rng.choice([*SCRIPTS.values()])
        drained = rng.choice((None, None, None, 1, 3))
        options = Options(recut=rng.choice((0, 0, 1, 2, 3)), drained_after=drained, is_old=True)
        options = options._replace(short_turns=rng.random() < 0.3)
        conversation(packed(options, scripts.mutated(rng, script, CHUNKS)))


def test_frames_are_separated_by_their_lengths() -> None:
    stream = b"\0\0\0\3\0\1x" + b"\0\0\0\2\xff\xff" + b"\0\0\0\4\0\2a"
    assert [*kafka07.frames(stream, 4)] == [(1, 3, True), (-1, 2, True), (2, 4, False)]
    assert [*kafka07.frames(stream, 2)] == []
    assert [*kafka07.frames(b"\0\0\0\2\0\1" + b"\0\0\0\1\0\0\0", 9)] == [(1, 2, True)]
    assert [*kafka07.frames(b"\0\0\0\2\0", 9)] == []
    assert [*kafka07.frames(b"\0\0\0\2", 9, head=4)] == [(0, 2, False)]


def finds(name: str, what: str) -> None:
    with pytest.raises(Finding, match=what):
        conversation(packed(Options(is_old=True), SCRIPTS[name]))


def test_a_pairing_that_is_not_the_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = ResponseSide07._frames

    def youngest_first(self: ResponseSide07, *given: Any) -> int:
        self.shared.in_flight.reverse()
        return frames(self, *given)

    monkeypatch.setattr(ResponseSide07, "_frames", youngest_first)
    finds("crossing", "response_bytes|request_bytes")


def test_a_produce_that_is_waited_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestHead, "awaits_response", property(lambda self: True))
    finds("in-turn", "exchanges")


def test_bytes_that_are_changed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    outgoing = Step.outgoing
    monkeypatch.setattr(Step, "outgoing", lambda self: [bytes(piece)[:-1] + b"?" for piece in outgoing(self)])
    finds("call-fetch", "what leaves is what came")
