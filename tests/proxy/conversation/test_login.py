"""Tests of logins with bare tokens, by mechanism, cut anywhere."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field

import pytest

from proxy.conversation import Conversation, Direction, FrameKind, Routes, Step, Verdict
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.script import framed, request, response
from tests.tables import each_row

CLIENT, BROKER = Direction.REQUEST, Direction.RESPONSE


def handshake(mechanism: str, correlation_id: int = 1, version: int = 0) -> bytes:
    name = mechanism.encode()
    return request(17, version, correlation_id, struct.pack(">h", len(name)) + name)


SHAKEN = response(1, b"\0\0\0\0\0\0")
NEXT, ANSWER = request(HEARTBEAT, 3, 2), response(2)
# the frames of both sides, until the first request after the login is answered
LOGINS = {
    "PLAIN": [(CLIENT, b"\0user\0secret"), (BROKER, b"")],
    "SCRAM-SHA-256": [(CLIENT, b"n,,n=u"), (BROKER, b"r=1,s=2"), (CLIENT, b"c=biws,p=3"), (BROKER, b"v=4")],
    "SCRAM-SHA-512": [(CLIENT, b"n,,n=u"), (BROKER, b"r=1,s=2"), (CLIENT, b"c=biws,p=3"), (BROKER, b"v=4")],
    "OAUTHBEARER": [(CLIENT, b"n,,\1auth=Bearer x\1\1"), (BROKER, b"")],
    "GSSAPI": [
        (CLIENT, b"\x60\x82token"),
        (BROKER, b"\x60server"),
        (CLIENT, b""),
        (BROKER, b"\5\4w"),
        (CLIENT, b"\5\4x"),
    ],
    "X-UNKNOWN": [(CLIENT, b"a token of any kind"), (BROKER, b"another one")],
}


@dataclass
class Heard:
    """The tokens and frames that a conversation recognised."""

    talk: Conversation
    marks: list[tuple[Direction, FrameKind, bytes]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def hear(self, direction: Direction, data: bytes, size: int) -> None:
        for at in range(0, len(data), size):
            feed = self.talk.requests if direction is CLIENT else self.talk.responses
            self._take(direction, feed(data[at : at + size], 10))

    def _take(self, direction: Direction, step: Step) -> None:
        assert step.cause is None
        self.verdicts += step.verdicts
        for mark in step.marks:
            if mark.first:
                self.marks.append((direction, mark.kind, b""))
            index = max(n for n, (side, _, _) in enumerate(self.marks) if side is direction)
            side, kind, data = self.marks[index]
            self.marks[index] = (side, kind, data + step.data[mark.start - step.offset : mark.stop - step.offset])


def said(mechanism: str) -> list[tuple[Direction, bytes]]:
    tokens = [(side, framed(token)) for side, token in LOGINS[mechanism]]
    return [(CLIENT, handshake(mechanism)), (BROKER, SHAKEN), *tokens, (CLIENT, NEXT), (BROKER, ANSWER)]


def expected(mechanism: str) -> list[tuple[Direction, FrameKind, bytes]]:
    kinds = [FrameKind.REQUEST, FrameKind.RESPONSE]
    script = said(mechanism)
    return [
        (side, kinds[side] if n < 2 or n >= len(script) - 2 else FrameKind.TOKEN, data)
        for n, (side, data) in enumerate(script)
    ]


@each_row("size", [1, 3, 7, 1000])
@each_row("mechanism", LOGINS)
def test_tokens_are_distinguished_from_frames(mechanism: str, size: int) -> None:
    heard = Heard(Conversation(Routes.everything()))
    for side, data in said(mechanism):
        heard.hear(side, data, size)
    assert heard.marks == expected(mechanism)
    assert heard.verdicts[-1].ended
    assert not heard.talk.in_flight


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_between_a_token_and_the_servers_one_is_owed(mechanism: str) -> None:
    heard, owed = Heard(Conversation(Routes.everything())), []
    for side, data in said(mechanism):
        heard.hear(side, data, 1)
        owed.append(heard.talk.login.token_owed)
    # the handshake and its response come first, a request and its response last
    assert owed == [False, False, *(side is CLIENT for side, _ in LOGINS[mechanism]), False, False]


@pytest.mark.parametrize("mechanism", ["GSSAPI", "X-UNKNOWN"])
def test_no_token_is_due_where_the_mechanisms_end_is_unknown(mechanism: str) -> None:
    heard = Heard(Conversation(Routes.everything()))
    for side, data in said(mechanism):
        heard.hear(side, data, 1000)
        assert not heard.talk.login.token_owed


def test_a_frame_before_the_handshakes_answer_is_not_a_token_due_after_the_login() -> None:
    heard = Heard(Conversation(Routes.everything()))
    for data in (handshake("PLAIN"), framed(b"\0user\0secret"), framed(b"more")):
        heard.hear(CLIENT, data, 1000)
    for data in (SHAKEN, framed(b"")):
        heard.hear(BROKER, data, 1000)
    assert not heard.talk.login.token_owed


@each_row("mechanism", LOGINS)
def test_a_reader_of_masked_bytes_finds_the_same_frames_by_the_verdicts(mechanism: str) -> None:
    """Like the compactor, it finds the same frames in masked bytes, because it is told where tokens begin."""
    proxy = Heard(Conversation(Routes.everything()))
    reader = Heard(Conversation(Routes.everything(), decides=False))
    for side, data in said(mechanism):
        known = len(proxy.verdicts)
        proxy.hear(side, data, 1000)
        for verdict in proxy.verdicts[known:]:
            reader.talk.follow(verdict)
        is_token = proxy.marks[-1][1] is FrameKind.TOKEN
        reader.hear(side, data[:4] + b"\0" * (len(data) - 4) if is_token else data, 1000)
    assert [(side, kind, len(data)) for side, kind, data in reader.marks] == [
        (side, kind, len(data)) for side, kind, data in proxy.marks
    ]
    assert reader.verdicts == []
    assert reader.talk.sequence == proxy.talk.sequence


@each_row("cut", range(len(LOGINS["SCRAM-SHA-256"]) + 3))
def test_a_login_continues_in_another_process_from_its_state(cut: int) -> None:
    script = said("SCRAM-SHA-256")
    before = Heard(Conversation(Routes.everything()))
    for side, data in script[:cut]:
        before.hear(side, data, 1000)
    saved = json.loads(json.dumps(before.talk.state()))
    after = Heard(Conversation.from_state(Routes.everything(), saved, decides=True))
    for side, data in script[cut:]:
        after.hear(side, data, 1000)
    assert before.marks + after.marks == expected("SCRAM-SHA-256")


def test_a_raw_kerberos_packet_needs_no_handshake() -> None:
    heard = Heard(Conversation(Routes.everything()))
    token = framed(b"\x60\x82 an AP-REQ as the oldest clients send it")
    for side, data in ((CLIENT, token), (BROKER, framed(b"\x60 reply")), (CLIENT, NEXT), (BROKER, ANSWER)):
        heard.hear(side, data, 1)
    assert [kind for _, kind, _ in heard.marks] == [
        FrameKind.TOKEN,
        FrameKind.TOKEN,
        FrameKind.REQUEST,
        FrameKind.RESPONSE,
    ]


def test_after_handshake_version_1_everything_has_a_head() -> None:
    heard = Heard(Conversation(Routes.everything()))
    heard.hear(CLIENT, handshake("PLAIN", version=1), 1000)
    heard.hear(BROKER, SHAKEN, 1000)
    heard.hear(CLIENT, request(36, 1, 2, b"\0\0\0\1x"), 1000)
    assert [kind for _, kind, _ in heard.marks] == [FrameKind.REQUEST, FrameKind.RESPONSE, FrameKind.REQUEST]
    assert heard.verdicts == []


def test_a_token_sent_before_the_handshake_is_answered_is_a_token() -> None:
    heard = Heard(Conversation(Routes.everything()))
    heard.hear(CLIENT, handshake("PLAIN") + framed(b"\0user\0secret"), 1000)
    heard.hear(BROKER, SHAKEN + framed(b""), 1000)
    heard.hear(CLIENT, NEXT, 1000)
    assert [kind for side, kind, _ in heard.marks if side is CLIENT] == [
        FrameKind.REQUEST,
        FrameKind.TOKEN,
        FrameKind.REQUEST,
    ]


def test_a_refused_bearer_token_leaves_the_login_open() -> None:
    heard = Heard(Conversation(Routes.everything()))
    for side, data in said("OAUTHBEARER")[:3]:
        heard.hear(side, data, 1000)
    heard.hear(BROKER, framed(b'{"status":"invalid_token"}'), 1000)
    heard.hear(CLIENT, framed(b"\1"), 1000)
    assert heard.marks[-1][1] is FrameKind.TOKEN


@pytest.mark.parametrize("version", [1, 9])
def test_another_handshake_begins_another_login(version: int) -> None:
    talk = Conversation(Routes.everything())
    for data, pending in ((NEXT, False), (handshake("PLAIN", version=version), True), (NEXT, False)):
        talk.requests(data, 10)
        assert talk.login.pending is pending


@each_row("size", [1, 3, 7, 1000])
@each_row("mechanism", LOGINS)
def test_a_refused_handshake_is_followed_by_frames(mechanism: str, size: int) -> None:
    """A broker without SASL answers ILLEGAL_SASL_STATE, and then answers requests as usual."""
    heard = Heard(Conversation(Routes.everything()))
    refused = response(1, b"\0\x22\0\0\0\0")
    script = [(CLIENT, handshake(mechanism)), (BROKER, refused), (CLIENT, NEXT), (BROKER, ANSWER)]
    for side, data in script:
        heard.hear(side, data, size)
    kinds = [FrameKind.REQUEST, FrameKind.RESPONSE]
    assert heard.marks == [(side, kinds[side], data) for side, data in script]
    assert [verdict.token for verdict in heard.verdicts if verdict.direction is BROKER] == [False]


def test_a_handshakes_answer_that_says_nothing_is_no_refusal() -> None:
    heard = Heard(Conversation(Routes.everything()))
    for side, data in [(CLIENT, handshake("PLAIN")), (BROKER, response(1)), (CLIENT, framed(b"\0user\0secret"))]:
        heard.hear(side, data, 1000)
    assert heard.marks[-1][1] is FrameKind.TOKEN
