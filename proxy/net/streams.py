"""A TCP connection as a stream of chunks, at the least cost that trio allows.

Errors of the socket become `PeerLost`, so that nothing behind this file knows about errno.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from contextlib import suppress

import trio

from proxy.rewrite.nodes import Address

# 16 KiB reads move a quarter of what these do; a chunk is what a connection holds in memory, twice
RECEIVE_SIZE = 256 * 1024
# what reading or sending says once a machine has not answered for long
VANISHED = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})
# seconds of silence after which a peer's machine is asked whether it is there; so many times, then it is lost
KEEPALIVE, PROBES = 60.0, 6
# what Linux takes at most
LONGEST_KEEPALIVE = 32767


class PeerLost(Exception):
    """The connection broke: reset, timed out, unreachable. Close it. `stream`: which one it was."""

    def __init__(self, reason: object, stream: Stream | None = None) -> None:
        super().__init__(str(reason))
        self.stream = stream

    @property
    def vanished(self) -> bool:
        """Whether the peer's machine answers no more, or can't be reached any more."""
        return isinstance(self.__cause__, OSError) and self.__cause__.errno in VANISHED


class Stream:
    """One side of a relay. One task receives, one task sends.

    `receive` gives up the processor at least once in each call, `send` only when the peer is slow.
    """

    __slots__ = ("_drained", "_socket", "_woken", "is_waiting", "peer", "principal", "server_name", "taken")

    # whether the peer may end what it sends and take answers still
    half_closes = True
    is_tls = False

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        # some systems refuse these once the peer has gone; reading will tell
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = sock
        self._woken = False
        # whether the last read got less than it asked for: there was no more, and to try at once is mostly in vain
        self._drained = False
        # whether the task that receives has nothing in hand and waits for the peer
        self.is_waiting = False
        # bytes that a peer has taken slowly, in pieces
        self.taken = 0
        self.peer = peer
        # what TLS tells of a client: the name it asked for (SNI), and the subject of its certificate
        self.server_name: str | None = None
        self.principal: str | None = None

    async def handshake(self, seconds: float) -> None:
        """What must be agreed on before anything is sent: nothing. Raises PeerLost: it takes longer, or fails."""

    def given_up(self) -> socket.socket:
        """The socket, which is somebody else's from now on."""
        return socket.socket(fileno=self._socket.detach())

    async def receive(self, most: int = RECEIVE_SIZE) -> bytes | None:
        """The next chunk, of `most` bytes at most, b"" at the peer's end of stream, None if `wake` was called.

        Raises:
            PeerLost: the connection broke.
        """
        if self._drained:
            return await self._wait_and_receive(most)
        try:
            chunk = self._socket.recv(most)
        except BlockingIOError:
            return await self._wait_and_receive(most)
        except OSError as error:
            raise PeerLost(error, self) from error
        self._drained = len(chunk) < most
        await trio.lowlevel.checkpoint()
        return chunk

    async def _wait_and_receive(self, most: int) -> bytes | None:
        while not self._woken:
            self.is_waiting = True
            try:
                await trio.lowlevel.wait_readable(self._socket)
                chunk = self._socket.recv(most)
                self._drained = len(chunk) < most
                return chunk
            except BlockingIOError:
                continue
            except trio.ClosedResourceError:
                self._check_open()
            except OSError as error:
                raise PeerLost(error, self) from error
            finally:
                self.is_waiting = False
        self._woken = False
        await trio.lowlevel.checkpoint()
        return None

    def wake(self) -> None:
        """Makes the task that receives, or will next, return None unless there is data.

        A cancel scope around each wait would cost every exchange what this costs hardly one: trio ends the waits of
        both tasks as if the socket had been closed, and they see that it wasn't.
        """
        self._woken = True
        if self.is_waiting:
            trio.lowlevel.notify_closing(self._socket)

    def _check_open(self) -> None:
        """A wait has ended as if the socket had been closed: it was, or somebody was woken."""
        if self._socket.fileno() < 0:
            raise PeerLost("the connection was closed", self)

    async def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Sends all of it. A cancelled call leaves the stream unusable.

        Raises:
            PeerLost: the connection broke.
        """
        try:
            for piece in pieces:
                sent = self._send_now(piece)
                if sent < len(piece):
                    await self._send_rest(memoryview(piece)[sent:])
        except OSError as error:
            raise PeerLost(error, self) from error

    def _send_now(self, piece: bytes | memoryview) -> int:
        try:
            return self._socket.send(piece)
        except BlockingIOError:
            return 0

    async def _send_rest(self, rest: memoryview) -> None:
        while rest:
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except trio.ClosedResourceError:
                self._check_open()
            sent = self._send_now(rest)
            self.taken += sent
            rest = rest[sent:]

    async def send_eof(self) -> None:
        """Ends what is sent; receiving goes on."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise PeerLost(error, self) from error

    async def finish(self, seconds: float) -> None:
        """Ends what is sent, and waits at most so long for the peer to end too; then `close` it.

        A socket that is closed with unread bytes resets its connection, and what the peer has not taken yet is lost:
        the answer, for example, of a broker that has closed the connection while its client was still sending.
        """
        with trio.move_on_after(seconds), suppress(PeerLost):
            await self.send_eof()
            while await self.receive() != b"":
                pass

    def close(self) -> None:
        """Closes the socket; nothing happens the second time."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


def _keep_alive(sock: socket.socket, after: float) -> None:
    """Has the kernel ask a silent peer's machine whether it is there, and for as long again until it is lost."""
    seconds = min(max(1, round(after)), LONGEST_KEEPALIVE)
    options = (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", max(1, seconds // PROBES)), ("TCP_KEEPCNT", PROBES))
    with suppress(OSError):
        for option, value in options:
            # not every system has them
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def dial(address: Address, timeout: float, *, greeting: bytes = b"", keepalive: float = KEEPALIVE) -> Stream:
    """A connection to a broker: to the first of the host's addresses that accepts one.

    Args:
        greeting: what the peer is sent first.

    Raises:
        PeerLost: it could not be reached within `timeout` seconds.
    """
    try:
        with trio.fail_after(timeout):
            opened = await trio.open_tcp_stream(address.host, address.port)
            # the stream object is given up; its socket lives on in ours
            sock = _detached(opened.socket)
            _keep_alive(sock, keepalive)
            stream = Stream(sock, str(address))
            await _greet(stream, greeting)
    # a broker may call itself anything: names that no resolver takes, ports that there aren't
    except (OSError, trio.TooSlowError, UnicodeError, OverflowError) as error:
        raise PeerLost(f"{address} can't be reached: {_reason(error)}") from error
    return stream


async def _greet(stream: Stream, greeting: bytes) -> None:
    try:
        if greeting:
            await stream.send([greeting])
    except BaseException:
        stream.close()
        raise


def _reason(error: Exception) -> str:
    """Why there was no connection, in a few words. Where several addresses were tried: of the last one."""
    if isinstance(error, trio.TooSlowError):
        return "no answer in time"
    cause: BaseException = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, socket.gaierror):
        # trio's own text repeats the address
        return os.strerror(cause.errno)
    return str(cause)


def accepted(sock: trio.socket.SocketType, peer: str, keepalive: float = KEEPALIVE) -> Stream:
    """A client's connection that a listener has accepted."""
    detached = _detached(sock)
    _keep_alive(detached, keepalive)
    return Stream(detached, peer)


def _detached(sock: trio.socket.SocketType) -> socket.socket:
    return socket.socket(fileno=sock.detach())
