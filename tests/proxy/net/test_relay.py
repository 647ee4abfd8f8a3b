from __future__ import annotations

import errno
import itertools
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.net.held import HeldBytes
from proxy.net.relay import MOST_MADE, Relay
from proxy.net.streams import RECEIVE_SIZE, PeerLost, Stream
from proxy.rewrite import api_versions
from proxy.rewrite.addresses import FETCH, FIND_COORDINATOR, METADATA, PRODUCE
from proxy.rewrite.nodes import Address, Node
from proxy.settings.kinds import MIB
from proxy.wire import catalog
from proxy.wire.framing import framed
from tests.proxy.conversation import script
from tests.proxy.conversation.script import HEARTBEAT, produce, request, response
from tests.proxy.net.peers import Peer
from tests.proxy.net.relays import UPSTREAM, Relaying, Watcher, listens, relaying
from tests.proxy.rewrite.responses import CARRYING, CORRELATION_ID, labelled, read, replaced_slowly, values

API_VERSIONS, DESCRIBE_CLUSTER = 18, 60
NODE = Node(7, UPSTREAM, 9092)
NEWER = api_versions.newest_known() + 1
# sizes of sockets' buffers where a test wants them to be soon full
SMALL = 64 * 1024


def ask(key: int, version: int, correlation_id: int = CORRELATION_ID) -> bytes:
    """A whole request of that API, every field at its default; a Produce that wants an answer."""
    values = {"acks": 1} if key == PRODUCE else {}
    return framed(catalog.encode_request(key, version, correlation_id, "tests", values))


def answer(key: int, version: int, body: dict[str, Any] | None = None, correlation_id: int = CORRELATION_ID) -> bytes:
    return framed(catalog.encode_response(key, version, correlation_id, body or {}))


def ping(correlation_id: int, body: bytes = b"ping") -> bytes:
    return request(HEARTBEAT, 3, correlation_id, body)


def pong(correlation_id: int, body: bytes = b"pong") -> bytes:
    return response(correlation_id, body)


def api_versions_newer(correlation_id: int) -> bytes:
    return request(API_VERSIONS, NEWER, correlation_id, b"\0")


def chunks(data: bytes, sizes: random.Random) -> list[bytes]:
    cuts = sorted({0, len(data), *(sizes.randrange(len(data)) for _ in range(12))})
    return [data[start:stop] for start, stop in itertools.pairwise(cuts)]


def seven_in_metadata(talk: Relaying, frame: bytes, version: int = 12) -> None:
    (broker,) = read(METADATA, version, frame)["brokers"]
    assert (broker["node_id"], broker["host"], broker["port"]) == (7, "127.0.0.1", talk.listeners.ports[7])


# the bytes


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
        talk.relay._broker = _Sink(talk.relay._broker, noted)
        await talk.client.say(ping(1))
        await wait_all_tasks_blocked(0.01)
    assert in_flight == [1]
    assert sent == [ping(1)]


async def test_the_observer_sees_an_answer_before_it_is_sent_on():
    seen: list[bytes] = []

    async def noted(pieces: Any) -> None:
        seen.append(talk.watcher.bytes[Direction.RESPONSE])

    async with relaying() as talk:
        talk.relay._client = _Sink(talk.relay._client, noted)
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
    assert seen == [pong(1)]


class _Sink:
    """A stream that tells instead of sending."""

    def __init__(self, stream: Any, tell: Any) -> None:
        self._stream, self.send = stream, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def test_requests_without_an_answer_are_counted_and_awaited_by_nobody():
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


# how it ends


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
            _take_now(talk.broker)
        await talk.broker.say(pong(2))
        await talk.client.hears(pong(2))
        await talk.broker.hears_the_end()
        talk.broker.close()
        await talk.ends_with(Cause.CLIENT_CLOSED)
    assert talk.watcher.seen("half_closed")[0] == ("half_closed", Direction.REQUEST)


def _take_now(peer: Peer) -> bytes:
    return peer.stream.socket._sock.recv(1)


async def test_an_end_of_stream_is_kept_while_a_login_token_is_owed():
    async with relaying() as talk:
        await shake_hands(talk)
        await talk.client.say(TOKEN)
        await talk.client.finish()
        await talk.broker.hears(TOKEN)
        await wait_all_tasks_blocked(0.01)
        with pytest.raises(BlockingIOError):
            _take_now(talk.broker)
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


