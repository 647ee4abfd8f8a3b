"""The two ends of a relay: scripted sockets on loopback.

Nothing here uses the tested code, so a fault can't hide behind its twin.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

from proxy.schema.addresses import Address

HOST = "127.0.0.1"
# an address at which nobody listens
NOWHERE = Address(HOST, 1)
# far more than any test takes; a test that hangs says where
PATIENCE = 60


class Peer:
    """A client, or a broker's side of a connection."""

    def __init__(self, sock: socket.socket | trio.SocketStream) -> None:
        if isinstance(sock, socket.socket):
            sock = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self.stream = sock

    async def say(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def hear(self, size: int) -> bytes:
        """Exactly so many bytes."""
        heard = b""
        with trio.fail_after(PATIENCE):
            while len(heard) < size:
                chunk = await self.stream.receive_some(size - len(heard))
                assert chunk, f"the connection ended after {heard!r}"
                heard += chunk
        return heard

    async def hears(self, *frames: bytes) -> None:
        expected = b"".join(frames)
        assert await self.hear(len(expected)) == expected

    async def hear_frame(self) -> bytes:
        """A frame behind its length."""
        (size,) = struct.unpack(">i", await self.hear(4))
        return await self.hear(size)

    async def hears_the_end(self) -> None:
        """Nothing more, and an end of stream."""
        assert await self.hear_all() == b""

    async def hear_all(self) -> bytes:
        heard = b""
        with trio.fail_after(PATIENCE):
            while chunk := await self.stream.receive_some():
                heard += chunk
        return heard

    async def finish(self) -> None:
        """Half-closes."""
        await self.stream.send_eof()

    def close(self) -> None:
        self.stream.socket.close()

    def reset(self) -> None:
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def connected(family: socket.AddressFamily = socket.AF_INET, buffers: int = 0) -> tuple[socket.socket, socket.socket]:
    """Two sockets connected over loopback. `buffers`: sizes of theirs, which bound what stays between the two."""
    with socket.socket(family) as listener:
        listener.bind(("::1" if family == socket.AF_INET6 else HOST, 0))
        if buffers:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
        listener.listen()
        one = socket.socket(family)
        if buffers:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
        one.connect(listener.getsockname())
        other, _ = listener.accept()
        if buffers:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
    return one, other


@contextmanager
def deaf(host: str = HOST, port: int = 0) -> Iterator[tuple[str, int]]:
    """Where nobody answers: connections are neither accepted nor refused, as where a machine is gone."""
    with socket.socket() as listener, socket.socket() as first:
        listener.bind((host, port))
        listener.listen(0)
        # it takes the only place
        first.connect(listener.getsockname())
        yield listener.getsockname()


async def takes_turns(receive: Callable[[], Awaitable[object]], times: int) -> bool:
    """True if another task runs between the calls of `receive`, though there is always something to be received."""
    turns: list[str] = []

    async def stream() -> None:
        for _ in range(times):
            await receive()
            turns.append("stream")

    async def somebody() -> None:
        for _ in range(times):
            await trio.lowlevel.checkpoint()
            turns.append("somebody")

    async with trio.open_nursery() as both:
        both.start_soon(stream)
        both.start_soon(somebody)
    return "somebody" in turns[:3]
