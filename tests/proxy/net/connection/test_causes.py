"""Tests of what the log says when the proxy ends a connection."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Unexpected
from proxy.net.connection.causes import (
    BY_PEERS,
    LINES,
    MOST_RECORDED,
    SAID_ELSEWHERE,
    Decision,
    as_recorded,
    log_ending,
)
from proxy.net.log_throttle import LogThrottle
from proxy.wire.keys import HEARTBEAT, METADATA
from tests.logs import keys_of
from tests.proxy.conversation.script import VENDOR, produce, request, response
from tests.proxy.net.relays import Relaying, relaying

LIMITS: dict[str, Any] = {"request_limit": 1000, "response_limit": 1000, "hold_limit": 100}
# the first bytes of what is no Kafka, and what the log calls it
FOREIGN = {
    b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n": "client speaks HTTP, and this port is for Kafka",
    b"OPTIONS * HTTP/1.1\r\n\r\n": "client speaks HTTP, and this port is for Kafka",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": "client speaks HTTP/2, and this port is for Kafka",
    b"SSH-2.0-OpenSSH_9.6\r\n": "client speaks SSH, and this port is for Kafka",
    b"*1\r\n$4\r\nPING\r\n": "client speaks Redis, and this port is for Kafka",
    b"PING\r\n": "client speaks Redis, and this port is for Kafka",
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n": "client sends a PROXY header, and this listener takes none from it",
    b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c": "client sends a PROXY header, and this listener takes none from it",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03": "client speaks TLS, and this port is for plaintext",
    b"\xff\xff\xff\xff": "request has a bad length",
}


def test_every_cause_has_one_line_or_a_reason_why_it_has_none() -> None:
    said = [*LINES, *BY_PEERS, *SAID_ELSEWHERE]
    assert sorted(said) == sorted(Cause)


def test_every_setting_of_a_line_is_a_key_of_the_settings() -> None:
    from proxy.settings.reference import reference

    page = reference()
    for line in LINES.values():
        assert not line.setting or f"`{line.setting}`" in page


async def decided(talk: Relaying, cause: Cause) -> Decision:
    await talk.ends_with(cause)
    return talk.relay.decision


def whole(said: bytes) -> Iterator[bytes]:
    yield said


def byte_by_byte(said: bytes) -> Iterator[bytes]:
    return (said[at : at + 1] for at in range(len(said)))


@pytest.mark.parametrize("cut", [whole, byte_by_byte])
@pytest.mark.parametrize("said", FOREIGN)
async def test_bytes_that_are_no_request_are_named(said: bytes, cut: Callable[[bytes], Iterator[bytes]]) -> None:
    async with relaying(**LIMITS) as talk:
        for piece in cut(said):
            if not talk.finished.is_set():
                await talk.client.say(piece)
                await wait_all_tasks_blocked()
        assert (await decided(talk, Cause.BAD_LENGTH)).event == FOREIGN[said]


async def test_a_request_above_the_limit_is_said_with_its_api_its_length_and_the_key() -> None:
    async with relaying(**LIMITS) as talk:
        await talk.client.say(produce(3, 1, acks=1, tail=bytes(2000)))
        decision = await decided(talk, Cause.BAD_LENGTH)
    assert (decision.event, decision.setting) == ("request is longer than the limit", "limits.request")
    assert decision.facts["api"] == "Produce"
    assert (decision.facts["length"], decision.facts["limit"]) == (
        len(produce(3, 1, acks=1, tail=bytes(2000))) - 4,
        1000,
    )


async def test_a_length_above_the_limit_before_no_kafka_api_is_no_question_of_the_limit() -> None:
    async with relaying(**LIMITS) as talk:
        await talk.client.say(struct.pack(">i", 2000), b"\x7f\xff\0\0", bytes(9))
        decision = await decided(talk, Cause.BAD_LENGTH)
    assert (decision.event, decision.setting) == ("request has a bad length", "")


async def test_a_response_above_the_limit_is_said_with_its_api_its_length_and_the_key() -> None:
    async with relaying(**LIMITS) as talk:
        await talk.client.say(request(HEARTBEAT, 3, 1))
        await talk.broker.hear_frame()
        await talk.broker.say(response(1, bytes(2000)))
        decision = await decided(talk, Cause.BAD_LENGTH)
    assert (decision.event, decision.setting) == ("response is longer than the limit", "limits.response")
    seen = [decision.facts[name] for name in ("api", "length", "limit", "upstream")]
    assert seen == ["Heartbeat", 2004, 1000, "broker"]


async def test_a_response_above_the_limit_of_held_ones_is_said_with_its_key() -> None:
    async with relaying(**LIMITS) as talk:
        await talk.client.say(request(METADATA, 1, 1, b"\xff\xff\xff\xff"))
        await talk.broker.hear_frame()
        await talk.broker.say(response(1, bytes(200)))
        decision = await decided(talk, Cause.NOT_REWRITABLE)
    assert (decision.setting, decision.facts["api"]) == ("limits.hold", "Metadata")


async def test_a_version_that_cant_be_rewritten_is_said_with_the_newest_that_can() -> None:
    async with relaying() as talk:
        await talk.client.say(request(METADATA, 99, 1))
        decision = await decided(talk, Cause.UNSUPPORTED_VERSION)
    assert (decision.facts["api"], decision.facts["version"]) == ("Metadata", 99)
    assert decision.facts["newest"] < 99


async def test_an_upstream_that_is_no_broker_is_named() -> None:
    async with relaying() as talk:
        await talk.client.say(request(HEARTBEAT, 3, 1))
        await talk.broker.hear_frame()
        await talk.broker.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        decision = await decided(talk, Cause.BAD_LENGTH)
    assert decision.event == "upstream speaks HTTP instead of Kafka"
    assert decision.facts["upstream"] == "broker"


ASKED = [request(HEARTBEAT, 3, number) for number in (1, 2)]
# what the client asks, what the broker answers, each in a chunk of its own; and what is said of the last answer
UNEXPECTED: list[tuple[list[bytes], list[bytes], Unexpected, str]] = [
    (ASKED, [response(2)], Unexpected.OUT_OF_ORDER, "answered 2 before 1"),
    (ASKED, [response(1), response(1)], Unexpected.TWICE, "answered 1 again"),
    (ASKED, [response(1) + response(1)], Unexpected.TWICE, "answered 1 again"),
    (ASKED, [response(1), response(2), response(1)], Unexpected.TWICE, "answered 1 again"),
    (ASKED, [response(3)], Unexpected.UNASKED, "answered 3 instead of 1"),
    (ASKED[:1], [response(1), response(3)], Unexpected.UNASKED, "answered 3 when no request was in flight"),
    ([produce(3, 7, acks=0), ASKED[0]], [response(7)], Unexpected.NOT_WANTED, "answered 7, a Produce with acks=0"),
    (
        [request(VENDOR, 0, 7), *ASKED],
        [response(1), response(7)],
        Unexpected.LATE,
        "answered 7 after a later request",
    ),
]


@pytest.mark.parametrize(("asked", "answers", "kind", "what"), UNEXPECTED)
async def test_a_response_that_is_not_awaited_is_told_apart(
    asked: list[bytes], answers: list[bytes], kind: Unexpected, what: str
) -> None:
    async with relaying() as talk:
        await talk.client.say(*asked)
        await talk.broker.hears(*asked)
        for answer in answers:
            await talk.broker.say(answer)
            await wait_all_tasks_blocked()
        decision = await decided(talk, Cause.UNEXPECTED_RESPONSE)
    assert (decision.event, decision.facts["what"]) == (kind.value, what)


def keys(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, Any]]:
    return [(record.message, record.levelno, keys_of(record)) for record in caplog.records]


async def test_an_ending_is_logged_with_its_facts_and_its_key_and_throttled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafka-wiretap")
    throttle = LogThrottle()
    for length in (5, 6):
        decision = Decision("too long", "limits.request", {"length": length})
        log_ending(Cause.BAD_LENGTH, decision, throttle, client="c:1")
    assert keys(caplog) == [
        ("too long", logging.WARNING, {"client": "c:1", "length": 5, "setting": "limits.request"}),
        ("too long", logging.DEBUG, {"client": "c:1", "length": 6, "setting": "limits.request"}),
    ]


async def test_ends_by_peers_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    for cause in BY_PEERS:
        log_ending(cause, Decision(), LogThrottle(), client="c:1")
        assert as_recorded(cause, Decision()) == {}
    assert keys(caplog) == []


def test_the_capture_gets_the_event_the_setting_and_the_facts() -> None:
    assert as_recorded(Cause.BAD_LENGTH, Decision("too long", "limits.request", {"length": 5, "api": None})) == {
        "event": "too long",
        "setting": "limits.request",
        "length": 5,
    }
    assert as_recorded(Cause.IDLE, Decision()) == {"event": LINES[Cause.IDLE].event, "setting": "timeouts.idle"}


def test_the_capture_keeps_the_beginning_of_a_reason_that_a_peer_has_made_long() -> None:
    decision = Decision(facts={"reason": "x" * 100_000})
    assert as_recorded(Cause.TLS_HANDSHAKE, decision)["reason"] == "x" * MOST_RECORDED