TOKEN = framed(b"\0user\0secret")


async def shake_hands(talk: Relaying) -> None:
    """Up to where the client's token comes."""
    shake, shaken = request(17, 0, 1, b"\0\5PLAIN"), response(1, b"\0\0\0\0\0\0")
    await talk.client.say(shake)
    await talk.broker.hears(shake)
    await talk.broker.say(shaken)
    await talk.client.hears(shaken)


async def test_what_a_client_sent_before_it_went_reaches_a_slow_broker(monkeypatch):
    may_send, send = trio.Event(), Stream.send

    async def slowly(self: Stream, pieces: Any) -> None:
        if self.peer == "broker":
            await may_send.wait()
        await send(self, pieces)

    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        monkeypatch.setattr(Stream, "send", slowly)
        frames = produce(2, 2, acks=0, tail=b"first"), produce(3, 2, acks=0, tail=b"second")
        await talk.client.say(frames[0])
        await wait_all_tasks_blocked(0.01)
        await talk.client.say(frames[1])
        talk.client.reset()
        await wait_all_tasks_blocked(0.01)
        # this answer finds out that the client has gone; what it had sent is still in hand, and in the socket
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
            _take_now(talk.broker)
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


async def test_an_end_of_stream_amid_a_head_comes_behind_the_bytes_of_the_head():
    async with relaying() as talk:
        await talk.client.say(ping(1)[:7])
        await talk.client.finish()
        assert await talk.broker.hear_all() == ping(1)[:7]


async def test_a_broker_that_ignores_the_end_of_stream_does_not_keep_the_connection(autojump_clock):
    async with relaying(half_close_seconds=30) as talk:
        await talk.client.finish()
        assert await talk.broker.stream.receive_some() == b""
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
        await wait_all_tasks_blocked()
        talk.client.reset()
        await talk.ends_with(Cause.CLIENT_RESET)


async def test_a_reset_of_the_broker_ends_the_connection():
    async with relaying() as talk:
        await wait_all_tasks_blocked()
        talk.broker.reset()
        await talk.ends_with(Cause.BROKER_RESET)


async def test_a_reset_of_the_broker_that_sending_finds_first_is_a_reset_too():
    async with relaying() as talk:

        async def is_reset(pieces: Any) -> None:
            raise PeerLost("reset", broker) from ConnectionResetError()

        broker = talk.relay._broker
        talk.relay._broker = _Sink(broker, is_reset)
        await talk.client.say(ping(1))
        await wait_all_tasks_blocked(0.01)
        await talk.broker.finish()
        await talk.ends_with(Cause.BROKER_RESET)


@pytest.mark.parametrize(("side", "cause"), [("_client", Cause.CLIENT_LOST), ("_broker", Cause.BROKER_LOST)])
async def test_a_machine_that_answers_no_more_is_lost(side, cause, monkeypatch):
    # as its kernel says once so many probes of keepalive had no answer
    monkeypatch.setattr(Stream, "receive", silent(Stream.receive, side))
    async with relaying() as talk:
        await talk.ends_with(cause)


def silent(receive: Callable[..., Any], side: str) -> Callable[..., Any]:
    async def lost(self: Stream, *most: int) -> bytes | None:
        if self.peer != side.removeprefix("_"):
            return await receive(self, *most)
        raise PeerLost("Connection timed out", self) from TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    return lost


async def test_a_brokers_machine_that_only_sending_finds_lost_is_lost(monkeypatch):
    async with relaying() as talk:

        async def lost(self: Stream, pieces: Any) -> None:
            talk.broker.close()
            raise PeerLost("No route to host", self) from OSError(errno.EHOSTUNREACH, "No route to host")

        monkeypatch.setattr(Stream, "send", lost)
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


async def _say_until_lost(peer: Peer, frame: bytes) -> None:
    with suppress(trio.BrokenResourceError):
        await peer.say(frame)


async def test_a_client_that_only_sending_finds_gone_has_reset_the_connection():
    async with relaying(half_close_seconds=0.01) as talk:

        async def is_gone(pieces: Any) -> None:
            raise PeerLost("gone", talk.relay._client)

        talk.relay._client = _Sink(talk.relay._client, is_gone)
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.ends_with(Cause.CLIENT_RESET)


