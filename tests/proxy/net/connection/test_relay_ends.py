"""Tests of how a connection ends, from either side."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.net.connection.relay import FRAMES_PER_TURN
from proxy.net.sockets.streams import PeerLost, Stream
from proxy.units import MIB
from proxy.wire import apis
from proxy.wire.framing import framed
from proxy.wire.keys import DESCRIBE_CLUSTER, FETCH, FIND_COORDINATOR, METADATA, PRODUCE
from tests.proxy.conversation.script import produce, request, response
from tests.proxy.net.frames import SMALL, divert, not_now, ping, pong, say_now, take_now
from tests.proxy.net.peers import PATIENCE, Peer
from tests.proxy.net.relays import Relaying, RelaysStream, relaying

TOKEN = framed(b"\0user\0secret")


async def shake_hands(talk: Relaying) -> None:
    """Plays a login up to the client's token."""
    shake, shaken = request(17, 0, 1, b"\0\5PLAIN"), response(1, b"\0\0\0\0\0\0")
    await talk.client.say(shake)
    await talk.broker.hears(shake)
    await talk.broker.say(shaken)
    await talk.client.hears(shaken)


def silent(until: Callable[..., Any], side: str) -> Callable[..., Any]:
    async def lost(self: Stream, *how: Any) -> Any:
        if self.peer != side:
            return await until(self, *how)
        raise PeerLost("Connection timed out", self) from TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    return lost


async def _say_until_lost(peer: Peer, frame: bytes) -> None:
    with suppress(trio.BrokenResourceError):
        await peer.say(frame)


async def test_an_end_of_stream_is_kept_from_the_broker_while_answers_are_owed():
    async with relaying() as talk:
        await talk.client.say(ping(1), ping(2))
        await talk.client.finish()
        await talk.broker.hears(ping(1), ping(2))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await wait_all_tasks_blocked(0.01)
        assert not talk.finished.is_set()
        with pytest.raises(BlockingIOError):
            take_now(talk.broker)
        await talk.broker.say(pong(2))
        await talk.client.hears(pong(2))
        await talk.broker.hears_the_end()
        talk.broker.close()
        await talk.ends_with(Cause.CLIENT_CLOSED)
    assert talk.watcher.seen("half_closed")[0] == ("half_closed", Direction.REQUEST)


async def test_an_end_of_stream_is_kept_while_a_login_token_is_owed():
    async with relaying() as talk:
        await shake_hands(talk)
        await talk.client.say(TOKEN)
        await talk.client.finish()
        await talk.broker.hears(TOKEN)
        await wait_all_tasks_blocked(0.01)
        with pytest.raises(BlockingIOError):
            take_now(talk.broker)
        await talk.broker.say(framed(b""))
        await talk.client.hears(framed(b""))
        await talk.broker.hears_the_end()


async def test_draining_waits_for_a_login_token_that_is_owed():
    async with relaying() as talk:
        await shake_hands(talk)
        await talk.client.say(TOKEN)
        await talk.broker.hears(TOKEN)
        talk.relay.drain()
        await wait_all_tasks_blocked(0.01)
        assert not talk.finished.is_set()
        await talk.broker.say(framed(b""))
        await talk.client.hears(framed(b""))
        await talk.ends_with(Cause.DRAINED)


async def test_bytes_of_a_client_that_left_reach_a_slow_broker(monkeypatch):
    may_send, send = trio.Event(), Stream.send

    async def slowly(self: Stream, pieces: Any) -> None:
        if self.peer == "broker":
            await may_send.wait()
        await send(self, pieces)

    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        monkeypatch.setattr(Stream, "send", slowly)
        monkeypatch.setattr(Stream, "send_now", not_now)
        frames = produce(2, 2, acks=0, tail=b"first"), produce(3, 2, acks=0, tail=b"second")
        await talk.client.say(frames[0])
        await wait_all_tasks_blocked(0.01)
        await talk.client.say(frames[1])
        talk.client.reset()
        await wait_all_tasks_blocked(0.01)
        # this response reveals that the client has gone; its earlier bytes are still held, and in the socket
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
        may_send.set()
        await talk.broker.hears(*frames)
        await talk.ends_with(Cause.CLIENT_RESET)


