"""Tests of plain connections: written bytes leave whole and in order, however slowly the peer reads."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import pytest
import trio
import trio.testing

from proxy.wire.pieces import Pieces
from recorder.replay.engine.channels import Send
from recorder.replay.player.dial import Connection
from recorder.replay.player.frames import Frames
from recorder.replay.player.sockets import PlainWire, Sockets, Wire
from tests.tables import each_row


def framed(*contents: bytes) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in contents)


@each_row("is_alone", [False, True], ids=["together", "alone"])
@each_row("size", [1, 1000, 200_000], ids=["tiny", "small", "large"])
def test_pieces_leave_in_order_and_none_amid_another(size: int, is_alone: bool) -> None:
    """Half of them are written while the socket is full: they wait for the rest of an earlier piece."""
    pieces = [bytes([number]) * size for number in range(100)]
    begun: list[int] = []

    async def read(far: trio.socket.SocketType, wanted: int) -> bytes:
        found = bytearray()
        while len(found) < wanted:
            found += await far.recv(7000)
        return bytes(found)

    async def play() -> bytes:
        near, far = socket.socketpair()
        near.setblocking(False)
        with near, trio.socket.from_stdlib_socket(far) as other:
            sockets = Sockets(lambda: None)
            wire = PlainWire(sockets, near, Frames(), lambda frames: None, begun.append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sockets.run)
                for first, second in zip(pieces[::2], pieces[1::2], strict=True):
                    sends = [Send(1, Pieces([first[:2], first[2:]])), Send(1, Pieces([second]))]
                    together = [[one] for one in sends] if is_alone else [sends]
                    begun.extend(wire.write(each) for each in together)
                    await trio.lowlevel.checkpoint()
                found = await read(other, 100 * size)
                nursery.cancel_scope.cancel()
            return found

    assert trio.run(play) == b"".join(pieces)
    assert sum(begun) == 100


def _plain(near: socket.socket, begun: Callable[[int], None], nursery: trio.Nursery) -> Wire:
    """A running PlainWire."""
    near.setblocking(False)
    sockets = Sockets(lambda: None)
    nursery.start_soon(sockets.run)
    return PlainWire(sockets, near, Frames(), lambda frames: None, begun)


def _streamed(near: socket.socket, begun: Callable[[int], None], nursery: trio.Nursery) -> Wire:
    """What is used with TLS, or with a tape."""
    connection = Connection(trio.SocketStream(trio.socket.from_stdlib_socket(near)), ("127.0.0.1", 1), None, None)
    nursery.start_soon(connection.run, lambda frames: None, begun)
    return connection


@pytest.mark.parametrize("wire", [_plain, _streamed], ids=["plain", "streamed"])
def test_a_request_has_begun_although_the_socket_is_never_empty(
    wire: Callable[..., Wire],
) -> None:
    """A request keeps its bytes until it has begun. If that took an empty socket, busy connections would keep all."""
    size = 1 << 20
    begun: list[int] = []

    async def play() -> None:
        near, far = socket.socketpair()
        with near, trio.socket.from_stdlib_socket(far) as other:
            async with trio.open_nursery() as nursery:
                write = wire(near, begun.append, nursery).write
                given, taken = 0, 0
                while given < 20:
                    while given * size - taken < 3 * size:
                        begun.append(write([Send(1, Pieces([bytes(size)]))]))
                        given += 1
                    taken += len(await other.recv(size))
                    # the bytes in the socket, and the piece that it is about to take
                    assert sum(begun) * size > taken - size
                assert sum(begun) >= given - 3
                nursery.cancel_scope.cancel()

    trio.run(play)


@pytest.mark.parametrize("wire", [_plain, _streamed], ids=["plain", "streamed"])
def test_what_waits_for_a_full_socket_never_leaves_a_connection_that_was_cut(wire: Callable[..., Wire]) -> None:
    async def play() -> None:
        near, far = socket.socketpair()
        far.setblocking(False)
        with near, far:
            async with trio.open_nursery() as nursery:
                written = wire(near, lambda count: None, nursery)
                written.write([Send(1, Pieces([bytes(1 << 22)]))])
                await trio.testing.wait_all_tasks_blocked()
                written.cut()
                left = 0
                with suppress(BlockingIOError):
                    while more := len(far.recv(1 << 16)):
                        left += more
                # the socket has room again
                await trio.testing.wait_all_tasks_blocked()
                with suppress(BlockingIOError):
                    assert not far.recv(1)
                assert 0 < left < 1 << 22
                nursery.cancel_scope.cancel()

    trio.run(play)


def test_frames_are_reported_whole_whatever_their_cuts() -> None:
    contents = [b"", b"a", bytes(300_000), b"bc"]
    got: list[bytes] = []

    async def play() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        with near, trio.socket.from_stdlib_socket(far) as other:
            sockets = Sockets(lambda: None)
            wire = PlainWire(sockets, near, Frames(), got.extend, lambda count: None)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sockets.run)
                nursery.start_soon(wire.run)
                data = framed(*contents)
                while data:
                    data = data[await other.send(data[:4099]) :]
                other.shutdown(socket.SHUT_WR)
                while len(got) < len(contents):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

    trio.run(play)
    assert got == contents


@pytest.mark.parametrize("step", [1, 3, 5, 100])
def test_a_stream_is_cut_into_its_frames(step: int) -> None:
    contents = [b"", b"abc", b"d" * 50, b""]
    data, frames = framed(*contents), Frames()
    found = [frame for at in range(0, len(data), step) for frame in frames.feed(data[at : at + step])]
    assert found == contents


@pytest.mark.parametrize("wire", [_plain, _streamed], ids=["plain", "streamed"])
def test_an_answer_behind_the_end_resets_nothing(wire: Callable[..., Wire]) -> None:
    """A target that answers after the replay has hung up still gets all requests: a reset would lose unread ones."""

    async def play() -> bytes:
        listening = trio.socket.socket()
        await listening.bind(("127.0.0.1", 0))
        listening.listen()
        near = socket.create_connection(listening.getsockname())
        far, _ = await listening.accept()
        async with trio.open_nursery() as nursery:
            opened = wire(near, lambda count: None, nursery)

            async def serve(served: PlainWire) -> None:
                await served.run()
                near.close()

            if isinstance(opened, PlainWire):
                nursery.start_soon(serve, opened)
            opened.write([Send(1, framed(b"one")), Send(1, framed(b"two"))])
            found = await far.recv(7)
            opened.close()
            await trio.testing.wait_all_tasks_blocked(0.01)
            for _ in range(2):
                # the first answer to a closed socket brings a reset, which the next call finds
                await far.send(framed(b"answer"))
                await trio.testing.wait_all_tasks_blocked(0.01)
            while chunk := await far.recv(100):
                found += chunk
            far.close()
            listening.close()
            nursery.cancel_scope.cancel()
        near.close()
        return found

    assert trio.run(play) == framed(b"one", b"two")
