"""A TCP connection as a stream of chunks, at the least cost that trio allows.

Errors of the socket become `PeerLost`, so that nothing behind this file knows about errno.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import trio

from proxy.net.sockets.waits import Watch
from proxy.schema.addresses import Address
from proxy.threads import NoThread

T = TypeVar("T")

# each read and each send wakes a peer, which costs more than to copy what it gets; a chunk is what a connection holds
# in memory, twice
RECEIVE_SIZE = 512 * 1024
# a read takes memory for all that may come. Up to here that is had without asking the kernel, which costs more than to
# pass a small frame on; who has sent as much gets the whole
SMALL_SIZE = 64 * 1024
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


class LeadsBack(PeerLost):
    """The address leads to the proxy itself."""

    def __init__(self, address: Address) -> None:
        super().__init__(f"{address} leads back to this proxy")


def _is_nobodys(sock: socket.socket) -> bool:
    return False


class Stream:
    """One side of a relay. One task receives, one task sends.

    `receive` and `until` give up the processor at least once in each call, `send` only when the peer is slow.
    """

    __slots__ = ("_rest", "_size", "_socket", "_watch", "_woken", "peer", "principal", "server_name", "taken")

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
        self._watch = Watch(sock.fileno())
        self._woken = False
        # what has been put back
        self._rest = b""
        # bytes to be read at a time: SMALL_SIZE, and all there may be once it has sent as much
        self._size = SMALL_SIZE
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
        self._watch.close(PeerLost("the connection was given up", self))
        return socket.socket(fileno=self._socket.detach())

    async def receive(self, most: int = RECEIVE_SIZE) -> bytes | None:
        """The next chunk, of `most` bytes at most, b"" at the peer's end of stream, None if `wake` was called.

        Raises:
            PeerLost: the connection broke.
        """
        (chunk,) = await self._until(_as_it_is, most)
        return chunk

    async def until(self, take: Callable[[bytes | None], T | None], most: int = RECEIVE_SIZE) -> T:
        """Has `take` take every chunk as it comes (see `receive`), until it returns something; returns that.

        It is called where other connections wait for it to return; mostly without this task being woken.

        Raises:
            PeerLost: the connection broke.
        """
        return await self._until(take, most)

    async def _until(self, take: Callable[[bytes | None], T | None], most: int) -> T:
        self._check_open()
        look = self._looking(take, most)
        while self._woken or self._rest:
            await trio.lowlevel.checkpoint()
            found = look() if self._woken else take(self._again(most))
            if found is not None:
                return found
        return await self._watch.read(look)

    def put_back(self, rest: bytes) -> None:
        """Has the end of the newest chunk be the next one, once others have had their turn."""
        self._rest = rest + self._rest

    def _again(self, most: int) -> bytes:
        """What has been put back, `most` bytes of it at most."""
        chunk, self._rest = self._rest[:most], self._rest[most:]
        return chunk

    def _looking(self, take: Callable[[bytes | None], T | None], most: int) -> Callable[[], T | None]:
        """What is called whenever there may be something to be read; see `Watch.read`."""

        def look() -> T | None:
            if self._woken:
                self._woken = False
                return take(None)
            size = self._size
            try:
                chunk = self._socket.recv(min(size, most))
            except BlockingIOError:
                return None
            except OSError as error:
                raise PeerLost(error, self) from error
            if len(chunk) == size:
                self._size = RECEIVE_SIZE
            elif len(chunk) < SMALL_SIZE:
                self._size = SMALL_SIZE
            return take(chunk)

        return look

    @property
    def is_waiting(self) -> bool:
        """Whether the task that receives has nothing in hand and waits for the peer."""
        return self._watch.look is not None

    def wake(self) -> None:
        """Makes the task that receives, or will next, take None before anything else."""
        self._woken = True
        self._watch.readable()

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise PeerLost("the connection was closed", self)

    async def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Sends all of it. A cancelled call leaves the stream unusable.

        Raises:
            PeerLost: the connection broke.
        """
        for piece in Stream.send_now(self, list(pieces)):
            await self._send_rest(memoryview(piece))

    def send_now(self, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Sends what the peer takes without being waited for; returns the rest.

        Raises:
            PeerLost: the connection broke.
        """
        for index, piece in enumerate(pieces):
            sent = self._send_now(piece)
            if sent < len(piece):
                return [memoryview(piece)[sent:], *pieces[index + 1 :]]
        return ()

    def _send_now(self, piece: bytes | memoryview) -> int:
        try:
            return self._socket.send(piece)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(error, self) from error

    async def _send_rest(self, rest: memoryview) -> None:
        while rest:
            self._check_open()
            await self._watch.write()
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
            self._watch.close(PeerLost("the connection was closed", self))
            self._socket.close()


def _as_it_is(chunk: bytes | None) -> tuple[bytes | None]:
    return (chunk,)


def _take_whole_chunks(sock: socket.socket) -> None:
    """Has the kernel take what its buffer holds.

    trio has it take no more than 16 KiB beyond what the peer's window allows, for streams that hurry; a chunk then goes
    in pieces, each of which wakes the peer.
    """
    with suppress(OSError, AttributeError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)


def _keep_alive(sock: socket.socket, after: float) -> None:
    """Has the kernel ask a silent peer's machine whether it is there, and for as long again until it is lost."""
    seconds = round(min(max(1.0, after), LONGEST_KEEPALIVE))
    options = (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", max(1, seconds // PROBES)), ("TCP_KEEPCNT", PROBES))
    with suppress(OSError):
        for option, value in options:
            # not every system has them
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def dial(
    address: Address,
    timeout: float,
    *,
    greeting: bytes = b"",
    keepalive: float = KEEPALIVE,
    is_own: Callable[[socket.socket], bool] = _is_nobodys,
) -> Stream:
    """A connection to a broker: to the first of the host's addresses that accepts one.

    Args:
        timeout: seconds for all of it, also for finding out what addresses the host has.
        greeting: what the peer is sent first.
        is_own: whether a socket has been connected to the proxy itself. Raises OSError.

    Raises:
        PeerLost: it could not be reached within `timeout` seconds.
        LeadsBack: it was, and is the proxy itself.
    """
    try:
        with trio.fail_after(timeout):
            opened = await trio.open_tcp_stream(address.host, address.port)
            # the stream object is given up; its socket lives on in ours
            sock = _detached(opened.socket)
            _take_whole_chunks(sock)
            stream = Stream(sock, str(address))
            try:
                if is_own(sock):
                    raise LeadsBack(address)
                _keep_alive(sock, keepalive)
                if greeting:
                    await stream.send([greeting])
            except BaseException:
                stream.close()
                raise
    # a broker may call itself anything: names that no resolver takes, ports that there aren't
    except (OSError, trio.TooSlowError, ValueError, OverflowError) as error:
        raise PeerLost(f"{address} can't be reached: {_reason(error)}") from error
    return stream


def _reason(error: Exception) -> str:
    """Why there was no connection, in a few words. Where several addresses were tried: of the last one."""
    if isinstance(error, trio.TooSlowError):
        return "no answer in time"
    cause: BaseException = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    if isinstance(cause, socket.gaierror | NoThread):
        # the number of the first is none of the system's errors, and that of the second could mean much
        return cause.strerror or str(cause)
    if isinstance(cause, OSError) and cause.errno:
        # trio's own text repeats the address
        return os.strerror(cause.errno)
    return str(cause)


def accepted(sock: trio.socket.SocketType, peer: str, keepalive: float = KEEPALIVE) -> Stream:
    """A client's connection that a listener has accepted."""
    detached = _detached(sock)
    try:
        _keep_alive(detached, keepalive)
        return Stream(detached, peer)
    except BaseException:
        detached.close()
        raise


def _detached(sock: trio.socket.SocketType) -> socket.socket:
    return socket.socket(fileno=sock.detach())
