"""A TCP connection as a stream of chunks, at the least cost that trio allows.

A relay has two: `accepted` returns the client's `Stream`, `dial` the broker's. `TlsStream` is a subclass. Errors of
the socket become `PeerLost`, so that no caller has to know about errno.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import trio

from proxy.net.sockets.reactor import WatchedSocket
from proxy.schema.addresses import Address
from proxy.threads import NoThread

T = TypeVar("T")

# the largest chunk, in bytes. Larger chunks mean fewer sends; a send wakes the peer, and costs more than copying the
# bytes. But a connection holds up to a chunk in each direction
RECEIVE_SIZE = 512 * 1024
# the usual size of a read, which allocates that many bytes. Allocating more would need a system call, which costs more
# than forwarding a small frame
SMALL_SIZE = 64 * 1024
# errors of reading or sending once the peer's machine has not answered for long
VANISHED = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})
# seconds of silence after which a peer's machine is probed, and the probes without an answer after which it is lost
KEEPALIVE, PROBES = 60.0, 6
# the longest TCP_KEEPIDLE that Linux accepts, in seconds
LONGEST_KEEPALIVE = 32767


class PeerLost(Exception):
    """The connection broke: reset, timed out, unreachable. `stream`: its stream, to be closed; None: there is none."""

    def __init__(self, reason: object, stream: Stream | None = None) -> None:
        super().__init__(str(reason))
        self.stream = stream

    @property
    def vanished(self) -> bool:
        """True if the peer's machine does not answer, or can't be reached, any more."""
        return isinstance(self.__cause__, OSError) and self.__cause__.errno in VANISHED


class NothingSent(PeerLost):
    """The peer has ended the connection without sending a byte, as a load balancer's health check does."""


class LeadsBack(PeerLost):
    """The address leads to the proxy itself."""

    def __init__(self, address: Address) -> None:
        super().__init__(f"{address} leads back to this proxy")