async def test_a_client_that_has_said_goodbye_has_closed_however_it_goes_then():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.client.finish()
        await talk.broker.hear_frame()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_until_lost, talk.broker, pong(1, bytes(2 * MIB)))
            await talk.client.hear(10)
            talk.client.reset()
            await talk.ends_with(Cause.CLIENT_CLOSED)


async def test_what_a_broker_answered_before_it_closed_reaches_a_client_that_still_sends():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_until_lost, talk.client, produce(3, 2, acks=1, tail=bytes(2 * MIB)))
            await talk.broker.hear(SMALL)
            await talk.broker.say(pong(1))
            talk.broker.close()
            await talk.client.hears(pong(1))
            # it closed with bytes unread, which is a reset on the wire
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


async def test_a_client_that_is_cut_off_is_so_for_that_reason_whoever_goes_first():
    async with relaying() as talk:
        await talk.client.say(ping(1), b"\xff\xff\xff\xff")
        await talk.broker.hears(ping(1))
        talk.broker.close()
        await talk.ends_with(Cause.BAD_LENGTH)


async def test_a_broker_that_never_answers_delays_a_refusal_no_longer_than_told(autojump_clock):
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
async def test_an_answer_that_nobody_asked_for_ends_the_connection(asked):
    async with relaying() as talk:
        if asked:
            await talk.client.say(ping(1))
            await talk.broker.hears(ping(1))
        await talk.broker.say(pong(99))
        await talk.ends_with(Cause.UNEXPECTED_RESPONSE)
        await talk.client.hears_the_end()


@pytest.mark.parametrize("key", [METADATA, FETCH, PRODUCE, FIND_COORDINATOR, DESCRIBE_CLUSTER])
async def test_a_version_that_cannot_be_rewritten_is_refused_once_the_rest_is_answered(key):
    newer = request(key, catalog.versions(key)[-1] + 1, 2, bytes(20))
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


# answers of the proxy's own


async def test_api_versions_newer_than_known_is_answered_with_error_35():
    async with relaying() as talk:
        await talk.client.say(api_versions_newer(5))
        await talk.client.hears(api_versions.unsupported(5))
        await talk.client.say(ping(6))
        await talk.broker.hears(ping(6))
    assert talk.watcher.seen("made") == [("made", 5, api_versions.unsupported(5))]
    assert talk.traffic.rows["ApiVersions", "other"].by_proxy == 1


async def test_the_proxys_answer_waits_for_its_turn():
    async with relaying() as talk:
        await talk.client.say(ping(1), api_versions_newer(2), ping(3), api_versions_newer(4))
        await talk.broker.hears(ping(1), ping(3))
        await wait_all_tasks_blocked(0.01)
        with pytest.raises(BlockingIOError):
            _take_now(talk.client)
        await talk.broker.say(pong(1)[:7])
        await wait_all_tasks_blocked(0.01)
        await talk.broker.say(pong(1)[7:])
        await talk.client.hears(pong(1), api_versions.unsupported(2))
        await talk.broker.say(pong(3))
        await talk.client.hears(pong(3), api_versions.unsupported(4))


async def test_a_request_that_the_proxy_answers_reaches_the_broker_in_no_piece():
    async with relaying() as talk:
        whole = request(API_VERSIONS, NEWER, 5, bytes(100))
        for piece in (whole[:13], whole[13:40], whole[40:] + ping(6)):
            await talk.client.say(piece)
            await wait_all_tasks_blocked(0.01)
        await talk.client.hears(api_versions.unsupported(5))
        await talk.broker.hears(ping(6))


async def test_an_answer_of_the_proxy_is_owed_before_the_end_of_stream():
    async with relaying() as talk:
        await talk.client.say(ping(1), api_versions_newer(2))
        await talk.client.finish()
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1), api_versions.unsupported(2))
        await talk.broker.hears_the_end()