async def test_a_broker_that_takes_nothing_keeps_no_client_that_has_gone(autojump_clock, monkeypatch):
    async def never(self: Stream, pieces: Any) -> None:
        if self.peer == "broker":
            await trio.sleep_forever()
        raise PeerLost("Connection reset by peer", self)

    async with relaying(half_close_seconds=7) as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        monkeypatch.setattr(Stream, "send", never)
        monkeypatch.setattr(Stream, "send_now", not_now)
        await talk.client.say(ping(2))
        await talk.broker.say(pong(1))
        await talk.ends_with(Cause.CLIENT_RESET)
        assert trio.current_time() == pytest.approx(7)


async def test_an_end_of_stream_is_kept_while_an_answer_has_only_begun():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.client.finish()
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1)[:-1])
        await talk.client.hears(pong(1)[:-1])
        await wait_all_tasks_blocked(0.01)
        with pytest.raises(BlockingIOError):
            take_now(talk.broker)
        await talk.broker.say(pong(1)[-1:])
        await talk.broker.hears_the_end()


async def test_an_end_of_stream_reaches_the_broker_when_its_time_is_up(autojump_clock):
    async with relaying(half_close_seconds=30) as talk:
        began = trio.current_time()
        await talk.client.say(ping(1))
        await talk.client.finish()
        await talk.broker.hears(ping(1))
        with trio.fail_after(31):
            assert await talk.broker.stream.receive_some() == b""
        assert trio.current_time() - began >= 30
        talk.broker.close()
        await talk.ends_with(Cause.CLIENT_CLOSED)


async def test_an_end_of_stream_amid_a_request_reaches_the_broker_at_once():
    async with relaying() as talk:
        await talk.client.say(ping(1)[:-1])
        await talk.client.finish()
        await talk.broker.hears(ping(1)[:-1])
        await talk.broker.hears_the_end()


async def test_an_end_of_stream_amid_a_head_comes_after_the_bytes_of_the_head():
    async with relaying() as talk:
        await talk.client.say(ping(1)[:7])
        await talk.client.finish()
        assert await talk.broker.hear_all() == ping(1)[:7]


async def test_a_broker_that_ignores_the_end_of_stream_does_not_keep_the_connection(autojump_clock):
    async with relaying(half_close_seconds=30) as talk:
        await talk.client.say(produce(1, 2, acks=0))
        await talk.client.finish()
        assert await talk.broker.hear_all() == produce(1, 2, acks=0)
        with trio.fail_after(100):
            await talk.finished.wait()
        assert talk.cause is Cause.CLIENT_CLOSED


async def test_the_end_of_the_brokers_stream_ends_the_connection():
    async with relaying() as talk:
        await talk.broker.finish()
        await talk.ends_with(Cause.BROKER_CLOSED)
        await talk.client.hears_the_end()
    assert talk.watcher.seen("half_closed") == [("half_closed", Direction.RESPONSE)]


async def test_the_beginning_of_an_answer_passes_before_the_end_of_the_brokers_stream():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        await talk.broker.say(pong(1)[:6])
        await talk.broker.finish()
        assert await talk.client.hear_all() == pong(1)[:6]


async def test_a_reset_of_the_client_ends_the_connection():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        talk.client.reset()
        await talk.ends_with(Cause.CLIENT_RESET)


@pytest.mark.parametrize("ends", [Peer.close, Peer.reset])
async def test_a_client_that_leaves_without_a_byte_was_a_probe(ends: Callable[[Peer], None]):
    async with relaying() as talk:
        await wait_all_tasks_blocked()
        ends(talk.client)
        await talk.broker.hears_the_end()
        talk.broker.close()
        await talk.ends_with(Cause.PROBE)
    assert talk.watcher.seen("arrived") == []


async def test_a_reset_of_the_broker_ends_the_connection():
    async with relaying() as talk:
        await wait_all_tasks_blocked()
        talk.broker.reset()
        await talk.ends_with(Cause.BROKER_RESET)


