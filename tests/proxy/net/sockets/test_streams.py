import errno
import os
import random
import socket
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.net.sockets.proxy_protocol_reader import read_header
from proxy.net.sockets.streams import PeerLost, Stream
from tests.proxy.net.peers import Peer, connected, takes_turns

MUCH = 1024 * 1024


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Stream, Peer]]:
    one, other = connected(buffers=64 * 1024)
    stream, peer = Stream(one, "peer"), Peer(other)
    yield stream, peer
    stream.close()
    peer.close()


async def test_a_chunk_is_what_the_peer_sent_and_the_last_one_is_empty(ends):
    stream, peer = ends
    await peer.say(b"one")
    assert await stream.receive() == b"one"
    await peer.say(b"two")
    await peer.finish()
    assert await stream.receive() == b"two"
    assert await stream.receive() == b""


async def test_send_now_returns_the_bytes_that_the_peer_did_not_take(ends):
    stream, peer = ends
    chunk = random.Random(0).randbytes(MUCH)
    rest, behind = stream.send_now([chunk, b"behind"])
    assert 0 < len(rest) < len(chunk)
    assert behind == b"behind"
    assert await peer.hear(len(chunk) - len(rest)) + bytes(rest) == chunk


async def test_receiving_waits_for_the_peer(ends, nursery):
    stream, peer = ends
    got = []

    async def receive() -> None:
        got.append(await stream.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    assert got == []
    assert stream.is_waiting
    await peer.say(b"late")
    await wait_all_tasks_blocked(0.01)
    assert got == [b"late"]
    assert not stream.is_waiting


async def test_wake_ends_the_wait_for_data(ends, nursery):
    stream, _ = ends
    got = []

    async def receive() -> None:
        got.append(await stream.receive())

    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    stream.wake()
    await wait_all_tasks_blocked()
    assert got == [None]


async def test_being_woken_before_waiting_counts_once(ends, autojump_clock):
    stream, _ = ends
    stream.wake()
    stream.wake()
    assert await stream.receive() is None
    with trio.move_on_after(1) as waited:
        await stream.receive()
    assert waited.cancelled_caught


async def test_a_woken_receiver_gets_none_first_and_loses_no_data(ends, nursery):
    stream, peer = ends
    got = []

    async def receive_two() -> None:
        got.append(await stream.receive())
        got.append(await stream.receive())

    nursery.start_soon(receive_two)
    await wait_all_tasks_blocked()
    await wait_all_tasks_blocked()
    stream.wake()
    await peer.say(b"data")
    await wait_all_tasks_blocked(0.01)
    assert got == [None, b"data"]


async def test_a_wake_after_a_cancelled_wait_ends_the_next_wait(ends):
    stream, _ = ends
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.receive()
    stream.wake()
    assert await stream.receive() is None


async def test_put_back_bytes_come_first_after_other_tasks_had_their_turn(ends, nursery):
    stream, peer = ends
    turns = []

    async def other() -> None:
        turns.append("other")

    await peer.say(b"one")
    assert await stream.receive() == b"one"
    stream.put_back(b"ne")
    await peer.say(b"two")
    nursery.start_soon(other)
    assert await stream.receive(1) == b"n"
    assert not stream.is_waiting
    assert await stream.receive() == b"e"
    assert turns == ["other"]
    assert await stream.receive() == b"two"


async def test_bytes_put_back_by_their_callback_are_delivered_again(ends):
    stream, peer = ends
    taken = []

    def take(chunk: bytes) -> bytes | None:
        taken.append(chunk[:2])
        if chunk[2:]:
            stream.put_back(chunk[2:])
            return chunk
        return None

    await peer.say(b"abcdef")
    assert await stream.receive_until(take) == b"abcdef"
    assert await stream.receive_until(take) == b"cdef"
    with trio.move_on_after(0.01):
        await stream.receive_until(take)
    assert taken == [b"ab", b"cd", b"ef"]


async def test_a_woken_receiver_gets_none_before_the_put_back_bytes(ends):
    stream, _ = ends
    stream.put_back(b"rest")
    stream.wake()
    assert await stream.receive() is None
    assert await stream.receive() == b"rest"


async def test_a_peer_that_always_has_data_leaves_others_their_turn():
    one, other = connected()
    stream = Stream(one, "peer")

    async def receive() -> None:
        other.send(b"x")
        await stream.receive()

    assert await takes_turns(receive, 5)
    stream.close()
    other.close()


async def test_a_reset_says_which_stream_broke(ends):
    stream, peer = ends
    peer.reset()
    with pytest.raises(PeerLost) as lost:
        await stream.receive()
    assert lost.value.stream is stream
    assert isinstance(lost.value.__cause__, ConnectionResetError)


async def test_a_reset_ends_the_wait_for_data(ends, nursery):
    stream, peer = ends

    async def reset() -> None:
        await wait_all_tasks_blocked()
        peer.reset()

    nursery.start_soon(reset)
    with pytest.raises(PeerLost):
        await stream.receive()


async def test_sending_to_a_slow_peer_takes_all_pieces_in_order(ends, nursery):
    stream, peer = ends
    pieces = [b"a" * MUCH, memoryview(b"b" * MUCH)[1:], b"", b"c"]
    nursery.start_soon(stream.send, pieces)
    assert await peer.hear(2 * MUCH) == b"a" * MUCH + b"b" * (MUCH - 1) + b"c"


async def test_sending_waits_while_the_peer_is_slow(ends, nursery):
    stream, peer = ends
    sent = trio.Event()

    async def send() -> None:
        await stream.send([bytes(MUCH)])
        sent.set()

    nursery.start_soon(send)
    await wait_all_tasks_blocked(0.01)
    assert not sent.is_set()
    await peer.hear(MUCH)
    await sent.wait()


async def test_waking_the_receiver_does_not_disturb_the_sender(ends, nursery):
    stream, peer = ends
    got = []

    async def receive() -> None:
        got.append(await stream.receive())

    pieces = [b"a" * MUCH, b"b" * MUCH]
    nursery.start_soon(stream.send, pieces)
    nursery.start_soon(receive)
    await wait_all_tasks_blocked()
    stream.wake()
    assert await peer.hear(2 * MUCH) == b"".join(pieces)
    assert got == [None]


async def test_closing_ends_the_waits_of_both_tasks(ends, nursery):
    stream, _ = ends
    lost = []

    async def wait(what) -> None:
        with pytest.raises(PeerLost) as caught:
            await what
        lost.append(caught.value.stream)

    nursery.start_soon(wait, stream.send([bytes(4 * MUCH)]))
    nursery.start_soon(wait, stream.receive())
    await wait_all_tasks_blocked()
    stream.close()
    await wait_all_tasks_blocked()
    assert lost == [stream, stream]


async def test_sending_to_a_gone_peer_raises_an_error(ends):
    stream, peer = ends
    peer.reset()
    with pytest.raises(PeerLost) as lost:
        await stream.send([b"x"])
    assert lost.value.stream is stream


async def test_a_peer_that_leaves_while_bytes_are_sent_raises_an_error(ends, nursery):
    stream, peer = ends

    async def reset() -> None:
        await wait_all_tasks_blocked(0.01)
        peer.reset()

    nursery.start_soon(reset)
    with pytest.raises(PeerLost):
        await stream.send([bytes(MUCH)])


async def test_receiving_continues_after_the_end_of_stream_was_sent(ends):
    stream, peer = ends
    await stream.send_eof()
    await peer.hears_the_end()
    await peer.say(b"still here")
    assert await stream.receive() == b"still here"


async def test_ending_the_stream_to_a_gone_peer_raises_an_error(ends):
    stream, peer = ends
    peer.reset()
    with pytest.raises(PeerLost):
        await stream.receive()
    with pytest.raises(PeerLost):
        await stream.send_eof()


async def test_finishing_lets_the_peer_take_what_was_sent_while_it_sends_itself(ends, nursery):
    stream, peer = ends
    await peer.say(b"never read")
    answer = b"y" * MUCH

    async def answer_and_close() -> None:
        await stream.send([answer])
        await stream.finish(10)
        stream.close()

    nursery.start_soon(answer_and_close)
    first = await peer.hear(10)
    await peer.say(b"and more")
    assert first + await peer.hear_all() == answer
    await peer.finish()


async def test_finishing_tells_the_peer_that_nothing_more_comes(ends, nursery):
    stream, peer = ends
    nursery.start_soon(stream.finish, 1000)
    await peer.hears_the_end()
    await peer.finish()


async def test_finishing_waits_for_the_peer_until_its_timeout(ends, autojump_clock):
    stream, _ = ends
    began = trio.current_time()
    await stream.finish(5)
    assert trio.current_time() - began == 5


async def test_finishing_ends_with_a_peer_that_has_gone(ends):
    stream, peer = ends
    peer.reset()
    await stream.finish(1000)


async def test_closing_twice_is_closing_once(ends):
    stream, peer = ends
    stream.close()
    stream.close()
    await peer.hears_the_end()


@pytest.mark.parametrize(
    ("reason", "vanished"),
    [(errno.ETIMEDOUT, True), (errno.EHOSTUNREACH, True), (errno.ECONNRESET, False), (errno.EPIPE, False)],
)
@pytest.mark.parametrize(
    "read", [Stream.receive, partial(Stream.has_spoken, seconds=5), partial(read_header, seconds=5)]
)
async def test_a_lost_machine_is_distinguished_from_a_peer_that_left(read, reason, vanished, ends):
    def fails(self: socket.socket, most: int) -> bytes:
        raise OSError(reason, os.strerror(reason))

    stream, peer = ends
    await peer.say(b"something to be read")
    broken = socket.socket(fileno=stream._socket.detach())
    stream._socket = type("Broken", (socket.socket,), {"recv": fails})(fileno=broken.detach())
    with pytest.raises(PeerLost) as lost:
        await read(stream)
    assert lost.value.vanished is vanished


async def test_bytes_that_a_slow_peer_takes_are_counted(ends, nursery):
    stream, peer = ends
    nursery.start_soon(stream.send, [bytes(MUCH)])
    await wait_all_tasks_blocked(0.01)
    before = stream.sent_slowly
    await peer.hear(MUCH // 2)
    await wait_all_tasks_blocked(0.01)
    assert stream.sent_slowly > before
    await peer.hear(MUCH // 2)


async def test_a_socket_that_refuses_its_options_is_used_all_the_same():
    one, other = socket.socketpair()
    stream = Stream(one, "peer")
    other.send(b"x")
    assert await stream.receive() == b"x"
    stream.close()
    other.close()