async def test_a_client_that_asks_the_proxy_and_never_reads_is_read_no_more():
    frame = api_versions_newer(5)
    async with relaying(buffers=SMALL) as talk:
        taken = await _said_until_stuck(talk.client, frame * (8 * MIB // len(frame)))
        assert taken < 4 * MIB
        assert MOST_MADE < len(talk.talk.in_flight) <= RECEIVE_SIZE // len(frame) + MOST_MADE


async def test_a_client_that_is_owed_too_many_answers_is_read_no_more_until_some_have_come(monkeypatch):
    monkeypatch.setattr("proxy.net.relay.MOST_IN_FLIGHT", 10)
    asked = [ping(number) for number in range(20)]
    async with relaying() as talk:
        await talk.client.say(*asked)
        await talk.broker.hears(*asked)
        await talk.client.say(ping(20))
        await wait_all_tasks_blocked(0.01)
        assert len(talk.talk.in_flight) == 20
        await talk.broker.say(*(pong(number) for number in range(15)))
        await talk.broker.hears(ping(20))


async def test_what_may_never_be_answered_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("proxy.net.relay.MOST_IN_FLIGHT", 10)
    asked = [request(script.VENDOR, 0, number) for number in range(20)]
    async with relaying() as talk:
        for frame in asked:
            await talk.client.say(frame)
            await talk.broker.hears(frame)


def _say_now(peer: Peer, data: bytes) -> int:
    try:
        return peer.stream.socket._sock.send(data)
    except BlockingIOError:
        return 0


# addresses


@pytest.mark.parametrize("case", CARRYING, ids=labelled)
async def test_brokers_in_an_answer_are_replaced_by_listeners_that_are_open_by_then(case):
    key, version = case
    async with relaying() as talk:
        await talk.client.say(ask(key, version))
        await talk.broker.hears(ask(key, version))
        original = answer(key, version, values(key, version, [NODE]))
        await talk.broker.say(original)
        # at the first byte of the answer the port is open
        await talk.client.hear(1)
        assert listens(talk.listeners.ports[7])
        rest = await talk.client.hear(3)
        frame = await talk.client.hear(int.from_bytes(b"\0" + rest, "big"))
    assert UPSTREAM.encode() not in frame
    told = {7: Address("127.0.0.1", talk.listeners.ports[7])}
    assert read(key, version, frame) == replaced_slowly(read(key, version, original[4:]), told)
    assert talk.watcher.seen("node") == [("node", 7, f"{UPSTREAM}:9092", f"127.0.0.1:{talk.listeners.ports[7]}")]


async def test_a_rewritten_answer_stays_in_its_place_among_plain_ones():
    async with relaying() as talk:
        await talk.client.say(ping(1), ask(METADATA, 12), ping(3), api_versions_newer(4), ping(5))
        await talk.broker.hears(ping(1), ask(METADATA, 12), ping(3), ping(5))
        await talk.broker.say(pong(1), answer(METADATA, 12, values(METADATA, 12, [NODE])), pong(3), pong(5))
        await talk.client.hears(pong(1))
        seven_in_metadata(talk, await talk.client.hear_frame())
        await talk.client.hears(pong(3), api_versions.unsupported(4), pong(5))


async def test_an_answer_with_brokers_leaves_whole_however_it_arrives():
    frame = answer(METADATA, 12, values(METADATA, 12, [NODE]))
    async with relaying() as talk:
        await talk.client.say(ask(METADATA, 12))
        await talk.broker.hear_frame()
        for byte in frame[:-1]:
            await talk.broker.say(bytes([byte]))
            await wait_all_tasks_blocked()
        with pytest.raises(BlockingIOError):
            _take_now(talk.client)
        await talk.broker.say(frame[-1:])
        seven_in_metadata(talk, await talk.client.hear_frame())
    assert talk.watcher.bytes[Direction.RESPONSE] == frame


async def test_api_versions_is_reduced_to_what_can_be_passed_on():
    offers = {"api_keys": [{"api_key": METADATA, "min_version": 0, "max_version": 99}]}
    async with relaying() as talk:
        await talk.client.say(ask(API_VERSIONS, 3))
        await talk.broker.hear_frame()
        await talk.broker.say(answer(API_VERSIONS, 3, offers))
        (offer,) = read(API_VERSIONS, 3, await talk.client.hear_frame())["api_keys"]
    assert offer["max_version"] == catalog.versions(METADATA)[-1]


@pytest.mark.parametrize(("hide", "told"), [(False, [METADATA, script.VENDOR]), (True, [METADATA])])
async def test_a_vendors_apis_are_hidden_where_that_is_wished(hide, told):
    offers = {"api_keys": [{"api_key": key, "max_version": 1} for key in (METADATA, script.VENDOR)]}
    strange = request(script.VENDOR, 7, 1, b"whatever")
    async with relaying(hide_unknown=hide) as talk:
        await talk.client.say(ask(API_VERSIONS, 3))
        await talk.broker.hear_frame()
        await talk.broker.say(answer(API_VERSIONS, 3, offers))
        assert [offer["api_key"] for offer in read(API_VERSIONS, 3, await talk.client.hear_frame())["api_keys"]] == told
        # a client that asks all the same is not kept from it
        await talk.client.say(strange)
        await talk.broker.hears(strange)
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))