async def test_a_reset_of_the_broker_that_sending_finds_first_is_a_reset_too():
    async with relaying() as talk:

        async def is_reset(pieces: Any) -> None:
            raise PeerLost("reset", talk.to_broker) from ConnectionResetError()

        divert(talk.to_broker, is_reset)
        await talk.client.say(ping(1))
        await wait_all_tasks_blocked(0.01)
        await talk.broker.finish()
        await talk.ends_with(Cause.BROKER_RESET)


@pytest.mark.parametrize(("side", "cause"), [("client", Cause.CLIENT_LOST), ("broker", Cause.BROKER_LOST)])
async def test_a_machine_that_answers_no_more_is_lost(side, cause, monkeypatch):
    # the kernel's error after so many keepalive probes without an answer
    monkeypatch.setattr(Stream, "receive_until", silent(Stream.receive_until, side))
    async with relaying() as talk:
        await talk.ends_with(cause)


async def test_a_brokers_machine_that_only_sending_finds_lost_is_lost(monkeypatch):
    async with relaying() as talk:

        async def lost(self: Stream, pieces: Any) -> None:
            talk.broker.close()
            raise PeerLost("No route to host", self) from OSError(errno.EHOSTUNREACH, "No route to host")

        monkeypatch.setattr(Stream, "send", lost)
        monkeypatch.setattr(Stream, "send_now", not_now)
        await talk.client.say(ping(1))
        await talk.ends_with(Cause.BROKER_LOST)


async def test_a_client_that_goes_while_it_is_answered_has_reset_the_connection():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_until_lost, talk.broker, pong(1, bytes(2 * MIB)))
            await talk.client.hear(10)
            talk.client.reset()
            await talk.ends_with(Cause.CLIENT_RESET)


async def test_a_client_that_only_sending_finds_gone_has_reset_the_connection():
    async with relaying(half_close_seconds=0.01) as talk:

        async def is_gone(pieces: Any) -> None:
            raise PeerLost("gone", talk.to_client)

        divert(talk.to_client, is_gone)
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.ends_with(Cause.CLIENT_RESET)


async def test_a_client_that_sent_its_end_of_stream_has_closed_however_the_connection_ends():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.client.finish()
        await talk.broker.hear_frame()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_until_lost, talk.broker, pong(1, bytes(2 * MIB)))
            await talk.client.hear(10)
            talk.client.reset()
            await talk.ends_with(Cause.CLIENT_CLOSED)


async def test_answers_of_a_broker_that_closed_reach_a_client_that_still_sends():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_until_lost, talk.client, produce(3, 2, acks=1, tail=bytes(2 * MIB)))
            await talk.broker.hear(SMALL)
            await talk.broker.say(pong(1))
            talk.broker.close()
            await talk.client.hears(pong(1))
            # it closed with unread bytes, which resets the connection
            await talk.ends_with(Cause.BROKER_RESET, Cause.BROKER_CLOSED)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\0\0\0"])
async def test_a_bad_length_of_the_client_ends_the_connection_once_the_rest_is_answered(length):
    async with relaying() as talk:
        await talk.client.say(ping(1), length, bytes(20))
        await talk.broker.hears(ping(1))
        await wait_all_tasks_blocked(0.01)
        assert not talk.finished.is_set()
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.BAD_LENGTH)
        await talk.broker.hears_the_end()


async def test_a_cut_client_has_the_cause_of_the_cut_whichever_side_closes_first():
    async with relaying() as talk:
        await talk.client.say(ping(1), b"\xff\xff\xff\xff")
        await talk.broker.hears(ping(1))
        talk.broker.close()
        await talk.ends_with(Cause.BAD_LENGTH)


async def test_a_broker_that_never_answers_delays_a_refusal_by_at_most_its_timeout(autojump_clock):
    async with relaying(half_close_seconds=30) as talk:
        await talk.client.say(ping(1), b"\xff\xff\xff\xff")
        with trio.fail_after(100):
            await talk.finished.wait()
        assert talk.cause is Cause.BAD_LENGTH


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\0\0\0\3", b"\x7f\0\0\0"])
async def test_a_bad_length_of_the_broker_ends_the_connection(length):
    async with relaying() as talk:
        await talk.client.say(ping(1), ping(2))
        await talk.broker.hears(ping(1), ping(2))
        await talk.broker.say(pong(1), length, bytes(20))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.BAD_LENGTH)
        await talk.client.hears_the_end()


