"""Plain connections, all watched by one task: an answer costs a read and a call, and no switch of tasks.

trio waits for the epoll of all sockets. Bytes are written at once as far as a socket takes them; the rest follows in
order when it takes more.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import trio

from proxy.wire.errors import WireError
from proxy.wire.pieces import Pieces
from proxy.wire.primitives import Buffer
from recorder.replay.engine.channels import Send
from recorder.replay.player.frames import READ, Frames

# pieces that one call writes; Linux takes up to 1,024
_PIECES = 256
# bytes from which several pieces are written without being copied together
_LARGE = 64 << 10
# seconds within which a connection is made and logged in, and within which it is logged in again
CONNECT_SECONDS = 20
# seconds that the other side may take to end a connection that is ended here
LINGER_SECONDS = 5


def discard_on_close(sock: socket.socket | trio.socket.SocketType) -> None:
    """Makes the kernel discard what waits in a socket when that is closed, instead of sending it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def end_sending(sock: socket.socket | trio.socket.SocketType) -> None:
    """Tells the other side the end, whose own end is to be waited for before the socket is closed.

    An answer to a closed socket resets the connection, and requests that the target has not read by then are lost,
    those without an answer (acks=0) unnoticed.
    """
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


class Wire(Protocol):
    """An open connection as the conductor uses it."""

    def write(self, sends: Sequence[Send]) -> int:
        """Writes requests, or keeps what the socket does not take. Returns how many requests begin to leave now."""

    def close(self) -> None:
        """Ends the connection once everything has left."""

    def cut(self) -> None:
        """Ends the connection. What has not left never does."""