async def test_a_clients_check_that_it_meets_the_node_it_means_passes_untouched():
    # KIP-1242: it names cluster and node, which keep their ids; error 129 says that it has met another
    meant = {"client_software_name": "tests", "client_software_version": "1", "cluster_id": "A" * 22, "node_id": 7}
    asked = framed(catalog.encode_request(API_VERSIONS, 5, CORRELATION_ID, "tests", meant))
    another = answer(API_VERSIONS, 5, {"error_code": 129})
    async with relaying() as talk:
        await talk.client.say(asked)
        await talk.broker.hears(asked)
        await talk.broker.say(another)
        await talk.client.hears(another)


async def test_an_answer_over_the_hold_limit_cannot_be_rewritten():
    async with relaying(hold_limit=20) as talk:
        await talk.client.say(ping(1), ask(METADATA, 12))
        await talk.broker.hears(ping(1), ask(METADATA, 12))
        await talk.broker.say(pong(1), answer(METADATA, 12, values(METADATA, 12, [NODE])))
        assert await talk.client.hear_all() == pong(1)
        await talk.ends_with(Cause.NOT_REWRITABLE)
    assert talk.traffic.rows["Heartbeat", "3"].exchanges == 1
    assert talk.traffic.rows["Metadata", "12"].unanswered == 1


async def test_nothing_leaks_of_an_answer_that_cannot_be_read_nor_of_what_comes_behind():
    spoilt = answer(METADATA, 12, values(METADATA, 12, [NODE]))
    spoilt = framed(spoilt[4:-20])
    asked = (ping(1), ask(METADATA, 12), ping(3), api_versions_newer(4))
    async with relaying() as talk:
        await talk.client.say(*asked)
        await talk.broker.hears(*asked[:3])
        await talk.broker.say(pong(1), spoilt, pong(3))
        assert await talk.client.hear_all() == pong(1)
        await talk.ends_with(Cause.NOT_REWRITABLE)
    assert talk.traffic.rows["Heartbeat", "3"].exchanges == 1
    assert talk.traffic.rows["Heartbeat", "3"].unanswered == 1


async def test_without_a_listener_for_a_node_the_answer_cannot_be_rewritten(monkeypatch):
    def no_port(address: Any) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("proxy.net.nodes.bind", no_port)
    async with relaying() as talk:
        await talk.client.say(ask(METADATA, 12))
        await talk.broker.hear_frame()
        await talk.broker.say(answer(METADATA, 12, values(METADATA, 12, [NODE])))
        assert await talk.client.hear_all() == b""
        await talk.ends_with(Cause.NOT_REWRITABLE)


async def test_a_large_fetch_answer_streams_and_names_no_broker_of_the_upstream():
    records = random.Random(0).randbytes(600 * 1024)
    body = values(FETCH, 16, [NODE]) | {"responses": [{"partitions": [{"records": records}]}]}
    whole = answer(FETCH, 16, body)
    async with relaying() as talk:
        await talk.client.say(ask(FETCH, 16))
        await talk.broker.hear_frame()
        await talk.broker.say(whole[: 400 * 1024])
        await talk.client.hears(whole[: 400 * 1024])
        await talk.broker.say(whole[400 * 1024 :])
        frame = whole[4 : 400 * 1024] + await talk.client.hear(len(whole) - 400 * 1024)
        assert listens(talk.listeners.ports[7])
    assert UPSTREAM.encode() not in frame
    decoded = read(FETCH, 16, frame)
    assert decoded["responses"][0]["partitions"][0]["records"] == records
    assert [node["port"] for node in decoded["node_endpoints"]] == [talk.listeners.ports[7]]


