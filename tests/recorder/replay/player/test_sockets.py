"""Plain connections: what is written leaves whole and in order, however slowly the other side reads."""

from __future__ import annotations

import socket

import pytest
import trio

from proxy.wire.pieces import Pieces
from recorder.replay.engine.channels import Send
from recorder.replay.player.frames import Frames
from recorder.replay.player.sockets import PlainWire, Sockets


def framed(*contents: bytes) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in contents)


@pytest.mark.parametrize("size", [1, 1000, 200_000], ids=["tiny", "small", "large"])
def test_pieces_leave_in_order_and_none_amid_another(size: int) -> None:
    """Half of them are written while the socket takes no more: they wait behind what has not left whole."""
    pieces = [bytes([number]) * size for number in range(100)]
    drains = []

    async def read(far: trio.SocketType, wanted: int) -> bytes:
        found = bytearray()
        while len(found) < wanted:
            found += await far.recv(7000)
        return bytes(found)

    async def play() -> bytes:
        near, far = socket.socketpair()
        near.setblocking(False)
        with near, trio.socket.from_stdlib_socket(far) as other:
            sockets = Sockets(lambda: None)
            wire = PlainWire(sockets, near, Frames(), lambda frames: None, lambda: drains.append(1))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sockets.run)
                for first, second in zip(pieces[::2], pieces[1::2], strict=True):
                    wire.write([Send(1, Pieces([first[:2], first[2:]])), Send(1, Pieces([second]))])
                    await trio.lowlevel.checkpoint()
                found = await read(other, 100 * size)
                nursery.cancel_scope.cancel()
            return found

    assert trio.run(play) == b"".join(pieces)


def test_frames_are_told_whole_whatever_pieces_they_came_in() -> None:
    contents = [b"", b"a", bytes(300_000), b"bc"]
    got: list[bytes] = []

    async def play() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        with near, trio.socket.from_stdlib_socket(far) as other:
            sockets = Sockets(lambda: None)
            wire = PlainWire(sockets, near, Frames(), got.extend, lambda: None)
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
