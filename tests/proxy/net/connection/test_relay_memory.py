"""Tests of the bytes held for slow peers, and of backpressure."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.sockets.streams import RECEIVE_SIZE
from proxy.units import MIB
from proxy.wire.keys import METADATA
from tests.proxy.conversation.script import produce
from tests.proxy.net.frames import (
    SMALL,
    answer,
    ask,
    ping,
    pong,
    said_until_stuck,
    take_now,
)
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.relays import UPSTREAM, Watcher, relaying


def large_metadata() -> bytes:
    """A response that names one broker very often: 300 to 600 KiB."""
    return answer(METADATA, 12, {"brokers": [{"node_id": 7, "host": UPSTREAM * 9, "port": 1}] * 3000})


# makes such a response longer than the sockets' buffers
LONG_NAME = ".".join(["a" * 60] * 4)


async def test_a_slow_client_stops_reading_from_the_broker_and_not_the_other_way():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        whole = pong(1, bytes(6 * MIB))
        taken = await said_until_stuck(talk.broker, whole)
        assert taken < 8 * RECEIVE_SIZE
        await talk.client.say(ping(2))
        await talk.broker.hears(ping(2))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk.broker.say, whole[taken:])
            assert await talk.client.hear(len(whole)) == whole


async def test_a_slow_broker_stops_reading_from_the_client_and_not_the_other_way():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        whole = produce(3, 2, acks=1, tail=bytes(6 * MIB))
        taken = await said_until_stuck(talk.client, whole)
        assert taken < 8 * RECEIVE_SIZE
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))


async def test_large_answers_that_are_held_share_a_limit():
    large, limit = large_metadata(), HeldBytes(600 * 1024, 30)
    assert 300 * 1024 < len(large) < 600 * 1024
    async with relaying(held=limit) as one, relaying(held=limit) as two:
        for talk in (one, two):
            await talk.client.say(ask(METADATA, 12))
            await talk.broker.hear_frame()
        await one.broker.say(large[:-1])
        await wait_all_tasks_blocked(0.02)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(two.broker.say, large)
            await wait_all_tasks_blocked(0.02)
            with pytest.raises(BlockingIOError):
                take_now(two.client)
            await one.broker.say(large[-1:])
            for talk in (one, two):
                assert UPSTREAM.encode() not in await talk.client.hear_frame()


async def test_the_share_of_a_connection_that_ends_is_free_again():
    large, limit = large_metadata(), HeldBytes(600 * 1024, 30)
    for _ in range(2):
        async with relaying(held=limit) as talk:
            await talk.client.say(ask(METADATA, 12))
            await talk.broker.hear_frame()
            await talk.broker.say(large[:-1])
            await wait_all_tasks_blocked(0.02)
            talk.client.reset()
            await talk.ends_with(Cause.CLIENT_RESET)
    assert limit._held == 0


async def test_a_client_that_takes_nothing_of_what_others_wait_for_is_ended(autojump_clock):
    large, limit = large_metadata(), HeldBytes(600 * 1024, 5)
    async with relaying(held=limit, buffers=SMALL, advertise=LONG_NAME) as stuck, relaying(held=limit) as other:
        for talk in (stuck, other):
            await talk.client.say(ask(METADATA, 12))
            await talk.broker.hear_frame()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stuck.broker.say, large)
            await wait_all_tasks_blocked(0.02)
            # no connection needs the bytes that it holds
            await trio.sleep(100)
            assert not stuck.finished.is_set()
            await other.broker.say(large)
            await stuck.ends_with(Cause.STALLED)
            await other.client.hear_frame()


async def test_a_broker_that_never_ends_the_answer_that_others_wait_for_is_ended(autojump_clock):
    large, limit = large_metadata(), HeldBytes(600 * 1024, 5)
    async with relaying(held=limit) as stuck, relaying(held=limit) as other:
        for talk in (stuck, other):
            await talk.client.say(ask(METADATA, 12))
            await talk.broker.hear_frame()
        await stuck.broker.say(large[:-1])
        await wait_all_tasks_blocked(0.02)
        await other.broker.say(large)
        await stuck.ends_with(Cause.STALLED)
        await other.client.hear_frame()


async def test_a_client_that_takes_a_little_at_a_time_keeps_its_answer(autojump_clock):
    large, limit = large_metadata(), HeldBytes(600 * 1024, 5)
    async with relaying(held=limit, buffers=SMALL, advertise=LONG_NAME) as slow, relaying(held=limit) as other:
        for talk in (slow, other):
            await talk.client.say(ask(METADATA, 12))
            await talk.broker.hear_frame()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.broker.say, large)
            await wait_all_tasks_blocked(0.02)
            nursery.start_soon(other.broker.say, large)
            size = int.from_bytes(await slow.client.hear(4))
            for at in range(0, size, 32 * 1024):
                await slow.client.hear(min(32 * 1024, size - at))
                await trio.sleep(1)
            await other.client.hear_frame()
            assert not slow.finished.is_set()


async def test_a_connection_that_waits_for_the_recorder_is_not_stalled():
    watcher = Watcher(lambda direction, chunk: setattr(watcher, "must_wait", True))
    async with relaying(watcher) as talk:
        assert talk.relay.progress == 0
        await talk.client.say(ping(1))
        await wait_all_tasks_blocked(0.01)
        assert talk.relay.progress is None
        watcher.make_room()
        await talk.broker.hears(ping(1))
        assert talk.relay.progress == len(ping(1))


async def test_a_connection_is_quiet_when_no_answer_is_owed():
    async with relaying() as talk:
        assert talk.relay.is_quiet
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        assert not talk.relay.is_quiet
        await talk.broker.say(pong(1)[:-1])
        await talk.client.hears(pong(1)[:-1])
        assert not talk.relay.is_quiet
        await talk.broker.say(pong(1)[-1:])
        await talk.client.hears(pong(1)[-1:])
        await wait_all_tasks_blocked()
        assert talk.relay.is_quiet
        # an incomplete request asks nothing, so the connection is still quiet
        await talk.client.say(ping(2)[:-1])
        await talk.broker.hears(ping(2)[:-1])
        assert talk.relay.is_quiet
        talk.relay.end_as_idle()
        await talk.ends_with(Cause.IDLE)


@pytest.mark.parametrize("direction", Direction)
async def test_no_chunk_is_passed_on_while_the_recorder_is_full(direction):
    # in `wait` mode, the chunk has been taken, and the next ones must wait
    def arrives(of: Direction, chunk: bytes) -> None:
        watcher.must_wait = of is direction

    watcher = Watcher(arrives)
    async with relaying(watcher) as talk:
        await talk.client.say(ping(1))
        if direction is Direction.RESPONSE:
            await talk.broker.hears(ping(1))
            await talk.broker.say(pong(1))
        with trio.fail_after(PATIENCE):
            while not watcher.waiting:
                await wait_all_tasks_blocked(0.005)
        with pytest.raises(BlockingIOError):
            take_now(talk.broker if direction is Direction.REQUEST else talk.client)
        watcher.make_room()
        if direction is Direction.REQUEST:
            await talk.broker.hears(ping(1))
        else:
            await talk.client.hears(pong(1))