async def test_a_large_fetch_answer_with_a_tail_that_cannot_be_read_ends_before_the_tail():
    body = values(FETCH, 16, [NODE]) | {"responses": [{"partitions": [{"records": bytes(300 * 1024)}]}]}
    whole = answer(FETCH, 16, body)
    async with relaying() as talk:
        await talk.client.say(ask(FETCH, 16))
        await talk.broker.hear_frame()
        await talk.broker.say(framed(whole[4:-6]))
        heard = await talk.client.hear_all()
        await talk.ends_with(Cause.NOT_REWRITABLE)
    assert UPSTREAM.encode() not in heard
    assert len(heard) < len(whole)


# memory


async def test_a_slow_client_stops_reading_from_the_broker_and_not_the_other_way():
    async with relaying(buffers=SMALL) as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        whole = pong(1, bytes(6 * MIB))
        taken = await _said_until_stuck(talk.broker, whole)
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
        taken = await _said_until_stuck(talk.client, whole)
        assert taken < 8 * RECEIVE_SIZE
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))


async def _said_until_stuck(peer: Peer, data: bytes) -> int:
    """How much of it is taken while nobody at the other end reads."""
    taken, idle = 0, 0
    while idle < 5:
        now = _say_now(peer, data[taken : taken + MIB])
        taken, idle = taken + now, 0 if now else idle + 1
        await wait_all_tasks_blocked(0.01)
    return taken


def large_metadata() -> bytes:
    """Names one broker very often: more than 300 KiB, less than 600."""
    return answer(METADATA, 12, {"brokers": [{"node_id": 7, "host": UPSTREAM * 9, "port": 1}] * 3000})


# makes such an answer longer than what sockets take
LONG_NAME = ".".join(["a" * 60] * 4)


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
                _take_now(two.client)
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
            # nobody wants what it holds
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


async def test_who_waits_for_the_recorder_waits_for_no_peer():
    watcher, room = Watcher(lambda direction, chunk: setattr(watcher, "full", True)), threading.Event()

    def wait() -> None:
        room.wait(20)
        watcher.full = False

    watcher.waits = wait
    async with relaying(watcher) as talk:
        assert talk.relay.progress == 0
        await talk.client.say(ping(1))
        await wait_all_tasks_blocked(0.01)
        assert talk.relay.progress is None
        room.set()
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
        # nobody is asked while a request has only begun
        await talk.client.say(ping(2)[:-1])
        await talk.broker.hears(ping(2)[:-1])
        assert talk.relay.is_quiet
        talk.relay.idle()
        await talk.ends_with(Cause.IDLE)


@pytest.mark.parametrize("direction", Direction)
async def test_while_the_recorder_has_no_room_nothing_is_sent_on(direction):
    # as in `wait` mode: the chunk has been taken, the next ones must not come
    def arrives(of: Direction, chunk: bytes) -> None:
        watcher.full = of is direction

    watcher = Watcher(arrives)
    waited = trio.Event()
    room = threading.Event()

    def wait() -> None:
        trio.from_thread.run_sync(waited.set)
        room.wait(20)
        watcher.full = False

    watcher.waits = wait
    async with relaying(watcher) as talk:
        await talk.client.say(ping(1))
        if direction is Direction.RESPONSE:
            await talk.broker.hears(ping(1))
            await talk.broker.say(pong(1))
        await waited.wait()
        with pytest.raises(BlockingIOError):
            _take_now(talk.broker if direction is Direction.REQUEST else talk.client)
        room.set()
        if direction is Direction.REQUEST:
            await talk.broker.hears(ping(1))
        else:
            await talk.client.hears(pong(1))


# the proxy stops


async def test_an_idle_connection_drains_at_once():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hear_frame()
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await wait_all_tasks_blocked()
        assert talk.relay.is_idle
        talk.relay.drain()
        await talk.ends_with(Cause.DRAINED)


@pytest.mark.parametrize(("leave", "cause"), [(Relay.drain, Cause.DRAINED), (Relay.idle, Cause.IDLE)])
async def test_a_request_that_comes_at_that_moment_is_answered_or_not_taken(leave: Any, cause: Cause):
    async with relaying() as talk:
        await wait_all_tasks_blocked(0.01)
        receive = talk.relay._client._socket.recv

        def leaves_meanwhile(most: int) -> bytes:
            # between the kernel's word that there is something to be read, and its being read
            leave(talk.relay)
            return receive(most)

        talk.relay._client._socket = _Socket(talk.relay._client._socket, leaves_meanwhile)
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(cause)