class Stream:
    """One side of a relay. At most one task receives, and one sends.

    `receive` and `receive_until` let other tasks run at least once in each call; `send` does only if the peer is slow.
    """

    __slots__ = (
        "_pushback",
        "_size",
        "_socket",
        "_watch",
        "_woken",
        "peer",
        "principal",
        "requested_name",
        "sent_slowly",
    )

    # True: a peer that has sent its end of stream may still receive
    supports_half_close = True
    is_tls = False

    def __init__(self, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        # some systems refuse these options once the peer has gone; the first read then reports that
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = sock
        self._watch = WatchedSocket(sock.fileno())
        self._woken = False
        # bytes that have been put back
        self._pushback = b""
        # the size of the next read: RECEIVE_SIZE after a read of at least SMALL_SIZE bytes, else SMALL_SIZE
        self._size = SMALL_SIZE
        # bytes sent after waiting for a slow peer; grows as long as the peer reads
        self.sent_slowly = 0
        self.peer = peer
        # from a client's TLS handshake: the name that it asked for (SNI), and the subject of its certificate
        self.requested_name: str | None = None
        self.principal: str | None = None

    async def handshake(self, seconds: float) -> None:
        """Performs a TLS handshake in `TlsStream`; does nothing here. Raises PeerLost."""

    def detach(self) -> socket.socket:
        """Returns the socket, which the caller then owns. The stream is closed."""
        self._watch.close(PeerLost("the connection was given up", self))
        return socket.socket(fileno=self._socket.detach())

    async def receive(self, max_bytes: int = RECEIVE_SIZE) -> bytes | None:
        """Returns the next chunk, at most `max_bytes`; b"" at the peer's end of stream; None if `wake` was called.

        Raises:
            PeerLost: the connection broke.
        """
        # not self.receive_until(): TlsStream's `receive_until` calls `receive`, which would never end
        (chunk,) = await Stream.receive_until(self, _as_tuple, max_bytes)
        return chunk

    async def receive_until(self, take: Callable[[bytes | None], T | None], max_bytes: int = RECEIVE_SIZE) -> T:
        """Calls `take` with every result of `receive`, until `take` returns a value other than None. Returns that.

        `take` is mostly called without waking this task. Other connections wait until `take` returns.

        Raises:
            PeerLost: the connection broke.
        """
        self._check_open()
        on_readable = self._make_on_readable(take, max_bytes)
        while self._woken or self._pushback:
            await trio.lowlevel.checkpoint()
            result = on_readable() if self._woken else take(self.take_put_back(max_bytes))
            if result is not None:
                return result
        return await self._watch.read(on_readable)

    def put_back(self, rest: bytes) -> None:
        """Puts the end of the newest chunk back: it becomes the next chunk, once other tasks have had a turn."""
        self._pushback = rest + self._pushback

    def take_put_back(self, max_bytes: int = RECEIVE_SIZE) -> bytes:
        """Takes bytes that have been put back, at most `max_bytes`; b"" if there are none."""
        chunk, self._pushback = self._pushback[:max_bytes], self._pushback[max_bytes:]
        return chunk

    def _make_on_readable(self, take: Callable[[bytes | None], T | None], max_bytes: int) -> Callable[[], T | None]:
        """Returns the function for `WatchedSocket.read`: it calls `take` with a chunk, or with None after `wake`."""

        def on_readable() -> T | None:
            if self._woken:
                self._woken = False
                return take(None)
            size = self._size
            try:
                chunk = self._socket.recv(min(size, max_bytes))
            except BlockingIOError:
                return None
            except OSError as error:
                raise PeerLost(error, self) from error
            if len(chunk) == size:
                self._size = RECEIVE_SIZE
            elif len(chunk) < SMALL_SIZE:
                self._size = SMALL_SIZE
            return take(chunk)

        return on_readable

    async def has_spoken(self, seconds: float) -> bool:
        """Waits for the peer's first bytes, and leaves them in the stream. False: none have come after `seconds`.

        Raises:
            NothingSent: the peer has ended the connection before. PeerLost: its machine is gone.
        """
        with trio.move_on_after(seconds):
            try:
                first = await self.receive()
            except PeerLost as lost:
                if lost.vanished:
                    raise
                raise NothingSent(lost, self) from lost
            if not first:
                raise NothingSent("the connection ended", self)
            self.put_back(first)
            return True
        return False

    @property
    def is_waiting(self) -> bool:
        """True if the receiving task has no chunk in hand and waits for the peer."""
        return self._watch.on_readable is not None

    def wake(self) -> None:
        """Makes the current call of `receive`, or else the next one, return None instead of a chunk."""
        self._woken = True
        self._watch.call_on_readable()

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise PeerLost("the connection was closed", self)

    async def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Sends all pieces. A cancelled call leaves the stream unusable.

        Raises:
            PeerLost: the connection broke.
        """
        # not self.send_now(): TlsStream's `send_now` sends nothing
        for piece in Stream.send_now(self, list(pieces)):
            await self._send_rest(memoryview(piece))

    def send_now(self, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """Sends what can be sent without waiting. Returns the rest.

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
            self.sent_slowly += sent
            rest = rest[sent:]

    async def send_eof(self) -> None:
        """Sends the end of stream. The stream can still receive. Raises PeerLost."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise PeerLost(error, self) from error

    async def finish(self, seconds: float) -> None:
        """Sends the end of stream, and waits for the peer's, for `seconds` at most. The caller then closes the stream.

        Without this, closing a socket with unread bytes resets the connection, and bytes that the peer has not read yet
        are lost: for example the last response of a broker that has ended a connection while its client was sending.
        """
        with trio.move_on_after(seconds), suppress(PeerLost):
            await self.send_eof()
            while await self.receive() != b"":
                pass

    def close(self) -> None:
        """Closes the socket. A second call does nothing."""
        if self._socket.fileno() >= 0:
            self._watch.close(PeerLost("the connection was closed", self))
            self._socket.close()


def _as_tuple(chunk: bytes | None) -> tuple[bytes | None]:
    # a bare None would make `receive_until` go on
    return (chunk,)


def _keep_alive(sock: socket.socket, after: float) -> None:
    """Has the kernel probe a peer that is silent for `after` seconds; about `after` seconds later, the peer is lost."""
    seconds = round(min(max(1.0, after), LONGEST_KEEPALIVE))
    _set_tcp_options(sock, TCP_KEEPIDLE=seconds, TCP_KEEPINTVL=max(1, seconds // PROBES), TCP_KEEPCNT=PROBES)


def _set_tcp_options(sock: socket.socket, **options: int) -> None:
    """Sets options of TCP, by name, as far as the system has them."""
    with suppress(OSError):
        for option, value in options.items():
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def dial(
    address: Address,
    timeout: float,
    *,
    preamble: bytes = b"",
    keepalive: float = KEEPALIVE,
    is_own: Callable[[socket.socket], bool] = lambda sock: False,
) -> Stream:
    """Returns a connection to a broker: to the first of the host's addresses that accepts one.

    Args:
        timeout: seconds for everything, the look-up of the host included.
        preamble: bytes to send first (the PROXY header).
        keepalive: seconds of silence after which the broker's machine is probed.
        is_own: returns whether a socket is connected to the proxy itself. Raises OSError.

    Raises:
        PeerLost: the broker could not be reached within `timeout` seconds.
        LeadsBack: the address leads to the proxy itself.
    """
    try:
        with trio.fail_after(timeout):
            opened = await trio.open_tcp_stream(address.host, address.port)
            # our `Stream` takes over the socket of trio's stream
            sock = _detached(opened.socket)
            # trio limits unsent bytes to 16 KiB, for low latency: a chunk would go out in pieces, each of which wakes
            # the peer
            _set_tcp_options(sock, TCP_NOTSENT_LOWAT=0)
            stream = Stream(sock, str(address))
            try:
                if is_own(sock):
                    raise LeadsBack(address)
                _keep_alive(sock, keepalive)
                if preamble:
                    await stream.send([preamble])
            except BaseException:
                stream.close()
                raise
    # ValueError, OverflowError: a broker may advertise names that no resolver takes, and ports that don't exist
    except (OSError, trio.TooSlowError, ValueError, OverflowError) as error:
        raise PeerLost(f"{address} can't be reached: {_reason(error)}") from error
    return stream


def _reason(error: Exception) -> str:
    """Returns why there was no connection, in a few words; of several addresses, the reason of the last."""
    if isinstance(error, trio.TooSlowError):
        return "no answer in time"
    cause = root_of(error)
    if isinstance(cause, socket.gaierror | NoThread):
        # a gaierror's number is no errno, and NoThread's (EAGAIN) does not tell the reason
        return cause.strerror or str(cause)
    if isinstance(cause, OSError) and cause.errno:
        # trio's own text repeats the address
        return os.strerror(cause.errno)
    return str(cause)


def root_of(error: BaseException) -> BaseException:
    """Returns the error from which another was made; of a host's several addresses, that of the last."""
    cause = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    return cause


def accepted(sock: trio.socket.SocketType, peer: str, keepalive: float = KEEPALIVE) -> Stream:
    """Returns the stream of a client's connection that a listener has accepted. Raises OSError."""
    detached = _detached(sock)
    try:
        _keep_alive(detached, keepalive)
        return Stream(detached, peer)
    except BaseException:
        detached.close()
        raise


def _detached(sock: trio.socket.SocketType) -> socket.socket:
    return socket.socket(fileno=sock.detach())
