"""Tests of how a connection of Kafka 0.7 ends, where a produce request never gets a response."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction, OpaqueReason
from proxy.units import MIB
from proxy.wire.dialects import Dialect
from tests.proxy.conversation.script import framed
from tests.proxy.net.relays import Relaying, relaying

OLD: dict[str, Any] = {"dialect": Dialect.KAFKA_07}
PRODUCE, FETCH, OFFSETS, UNKNOWN = (framed(struct.pack(">h", number) + b"body") for number in (0, 1, 4, 9))
ANSWER, OTHER = framed(b"\0\0answer"), framed(b"\0\1")


async def asked(talk: Relaying, *frames: bytes) -> None:
    """The client sends a request, and the broker has received it."""
    await talk.client.say(*frames)
    await talk.broker.hears(*frames)


async def test_answers_come_in_order_and_produces_are_counted_as_one_way():
    async with relaying(**OLD) as talk:
        await asked(talk, FETCH, PRODUCE, OFFSETS, PRODUCE)
        await talk.broker.say(ANSWER + OTHER)
        await talk.client.hears(ANSWER, OTHER)
        talk.client.close()
        await talk.broker.hears_the_end()
        talk.broker.close()
        await talk.ends_with(Cause.CLIENT_CLOSED)
        counted = {labels: (row.exchanges, row.one_way) for labels, row in talk.traffic.rows.items()}
        assert counted == {("0.7/fetch", "0.7"): (1, 0), ("0.7/offsets", "0.7"): (1, 0), ("0.7/produce", "0.7"): (0, 2)}
        assert talk.watcher.bytes == {
            Direction.REQUEST: FETCH + PRODUCE + OFFSETS + PRODUCE,
            Direction.RESPONSE: ANSWER + OTHER,
        }


async def test_a_producer_that_leaves_is_followed_at_once():
    async with relaying(**OLD) as talk:
        await talk.client.say(PRODUCE * 3)
        await talk.client.finish()
        await talk.broker.hears(PRODUCE * 3)
        await talk.broker.hears_the_end()
        await talk.broker.finish()
        await talk.ends_with(Cause.CLIENT_CLOSED)


async def test_an_end_of_stream_is_kept_from_the_broker_while_a_fetch_is_owed():
    async with relaying(**OLD) as talk:
        await asked(talk, FETCH, PRODUCE)
        await talk.client.finish()
        await wait_all_tasks_blocked(0.01)
        assert not talk.relay.may_end_now
        await talk.broker.say(ANSWER)
        await talk.client.hears(ANSWER)
        await talk.broker.hears_the_end()
        await talk.broker.finish()
        await talk.ends_with(Cause.CLIENT_CLOSED)


async def test_a_drain_waits_for_a_fetch_and_for_no_produce():
    async with relaying(**OLD) as talk:
        await asked(talk, PRODUCE)
        await wait_all_tasks_blocked()
        assert talk.relay.may_end_now
        await asked(talk, FETCH, PRODUCE)
        await wait_all_tasks_blocked()
        assert not talk.relay.may_end_now
        talk.relay.drain()
        await talk.broker.say(ANSWER)
        await talk.client.hears(ANSWER)
        await talk.ends_with(Cause.DRAINED)


async def test_a_drain_lets_a_produce_that_has_begun_come_to_its_end():
    async with relaying(**OLD) as talk:
        await talk.client.say(PRODUCE[:5])
        await wait_all_tasks_blocked(0.01)
        talk.relay.drain()
        await talk.client.say(PRODUCE[5:7])
        await talk.broker.hears(PRODUCE[:7])
        await talk.client.say(PRODUCE[7:] + FETCH)
        await talk.broker.hears(PRODUCE[7:])
        await talk.ends_with(Cause.DRAINED)


async def test_large_frames_pass_as_they_come():
    large = framed(b"\0\0" + bytes(MIB))
    async with relaying(**OLD) as talk:
        await talk.client.say(large[:1000])
        await talk.broker.hears(large[:1000])
        await talk.client.say(large[1000:2000])
        await talk.broker.hears(large[1000:2000])


@pytest.mark.parametrize("bad", [b"\0\0\0\1", b"\x80\0\0\0", b"\x16\x03\x01\x02\0\1"])
async def test_a_bad_length_ends_the_connection_once_earlier_requests_are_answered(bad: bytes):
    async with relaying(**OLD) as talk:
        await talk.client.say(FETCH + bad)
        await talk.broker.hears(FETCH)
        await talk.broker.say(ANSWER)
        await talk.client.hears(ANSWER)
        await talk.ends_with(Cause.BAD_LENGTH)


@pytest.mark.parametrize(
    ("asks", "says", "cause"),
    [
        ((FETCH,), struct.pack(">i", 1000), Cause.BAD_LENGTH),
        ((FETCH,), struct.pack(">i", 1), Cause.BAD_LENGTH),
        ((PRODUCE,), ANSWER, Cause.UNEXPECTED_RESPONSE),
    ],
)
async def test_a_response_that_0_7_never_sends_ends_the_connection(asks: tuple[bytes, ...], says: bytes, cause: Cause):
    async with relaying(response_limit=999, **OLD) as talk:
        await asked(talk, *asks)
        await talk.broker.say(says)
        await talk.ends_with(cause)


async def test_an_unknown_type_is_the_brokers_to_refuse():
    async with relaying(**OLD) as talk:
        await asked(talk, FETCH, UNKNOWN)
        await talk.broker.say(ANSWER)
        await talk.client.hears(ANSWER)
        await talk.broker.finish()
        await talk.ends_with(Cause.BROKER_CLOSED)
        assert talk.traffic.opaque_frames[OpaqueReason.UNKNOWN_API] == 1
        assert [exchange.api_key for exchange in talk.talk.in_flight] == [9]


async def test_unknown_types_that_are_never_answered_are_read_no_more_when_they_are_too_many(monkeypatch):
    # responses are paired by order alone, so no request may be given up
    for module in ("proxy.conversation.conversation", "proxy.net.connection.relay"):
        monkeypatch.setattr(f"{module}.MAX_IN_FLIGHT", 3)
    async with relaying(**OLD) as talk:
        await asked(talk, *[UNKNOWN] * 4)
        await talk.client.say(UNKNOWN)
        await wait_all_tasks_blocked(0.01)
        assert len(talk.talk.in_flight) == 4
        await talk.broker.say(ANSWER)
        await talk.client.hears(ANSWER)
        await talk.broker.hears(UNKNOWN)