async def test_frames_over_the_limits_have_a_bad_length():
    async with relaying(request_limit=100, response_limit=1000) as talk:
        await talk.client.say(ping(1, bytes(101)))
        await talk.ends_with(Cause.BAD_LENGTH)


@pytest.mark.parametrize("asked", [True, False])
async def test_an_unrequested_answer_ends_the_connection(asked):
    async with relaying() as talk:
        if asked:
            await talk.client.say(ping(1))
            await talk.broker.hears(ping(1))
        await talk.broker.say(pong(99))
        await talk.ends_with(Cause.UNEXPECTED_RESPONSE)
        await talk.client.hears_the_end()


@pytest.mark.parametrize("key", [METADATA, FETCH, PRODUCE, FIND_COORDINATOR, DESCRIBE_CLUSTER])
async def test_a_version_that_cannot_be_rewritten_is_refused_once_the_rest_is_answered(key):
    newer = request(key, apis.versions(key)[-1] + 1, 2, bytes(20))
    async with relaying() as talk:
        await talk.client.say(ping(1), newer, ping(3))
        await talk.broker.hears(ping(1))
        await wait_all_tasks_blocked(0.01)
        assert not talk.finished.is_set()
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.UNSUPPORTED_VERSION)
        await talk.client.hears_the_end()
        await talk.broker.hears_the_end()


def broken(stream: RelaysStream) -> None:
    """From now on nothing can be sent to that side."""

    async def fails(pieces: Any) -> None:
        raise PeerLost("Broken pipe", stream) from BrokenPipeError()

    divert(stream, fails)


async def test_a_request_whose_answer_could_not_be_passed_on_is_counted_as_unanswered():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        broken(talk.to_client)
        await talk.broker.say(pong(1))
        await talk.broker.finish()
        await talk.ends_with(Cause.CLIENT_RESET)
    row = talk.traffic.rows["Heartbeat", "3"]
    assert (row.exchanges, row.unanswered) == (0, 1)


async def test_a_request_that_wants_no_answer_is_counted_even_where_the_broker_did_not_take_it():
    async with relaying() as talk:
        broken(talk.to_broker)
        await talk.client.say(produce(3, 1, acks=0))
        await wait_all_tasks_blocked(0.01)
        await talk.broker.finish()
        await talk.ends_with(Cause.BROKER_CLOSED)
    assert talk.traffic.rows["Produce", "3"].one_way == 1


async def test_responses_after_one_that_could_not_be_passed_on_are_reported_and_counted_as_unanswered():
    async with relaying() as talk:
        await talk.client.say(ping(1), ping(2), ping(3))
        await talk.broker.hears(ping(1), ping(2), ping(3))
        broken(talk.to_client)
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
        await talk.broker.say(pong(2), pong(3)[:5])
        await talk.broker.finish()
        await talk.ends_with(Cause.CLIENT_RESET)
    assert talk.watcher.bytes[Direction.RESPONSE] == pong(1) + pong(2) + pong(3)[:5]
    assert talk.watcher.seen("half_closed") == [("half_closed", Direction.RESPONSE)]
    row = talk.traffic.rows["Heartbeat", "3"]
    # the third one is still in flight, and is counted where the connection is
    assert (row.exchanges, row.unanswered) == (0, 2)
    assert [exchange.correlation_id for exchange in talk.talk.unfinished] == [3]


async def test_responses_that_wait_for_their_turn_are_reported_when_the_connection_is_cut_off():
    many = range(3 * FRAMES_PER_TURN)
    async with relaying() as talk:
        await talk.client.say(*map(ping, many))
        await talk.broker.hears(*map(ping, many))
        # the first turn's responses wait for the recorder
        talk.watcher.must_wait = True
        say_now(talk.broker, b"".join(map(pong, many)))
        with trio.fail_after(PATIENCE):
            while not talk.watcher.waiting:
                await wait_all_tasks_blocked(0.001)
    assert talk.watcher.bytes[Direction.RESPONSE] == b"".join(map(pong, many))
    assert talk.traffic.rows["Heartbeat", "3"].unanswered == len(many)
