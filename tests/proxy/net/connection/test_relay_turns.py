"""Tests of how many frames a connection may process before others have their turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.conversation.side import SEARCHED_BYTES_PER_FRAME, Side
from proxy.net.connection.relay import FRAMES_PER_TURN
from proxy.wire import catalog
from proxy.wire.dialects import Dialect
from proxy.wire.framing import framed
from proxy.wire.keys import CREATE_TOPICS, HEARTBEAT, SASL_AUTHENTICATE
from tests.proxy.conversation.script import VENDOR, request, response
from tests.proxy.net.frames import ask, ping, pong, say_now
from tests.proxy.net.relays import Relaying, Watcher, relaying

SPECIAL = FRAMES_PER_TURN // Side.special_cost
# bytes of a frame that is searched
PIECE = FRAMES_PER_TURN * SEARCHED_BYTES_PER_FRAME
OLD: dict[str, Any] = {"dialect": Dialect.KAFKA_07}


class Log:
    """The order in which chunks of two connections arrived: "flood" or "other", with the chunk."""

    def __init__(self) -> None:
        self.arrived: list[tuple[str, bytes]] = []

    def watcher(self, name: str) -> Watcher:
        return Watcher(lambda direction, chunk: self.arrived.append((name, chunk)))

    def of(self, name: str) -> list[bytes]:
        return [chunk for who, chunk in self.arrived if who == name]

    def before(self, name: str) -> int:
        """Returns how many chunks of the other connection came before the first chunk of this one."""
        return [who for who, _ in self.arrived].index(name)


class Flood(NamedTuple):
    """A number of frames, and how many of them are a turn, in a dialect."""

    frame: bytes
    frames: int
    most: int
    settings: Mapping[str, Any] = MappingProxyType({})


FLOODS = {
    "plain": Flood(request(HEARTBEAT, 3, 1), 3 * FRAMES_PER_TURN, FRAMES_PER_TURN),
    "unknown": Flood(request(VENDOR, 0, 1), 5 * SPECIAL, SPECIAL),
    "tokens": Flood(request(SASL_AUTHENTICATE, 0, 1, b"\0\0\0\1s"), 5 * SPECIAL, SPECIAL),
    "settings": Flood(ask(CREATE_TOPICS, 5), 5 * SPECIAL, SPECIAL),
    "fetches of 0.7": Flood(framed(b"\0\1"), 3 * FRAMES_PER_TURN, FRAMES_PER_TURN, OLD),
}


async def flooded(talk: Relaying, other: Relaying, flood: bytes) -> None:
    """Plays the flood before the other connection's bytes; both pass."""
    assert say_now(talk.client, flood) == len(flood)
    assert say_now(other.client, ping(1)) == len(ping(1))
    await other.broker.hears(ping(1))
    await talk.broker.hears(flood)


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
async def test_other_connections_wait_at_most_one_turn_of_a_flood_of_requests(flood: Flood):
    log, sent = Log(), flood.frame * flood.frames
    async with relaying(log.watcher("flood"), **flood.settings) as talk, relaying(log.watcher("other")) as other:
        await flooded(talk, other, sent)
    assert log.before("other") <= 2
    assert b"".join(log.of("flood")) == sent
    assert all(0 < len(chunk) <= flood.most * len(flood.frame) for chunk in log.of("flood"))


@pytest.mark.parametrize("asked", [ping, lambda number: request(SASL_AUTHENTICATE, 0, number)], ids=["plain", "tokens"])
async def test_other_connections_wait_at_most_one_turn_of_a_flood_of_answers(asked: Callable[[int], bytes]):
    log, count = Log(), 2 * FRAMES_PER_TURN
    requests = b"".join(map(asked, range(count)))
    answers = b"".join(response(number, b"\0\0\xff\xff\0\0\0\0") for number in range(count))
    async with relaying(log.watcher("flood")) as talk, relaying(log.watcher("other")) as other:
        await talk.client.say(requests)
        await talk.broker.hears(requests)
        log.arrived.clear()
        assert say_now(talk.broker, answers) == len(answers)
        assert say_now(other.client, ping(1)) == len(ping(1))
        await other.broker.hears(ping(1))
        await talk.client.hears(answers)
    assert log.before("other") <= 2
    assert len(log.of("flood")) > 1
    assert b"".join(log.of("flood")) == answers