class _Socket:
    """A socket that reads in its own way."""

    def __init__(self, sock: Any, recv: Any) -> None:
        self._sock, self.recv = sock, recv

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


async def test_draining_lets_answers_come_and_reads_no_more_requests():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await wait_all_tasks_blocked()
        talk.relay.drain()
        await wait_all_tasks_blocked()
        await talk.client.say(ping(2))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)
        await talk.broker.hears_the_end()


async def test_draining_reads_on_to_the_end_of_a_frame():
    async with relaying() as talk:
        await talk.client.say(ping(1)[:20])
        await talk.broker.hears(ping(1)[:20])
        await wait_all_tasks_blocked()
        talk.relay.drain()
        await wait_all_tasks_blocked()
        assert not talk.relay.is_idle
        await talk.client.say(ping(1)[20:])
        await talk.broker.hears(ping(1)[20:])
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)


async def test_draining_reads_on_to_the_end_of_a_head():
    async with relaying() as talk:
        await talk.client.say(ping(1)[:6])
        await wait_all_tasks_blocked(0.01)
        talk.relay.drain()
        await talk.client.say(ping(1)[6:])
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)


@pytest.mark.parametrize("said", [0, 2, 6, 20])
async def test_draining_stops_at_the_end_of_a_frame_though_the_client_says_on(said: int):
    async with relaying() as talk:
        await talk.client.say(ping(7) + ping(1)[:said])
        await talk.broker.hears(ping(7))
        await wait_all_tasks_blocked(0.01)
        talk.relay.drain()
        await wait_all_tasks_blocked(0.01)
        await talk.client.say(ping(1)[said:] + ping(2)[:9])
        await talk.broker.say(pong(7))
        await talk.client.hears(pong(7))
        if said:
            await talk.broker.say(pong(1))
            await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)
        assert talk.talk.offsets[Direction.REQUEST] == len(ping(7) + (ping(1) if said else b""))


def hold_answers(talk: Relaying) -> trio.Event:
    """Answers to the client are taken from the broker, and leave when this is set."""
    leave, client = trio.Event(), talk.relay._client

    async def held(pieces: Any) -> None:
        await leave.wait()
        await client.send(pieces)

    talk.relay._client = _Sink(client, held)
    return leave


async def test_an_answer_that_a_slow_client_is_taking_is_not_cut_off_by_draining():
    async with relaying() as talk:
        leave = hold_answers(talk)
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
        assert not talk.talk.in_flight
        talk.relay.drain()
        await wait_all_tasks_blocked(0.01)
        assert not talk.relay.is_idle
        assert not talk.finished.is_set()
        leave.set()
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)


async def test_an_answer_that_a_slow_client_is_taking_is_not_cut_off_by_its_bad_request():
    async with relaying() as talk:
        leave = hold_answers(talk)
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
        await talk.client.say(b"\xff\xff\xff\xff")
        await wait_all_tasks_blocked(0.01)
        assert not talk.finished.is_set()
        leave.set()
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.BAD_LENGTH)


async def test_a_connection_that_opens_while_the_proxy_stops_ends_at_once():
    async with relaying() as talk:
        talk.relay.drain()
        await talk.ends_with(Cause.DRAINED)


async def test_draining_leaves_a_client_that_has_said_goodbye_alone_until_its_answers_came():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.client.finish()
        await talk.broker.hears(ping(1))
        await wait_all_tasks_blocked()
        talk.relay.drain()
        assert not talk.relay.is_idle
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))


async def test_what_is_cut_off_has_missed_the_deadline():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
    assert talk.relay.cause is Cause.DRAIN_DEADLINE


async def test_a_fault_ends_the_connection_with_its_name():
    def fault(direction: Direction, chunk: bytes) -> None:
        raise RuntimeError("an observer's")

    async with relaying(Watcher(fault)) as talk:
        await talk.client.say(ping(1))
        with pytest.raises(ExceptionGroup) as raised:
            await talk.ends_with(Cause.PROXY_FAULT)
        assert raised.group_contains(RuntimeError, match="an observer's")
        assert talk.relay.cause is Cause.PROXY_FAULT