class Sockets:
    """The sockets of a replay. `batch`: called after all sockets with events were served."""

    def __init__(self, batch: Callable[[], None]) -> None:
        self._batch = batch
        self._epoll = select.epoll()
        self._wires: dict[int, PlainWire] = {}

    async def run(self) -> None:
        """Serves all sockets until it is cancelled."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for number, events in self._epoll.poll(0):
                    wire = self._wires.get(number)
                    if wire is not None:
                        wire.serve(events)
                self._batch()
        finally:
            self._epoll.close()

    def add(self, wire: PlainWire, number: int) -> None:
        """Watches a socket for bytes to read."""
        self._wires[number] = wire
        self._epoll.register(number, select.EPOLLIN)

    def watch_room(self, number: int, *, is_full: bool) -> None:
        """Watches a full socket for room, too."""
        if number in self._wires:
            self._epoll.modify(number, select.EPOLLIN | (select.EPOLLOUT if is_full else 0))

    def remove(self, number: int) -> None:
        """Watches a socket no more."""
        if self._wires.pop(number, None) is not None and not self._epoll.closed:
            self._epoll.unregister(number)


class PlainWire:
    """A connection without TLS. `received`: called with frames.

    `begun`: called with how many more requests begin to leave.
    """

    def __init__(
        self,
        sockets: Sockets,
        plain: socket.socket,
        frames: Frames,
        received: Callable[[list[bytes]], None],
        begun: Callable[[int], None],
    ) -> None:
        self._sockets, self._plain, self._frames = sockets, plain, frames
        self._received, self._begun = received, begun
        self._out: deque[memoryview] = deque()
        # bytes given to `write`, and taken by the socket, so far; where each request starts that has not begun to leave
        self._given = self._taken = 0
        self._starts: deque[int] = deque()
        # all has left and its end was told; the other side has ended, too
        self._finished, self._ended = trio.Event(), trio.Event()
        self._is_closing = False
        self._number = plain.fileno()
        sockets.add(self, self._number)

    async def run(self) -> None:
        """Serves until the connection has ended."""
        try:
            await self._finished.wait()
            with trio.move_on_after(LINGER_SECONDS):
                await self._ended.wait()
        finally:
            self._sockets.remove(self._number)

    def write(self, sends: Sequence[Send]) -> int:
        """Writes requests: see `Wire`."""
        if not self._out and len(sends) == 1 and isinstance(sends[0].data, bytes):
            return self._write_one(sends[0].data)
        for send in sends:
            self._starts.append(self._given)
            self._given += len(send.data)
        pieces, was_full = _gathered([buffer for send in sends for buffer in _buffers(send.data)]), bool(self._out)
        if not was_full and len(pieces) == 1:
            taken = self._send(pieces)
            if taken < len(pieces[0]):
                self._out.append(memoryview(pieces[0])[taken:])
        else:
            self._out.extend(map(memoryview, pieces))
            if not was_full:
                self._flush()
        if self._out and not was_full:
            self._sockets.watch_room(self._number, is_full=True)
        return self._pass_begun()

    def _write_one(self, request: Buffer) -> int:
        """Writes a request in one piece while nothing waits, as most are: then nothing has to be remembered of it."""
        size, taken = len(request), self._send((request,))
        if taken < size:
            if not taken:
                self._starts.append(self._given)
            self._out.append(memoryview(request)[taken:])
            self._sockets.watch_room(self._number, is_full=True)
        self._given += size
        return int(taken > 0)

    def close(self) -> None:
        """Ends the connection: see `Wire`."""
        self._is_closing = True
        if not self._out:
            self._finish()

    def _finish(self) -> None:
        """Tells the end; `run` waits for the other side's."""
        end_sending(self._plain)
        self._finished.set()

    def cut(self) -> None:
        """Ends the connection: see `Wire`."""
        with suppress(OSError):
            discard_on_close(self._plain)
        if self._out:
            self._out.clear()
            self._starts.clear()
            self._sockets.watch_room(self._number, is_full=False)
        self._end()

    def _end(self) -> None:
        self._finished.set()
        self._ended.set()

    def serve(self, events: int) -> None:
        """Reads, and writes what is left, by the socket's events."""
        if events & select.EPOLLOUT and self._out:
            if self._flush():
                self._sockets.watch_room(self._number, is_full=False)
            if begun := self._pass_begun():
                self._begun(begun)
            if self._is_closing and not self._out:
                self._finish()
        if events & ~select.EPOLLOUT:
            self._read()

    def _read(self) -> None:
        try:
            data = self._plain.recv(READ)
            frames = self._frames.feed(data)
        except BlockingIOError:
            return
        except (OSError, WireError):
            data, frames = b"", []
        if frames and not self._finished.is_set():
            self._received(frames)
        if not data:
            self._end()
            self._sockets.remove(self._number)

    def _flush(self) -> bool:
        """Writes as much of the rest as the socket takes. True if that was all."""
        while self._out:
            pieces = [self._out[at] for at in range(min(len(self._out), _PIECES))]
            size, taken = sum(map(len, pieces)), self._send(pieces)
            self._pass(taken)
            if taken < size:
                return False
        return True

    def _pass(self, taken: int) -> None:
        while taken:
            first = self._out.popleft()
            if len(first) > taken:
                self._out.appendleft(first[taken:])
            taken -= min(len(first), taken)

    def _send(self, pieces: Sequence[Buffer]) -> int:
        try:
            taken = self._plain.sendmsg(pieces) if len(pieces) > 1 else self._plain.send(pieces[0])
        except OSError:
            # full, or broken, which the next read finds out
            return 0
        self._taken += taken
        return taken

    def _pass_begun(self) -> int:
        """How many requests have begun to leave since the last call."""
        waited = len(self._starts)
        while self._starts and self._starts[0] < self._taken:
            self._starts.popleft()
        return waited - len(self._starts)


def _buffers(data: bytes | Pieces) -> Sequence[Buffer]:
    return (data,) if isinstance(data, bytes) else data.buffers


def _gathered(pieces: list[Buffer]) -> list[Buffer]:
    """Joins small pieces: copying them costs less than giving them to the kernel one by one."""
    if len(pieces) == 1 or sum(map(len, pieces)) > _LARGE:
        return pieces
    return [b"".join(pieces)]