async def test_a_large_frame_of_settings_is_searched_in_pieces_and_others_wait_for_no_more_than_one():
    configs = [{"name": "", "value": "x"}] * PIECE
    frame = framed(catalog.encode_request(CREATE_TOPICS, 5, 1, "c", {"topics": [{"name": "t", "configs": configs}]}))
    log = Log()
    async with relaying(log.watcher("flood")) as talk, relaying(log.watcher("other")) as other:
        await flooded(talk, other, frame)
    assert log.before("other") <= 2
    assert b"".join(log.of("flood")) == frame
    assert all(len(chunk) <= PIECE for chunk in log.of("flood"))


async def test_a_head_that_is_held_back_when_a_turn_is_spent_is_recorded_once():
    spending, frame = (request(SASL_AUTHENTICATE, 0, 1, bytes(size)) for size in (PIECE - 19, 60))
    assert len(spending) == PIECE
    async with relaying() as talk:
        await talk.client.say(spending)
        await talk.broker.hears(spending)
        await talk.client.say(frame[:11])
        await wait_all_tasks_blocked(0.01)
        await talk.client.say(frame[11:])
        await talk.broker.hears(frame)
    assert talk.watcher.bytes[Direction.REQUEST] == spending + frame


async def test_a_large_frame_that_is_not_searched_passes_as_it_arrives():
    frame = request(HEARTBEAT, 3, 1, bytes(6 * PIECE))
    log = Log()
    async with relaying(log.watcher("flood")) as talk, relaying(log.watcher("other")) as other:
        await flooded(talk, other, frame)
    assert max(map(len, log.of("flood"))) > PIECE


async def test_requests_left_by_a_turn_are_not_read_once_the_proxy_drains():
    flood = request(VENDOR, 0, 1) * 3 * SPECIAL
    async with relaying() as talk:
        talk.watcher.on_arrival = lambda direction, chunk: talk.relay.drain()
        say_now(talk.client, flood)
        heard = await talk.broker.hear(SPECIAL * len(request(VENDOR, 0, 1)))
        await talk.broker.say(response(1) * SPECIAL)
        await talk.client.hears(response(1) * SPECIAL)
        await talk.ends_with(Cause.DRAINED)
    assert flood.startswith(heard)
    assert talk.watcher.bytes[Direction.REQUEST] == heard


async def test_a_connections_end_is_seen_after_the_frames_that_a_turn_left():
    flood = request(VENDOR, 0, 1) * 3 * SPECIAL
    async with relaying() as talk:
        await talk.client.say(flood)
        await talk.client.finish()
        await talk.broker.hears(flood)
        await talk.broker.say(response(1) * 3 * SPECIAL)
        await talk.client.hears(response(1) * 3 * SPECIAL)
        await talk.broker.hears_the_end()
        talk.broker.close()
        await talk.ends_with(Cause.CLIENT_CLOSED)


async def test_a_bad_frame_after_a_turn_ends_the_connection_once_the_others_are_answered(autojump_clock):
    flood = ping(1) * (FRAMES_PER_TURN + 1)
    async with relaying() as talk:
        await talk.client.say(flood, b"\xff\xff\xff\xff")
        await talk.broker.hears(flood)
        await wait_all_tasks_blocked(0.01)
        await talk.broker.say(pong(1) * (FRAMES_PER_TURN + 1))
        await talk.client.hears(pong(1) * (FRAMES_PER_TURN + 1))
        with trio.fail_after(5):
            await talk.ends_with(Cause.BAD_LENGTH)
