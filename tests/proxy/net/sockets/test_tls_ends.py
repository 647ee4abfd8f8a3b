"""Tests of how a TLS stream ends: closed, cut off, reset, corrupted."""

from __future__ import annotations

import socket
import ssl

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.net.sockets.streams import PeerLost, Stream
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.tls_peers import (
    Split,
    dialling,
    listening,
)

MUCH = 1024 * 1024


async def test_sending_to_an_ended_tls_peer_sends_and_raises_nothing(ends):
    await ends.peer.ends()
    assert await ends.stream.receive() == b""
    await ends.stream.send([b"an answer"])


async def test_the_end_of_what_is_sent_is_tls_own_and_the_connections(ends):
    await ends.stream.send([b"last"])
    await ends.stream.send_eof()
    assert await ends.peer.hear_all() == b"last"
    # trio's stream raises if TLS did not announce its end; the stream below has ended too
    assert await ends.peer.below.receive_some() == b""


async def test_closing_says_the_end_too(ends):
    ends.stream.close()
    strict = ends.peer.stream
    strict._https_compatible = False
    assert await strict.receive_some() == b""


async def test_closing_twice_is_closing_once(ends):
    ends.stream.close()
    ends.stream.close()


async def test_no_close_notify_follows_a_record_that_was_cut(ends, monkeypatch):
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.stream.send, [bytes(4 * MUCH)])
            await wait_all_tasks_blocked(0.01)
            scope.cancel()
    sent = []

    async def note(self: Stream, pieces: list[bytes]) -> None:
        sent.extend(pieces)

    monkeypatch.setattr(Stream, "send", note)
    await ends.stream.send_eof()
    assert sent == []


async def test_finishing_lets_the_peer_take_what_was_sent_while_it_sends_itself(ends, nursery):
    await ends.peer.say(b"never read")

    async def answer_and_close() -> None:
        await ends.stream.send([b"y" * MUCH])
        await ends.stream.finish(PATIENCE)
        ends.stream.close()

    nursery.start_soon(answer_and_close)
    assert await ends.peer.hear_all() == b"y" * MUCH
    await ends.peer.ends()
    ends.peer.close()


async def test_a_reset_says_which_stream_broke(ends):
    ends.peer.below.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    ends.peer.close()
    with pytest.raises(PeerLost) as lost:
        await ends.stream.receive()
    assert lost.value.stream is ends.stream


async def test_garbage_between_records_ends_the_connection_after_what_came_before(signed):
    split = await Split.begin(signed)
    await split.peer.say(b"good")
    await split.gives(await split.took() + b"\x17\x03\x03\x00\x20" + b"garbage!" * 4)
    assert await split.stream.receive() == b"good"
    with pytest.raises(PeerLost):
        assert await split.stream.receive() == b"never"
    split.close()


async def test_a_changed_byte_is_never_passed_on(signed):
    split = await Split.begin(signed)
    await split.peer.say(b"good")
    record = bytearray(await split.took())
    record[-1] ^= 1
    await split.gives(bytes(record))
    with pytest.raises(PeerLost, match="TLS"):
        await split.stream.receive()
    split.close()


async def test_a_peer_that_asks_to_renegotiate_is_refused_and_served(signed):
    """Python can't request a renegotiation; the test checks that the option is set."""
    assert listening(ListenerTls(signed.proxy)).context.options & ssl.OP_NO_RENEGOTIATION
    assert dialling(UpstreamTls(signed.ca.path)).context.options & ssl.OP_NO_RENEGOTIATION
