"""Tests of relayed bytes: all of them arrive in order and at once, and are reported."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Direction
from proxy.mapping.nodes import Node
from proxy.units import MIB
from proxy.wire.keys import METADATA, SASL_AUTHENTICATE
from tests.proxy.conversation import script
from tests.proxy.conversation.script import produce, request
from tests.proxy.net.frames import (
    SMALL,
    answer,
    ask,
    divert,
    ping,
    pong,
)
from tests.proxy.net.relays import UPSTREAM, relaying
from tests.proxy.rewrite.responses import values

NODE = Node(7, UPSTREAM, 9092)


def chunks(data: bytes, sizes: random.Random) -> list[bytes]:
    cuts = sorted({0, len(data), *(sizes.randrange(len(data)) for _ in range(12))})
    return [data[start:stop] for start, stop in itertools.pairwise(cuts)]


@pytest.mark.parametrize("seed", range(6))
async def test_bytes_pass_unchanged_in_both_directions_for_any_chunking(seed):
    sizes = random.Random(seed)
    asked = b"".join(ping(n, bytes([n]) * sizes.randrange(300)) for n in range(20))
    answered = b"".join(pong(n, bytes([n]) * sizes.randrange(300)) for n in range(20))
    async with relaying() as talk:
        for chunk in chunks(asked, sizes):
            await talk.client.say(chunk)
            await trio.lowlevel.checkpoint()
        await talk.broker.hears(asked)
        for chunk in chunks(answered, sizes):
            await talk.broker.say(chunk)
            await trio.lowlevel.checkpoint()
        await talk.client.hears(answered)
    assert talk.watcher.bytes == {Direction.REQUEST: asked, Direction.RESPONSE: answered}


async def test_bytes_pass_unchanged_one_by_one():
    async with relaying() as talk:
        for byte in ping(1):
            await talk.client.say(bytes([byte]))
            await wait_all_tasks_blocked()
        await talk.broker.hears(ping(1))
        for byte in pong(1):
            await talk.broker.say(bytes([byte]))
            await wait_all_tasks_blocked()
        await talk.client.hears(pong(1))
    assert len(talk.watcher.seen("arrived")) > 10


async def test_a_frame_larger_than_any_buffer_passes_as_it_arrives():
    body = random.Random(0).randbytes(3 * MIB)
    async with relaying(buffers=SMALL) as talk:

        async def produce_large() -> None:
            await talk.client.say(produce(3, 1, acks=1, tail=body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce_large)
            await talk.broker.hears(produce(3, 1, acks=1, tail=body))
            nursery.start_soon(talk.broker.say, pong(1, body))
            await talk.client.hears(pong(1, body))


async def test_the_first_bytes_of_a_frame_do_not_wait_for_its_last():
    async with relaying() as talk:
        await talk.client.say(ping(1, bytes(100))[:50])
        await talk.broker.hears(ping(1, bytes(100))[:50])


async def test_an_exchange_is_in_flight_and_seen_before_its_request_is_sent_on():
    in_flight: list[int] = []
    sent: list[bytes] = []

    async def noted(pieces: Any) -> None:
        in_flight.append(len(talk.talk.in_flight))
        sent.append(talk.watcher.bytes[Direction.REQUEST])

    async with relaying() as talk:
        divert(talk.to_broker, noted)
        await talk.client.say(ping(1))
        await wait_all_tasks_blocked(0.01)
    assert in_flight == [1]
    assert sent == [ping(1)]


async def test_the_observer_sees_an_answer_before_it_is_sent_on():
    seen: list[bytes] = []

    async def noted(pieces: Any) -> None:
        seen.append(talk.watcher.bytes[Direction.RESPONSE])

    async with relaying() as talk:
        divert(talk.to_client, noted)
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
    assert seen == [pong(1)]


async def test_requests_without_an_answer_are_counted_and_not_awaited():
    async with relaying() as talk:
        await talk.client.say(produce(3, 1, acks=0), ping(2))
        await talk.broker.hears(produce(3, 1, acks=0), ping(2))
        await talk.broker.say(pong(2))
        await talk.client.hears(pong(2))
        await wait_all_tasks_blocked()
    assert talk.traffic.rows["Produce", "3"].one_way == 1
    assert talk.traffic.rows["Heartbeat", "3"].exchanges == 1


async def test_an_opaque_frame_passes_and_is_counted():
    strange = request(script.VENDOR, 7, 1, b"whatever")
    async with relaying() as talk:
        await talk.client.say(strange)
        await talk.broker.hears(strange)
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
    assert sum(talk.traffic.opaque_frames.values()) == 1


async def test_errors_in_answers_are_counted_in_whatever_pieces_they_come():
    """One of the responses is rewritten; the errors are counted in the broker's bytes."""
    asked = [*(ask(SASL_AUTHENTICATE, 2, number) for number in range(9)), ask(METADATA, 12, 9)]
    refused = [answer(SASL_AUTHENTICATE, 2, {"error_code": 58}, number) for number in range(9)]
    unknown = answer(METADATA, 12, values(METADATA, 12, [NODE]) | {"topics": [{"error_code": 3, "name": "t"}]}, 9)
    async with relaying() as talk:
        await talk.client.say(*asked)
        await talk.broker.hears(*asked)
        for chunk in chunks(b"".join(refused) + unknown, random.Random(7)):
            await talk.broker.say(chunk)
            await wait_all_tasks_blocked()
        await talk.client.hears(*refused)
        await talk.client.hear_frame()
        await wait_all_tasks_blocked()
    assert talk.traffic.errors.named == {
        ("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED"): 9,
        ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
    }
    assert not talk.traffic.errors.unread
