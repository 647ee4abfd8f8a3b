"""Messages and open sockets between two processes of this machine, over a Unix socket.

A message is a length (uint32) and a JSON object. Its sockets are passed with its first bytes (SCM_RIGHTS), and the
object holds their number. So sockets arrive in the order of their messages, and no later than their message.
`calls.py` tells requests and answers apart.
"""

from __future__ import annotations

import array
import json
import socket
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import trio

_LENGTH = struct.Struct(">I")
RECEIVE_SIZE = 256 * 1024
# the most sockets of one message: `recvmsg` makes room for them; Linux passes at most 253
MAX_SOCKETS = 16
# the key of the number of a message's sockets
_SOCKETS = "sockets"


class ChannelBroken(Exception):
    """A message can't be understood, or sockets were lost on the way. End the other process."""


class ChannelMessage(NamedTuple):
    """A received message, and the sockets that came with it. The receiver must close them."""

    payload: dict[str, Any]
    sockets: tuple[socket.socket, ...] = ()


class Channel:
    """One end of a channel. `send` queues messages, and `run` sends them in a task. One other task calls `receive`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = trio.socket.from_stdlib_socket(sock)
        # the bytes of each message, and its sockets
        self._queue: deque[tuple[bytes, list[socket.socket]]] = deque()
        self._queued = trio.Event()
        self._sent = trio.Event()
        self._received = bytearray()
        self._sockets: deque[socket.socket] = deque()
        self._stopped = False

    def send(self, payload: Mapping[str, Any], sockets: Sequence[socket.socket] = ()) -> None:
        """Queues a message, or drops it if `run` has ended. Duplicates the sockets, so the caller may close its own."""
        if self._stopped:
            return
        data = json.dumps({**payload, _SOCKETS: len(sockets)} if sockets else payload, separators=(",", ":")).encode()
        self._queue.append((_LENGTH.pack(len(data)) + data, [sock.dup() for sock in sockets]))
        self._queued.set()

    async def run(self) -> None:
        """Sends queued messages, until cancelled or a message can't be sent, which ends the channel."""
        try:
            while True:
                while self._queue:
                    await self._send(*self._queue[0])
                    self._drop_first()
                self._sent.set()
                self._queued = trio.Event()
                await self._queued.wait()
        except OSError:
            # whatever the error was, both sides now find the other one gone: nothing is sent any more
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        finally:
            self._stopped = True
            while self._queue:
                self._drop_first()
            self._sent.set()

    async def all_sent(self) -> None:
        """Returns when the kernel has every queued message, or `run` has ended."""
        while self._queue and not self._stopped:
            self._sent = trio.Event()
            await self._sent.wait()

    async def receive(self) -> ChannelMessage | None:
        """The next message; None once the other side is gone. Raises ChannelBroken."""
        while (message := self._next()) is None:
            if not await self._read():
                return None
        return message

    def close(self) -> None:
        """Closes the channel, and the received sockets whose messages nobody has taken."""
        self._stopped = True
        self._socket.close()
        while self._sockets:
            self._sockets.popleft().close()

    async def _send(self, data: bytes, sockets: list[socket.socket]) -> None:
        rest = memoryview(data)
        if sockets:
            descriptors = array.array("i", [sock.fileno() for sock in sockets])
            rest = rest[await self._socket.sendmsg([rest], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]) :]
        while rest:
            rest = rest[await self._socket.send(rest) :]

    def _drop_first(self) -> None:
        """Removes the first message from the queue, and closes its sockets."""
        _, sockets = self._queue.popleft()
        for sock in sockets:
            sock.close()

    async def _read(self) -> bool:
        ancillary_size = socket.CMSG_SPACE(MAX_SOCKETS * array.array("i").itemsize)
        data: bytes = b""
        # a killed process resets the channel, which is an end like any other
        with suppress(ConnectionResetError):
            data, ancillary, flags, _ = await self._socket.recvmsg(RECEIVE_SIZE, ancillary_size)
            self._sockets.extend(_sockets_in(ancillary))
            if flags & socket.MSG_CTRUNC:
                raise ChannelBroken("sockets were lost: too many files are open")
        self._received += data
        return bool(data)

    def _next(self) -> ChannelMessage | None:
        received = self._received
        if len(received) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
        if len(received) < end:
            return None
        try:
            payload = json.loads(received[_LENGTH.size : end])
        except ValueError as error:
            raise ChannelBroken(f"a message is not JSON: {error}") from error
        del received[:end]
        count = payload.pop(_SOCKETS, 0)
        return ChannelMessage(payload, tuple(self._sockets.popleft() for _ in range(count)))


def _sockets_in(ancillary: Sequence[tuple[int, int, bytes]]) -> list[socket.socket]:
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return [socket.socket(fileno=descriptor) for descriptor in descriptors]


def channel_pair() -> tuple[Channel, socket.socket]:
    """Returns a channel, and the socket of its other end, for another process."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(here), there
