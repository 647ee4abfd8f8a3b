"""TLS over a stream: the same chunks, encrypted on the wire.

OpenSSL works on memory here (`ssl.SSLObject`), so that waiting, waking and cancelling are left to the stream below. One
task receives and one sends, as everywhere: replies that OpenSSL makes while it decrypts (an alert, an answer to a key
update) go out with the next bytes that are sent. TLS has no half-close: a peer that has sent close_notify receives
nothing more, so bytes for it are dropped. The TCP connection's end without close_notify counts as an end of stream:
many clients just close their sockets, and frames have lengths of their own.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from logging import WARNING
from typing import NamedTuple

import trio

from proxy.config import ClusterSettings
from proxy.log import log
from proxy.net.blocking import in_thread
from proxy.net.log_throttle import LogThrottle
from proxy.net.sockets.streams import RECEIVE_SIZE, PeerLost, Stream, T
from proxy.threads import NoThread
from proxy.tls.contexts import Credentials, ServerNameObject, credentials, reason_of
from proxy.tls.subject import subject

# the most that a record of TLS holds
RECORD_SIZE = 16 * 1024
# bytes of OpenSSL's replies that may wait until something is sent
MAX_UNSENT_REPLIES = 64 * 1024
# how long a new connection waits until the certificates' files have been checked
LOOK_SECONDS = 1.0
# how a record of TLS' handshake begins, whatever its version
HANDSHAKE = b"\x16\x03"


class NoHandshake(PeerLost):
    """The TLS handshake failed; the message says why. Close the connection."""


class UnknownName(NoHandshake):
    """The client asks for a server name that means no node."""


class LiveCredentials:
    """Credentials whose files are checked for each connection that begins, in a thread: their disk may hang.

    Connections that begin during a check share the next one.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._looking = trio.Lock()
        self._log_throttle = LogThrottle()
        # checks are one at a time: a disk that hangs holds one thread
        self._one = trio.CapacityLimiter(1)
        # checks are numbered: the last one that has begun, that has ended, and that was given up
        self._begun = self._ended = self._given_up = 0

    @property
    def context(self) -> ssl.SSLContext:
        """The context as of the last check."""
        return self._credentials.context

    async def look(self) -> None:
        """Returns when the files have been checked. Does not wait again for a disk that hangs."""
        before = self._begun
        if self._hangs:
            return
        with trio.move_on_after(LOOK_SECONDS) as timeout:
            async with self._looking:
                if self._begun == before and not self._hangs:
                    await self._look_in_thread()
        if timeout.cancelled_caught and not self._hangs:
            self._given_up = self._begun
            self._log_unseen(WARNING, f"not within {LOOK_SECONDS:.0f} s")

    @property
    def _hangs(self) -> bool:
        return self._given_up > self._ended

    async def _look_in_thread(self) -> None:
        try:
            await in_thread(self._look, self._one)
        except NoThread as error:
            self._log_unseen(self._log_throttle.level(str(error)), error.strerror)

    def _log_unseen(self, level: int, reason: object) -> None:
        event = "certificates can't be looked at: those from before stay"
        log(level, event, of=self._credentials.of, reason=reason)

    def _look(self) -> None:
        self._begun += 1
        try:
            self._credentials.look()
        finally:
            self._ended = self._begun


class ClusterTls(NamedTuple):
    """A cluster's credentials towards clients and towards brokers. None: no TLS."""

    listener: LiveCredentials | None
    upstream: LiveCredentials | None


def cluster_tls(settings: ClusterSettings) -> ClusterTls:
    """The credentials that a cluster's settings name. Blocks. Raises BadSetting: a file can't be used."""
    return ClusterTls(*(LiveCredentials(side) if side is not None else None for side in credentials(settings)))


class TlsStream(Stream):
    """One side of a relay over TLS: `handshake` comes first.

    Args:
        below: the connection's stream, whose socket this stream takes over.
        server_name: the broker's name; None: the peer is a client.
    """

    __slots__ = (
        "_asked_for",
        "_broken",
        "_credentials",
        "_ended",
        "_first_bytes",
        "_handshake_done",
        "_incoming",
        "_mid_record",
        "_outgoing",
        "_tls",
    )

    half_closes = False
    is_tls = True

    def __init__(self, below: Stream, credentials: LiveCredentials, server_name: str | None = None) -> None:
        super().__init__(below.detach(), below.peer)
        self._credentials = credentials
        self._asked_for = server_name
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._wrapped()
        # the first bytes of the peer
        self._first_bytes = b""
        self._handshake_done = False
        # the peer has sent close_notify, or its end of stream
        self._ended = False
        # why bytes that have come can't be decrypted
        self._broken: PeerLost | None = None
        # something is being sent, or a send was cancelled in the middle of a record
        self._mid_record = False

    def _wrapped(self) -> ssl.SSLObject:
        return self._credentials.context.wrap_bio(
            self._incoming, self._outgoing, server_side=self._asked_for is None, server_hostname=self._asked_for
        )

    async def handshake(self, seconds: float) -> None:
        """Agrees with the peer on how to speak; afterwards `server_name` and `principal` are known.

        Raises:
            NoHandshake: the handshake failed, or took longer than `seconds`.
        """
        try:
            with trio.fail_after(seconds):
                await self._credentials.look()
                self._tls = self._wrapped()
                await self._shake_hands()
        except trio.TooSlowError as error:
            raise NoHandshake("no TLS handshake in time", self) from error
        except NoHandshake:
            raise
        except PeerLost as lost:
            raise NoHandshake(f"the connection broke during the TLS handshake: {lost}", self) from lost
        self._handshake_done = True
        certificate = self._tls.getpeercert(binary_form=True)
        if self._tls.server_side and certificate:
            self.principal = subject(certificate)

    async def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive_handshake()
            except ssl.SSLError as error:
                # the peer is told why
                with suppress(PeerLost):
                    await self._flush()
                raise self._refusal(error) from error
            else:
                return await self._flush()
            finally:
                if isinstance(self._tls, ServerNameObject):
                    self.server_name = self._tls.asked_for

    async def _receive_handshake(self) -> None:
        data = await super().receive()
        if data is None:
            return
        self._first_bytes = self._first_bytes or data[:8]
        if not data:
            whose = "this is a TLS port" if self._tls.server_side else "is it a plaintext port?"
            raise NoHandshake(f"the peer closed the connection during the TLS handshake; {whose}", self)
        self._incoming.write(data)

    def _refusal(self, error: ssl.SSLError) -> NoHandshake:
        if isinstance(self._tls, ServerNameObject) and self._tls.refusal:
            return UnknownName(self._tls.refusal, self)
        return NoHandshake(self._why(error), self)

    def _why(self, error: ssl.SSLError) -> str:
        """Why the handshake failed: often one of the two sides has the wrong port."""
        if self._first_bytes[:1] == b"\0" and self._tls.server_side:
            return "the client speaks plaintext, and this port is for TLS"
        if self._first_bytes[:1] not in (HANDSHAKE[:1], b"\x15", b""):
            return "the peer does not speak TLS"
        return f"TLS handshake failed: {reason_of(error)}"

    async def receive(self, max_bytes: int = RECEIVE_SIZE) -> bytes | None:
        """See `Stream.receive`. At the end of stream, be it TLS' or the connection's: b""."""
        chunk = self._take_pushback(max_bytes) or self._decrypted(max_bytes)
        if chunk or self._ended:
            await trio.lowlevel.checkpoint()
            return chunk
        while not (chunk or self._ended):
            data = await super().receive()
            if data is None:
                return None
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()
            chunk = self._decrypted(max_bytes)
        return chunk

    async def until(self, take: Callable[[bytes | None], T | None], max_bytes: int = RECEIVE_SIZE) -> T:
        """See `Stream.until`."""
        while (found := take(await self.receive(max_bytes))) is None:
            pass
        return found

    def _decrypted(self, max_bytes: int) -> bytes:
        """Decrypts bytes that have come. Raises PeerLost: they can't be decrypted, or are the peer's alert."""
        pieces: list[bytes] = []
        try:
            # OpenSSL raises where there is nothing to read, which costs as much as a record does
            while max_bytes and self._has_more():
                piece = self._tls.read(min(max_bytes, RECORD_SIZE))
                if not piece:
                    self._ended = True
                    break
                pieces.append(piece)
                max_bytes -= len(piece)
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._ended = True
        except ssl.SSLError as error:
            self._broken = PeerLost(f"TLS: {reason_of(error)}", self)
            self._broken.__cause__ = error
        if self._outgoing.pending > MAX_UNSENT_REPLIES:
            self._broken = PeerLost("TLS: more questions than are answered", self)
        # bytes that came before the error are passed on first
        if self._broken is not None and not pieces:
            raise self._broken
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _has_more(self) -> bool:
        return self._broken is None and bool(self._incoming.pending or self._incoming.eof or self._tls.pending())

    async def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        """See `Stream.send`. Sends nothing to a peer that has ended."""
        if self._ended:
            return
        try:
            for piece in pieces:
                # a part at a time: encrypted bytes take memory a second time until they are sent
                for at in range(0, len(piece), RECEIVE_SIZE):
                    if self._outgoing.pending >= RECEIVE_SIZE:
                        await self._flush()
                    self._tls.write(memoryview(piece)[at : at + RECEIVE_SIZE])
        except ssl.SSLError as error:
            raise PeerLost(f"TLS: {reason_of(error)}", self) from error
        await self._flush()

    def send_now(self, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """See `Stream.send_now`. Sends nothing, returns all."""
        return pieces

    async def _flush(self) -> None:
        if self._outgoing.pending:
            self._mid_record = True
            await super().send([self._outgoing.read()])
            self._mid_record = False

    async def send_eof(self) -> None:
        """See `Stream.send_eof`. Sends close_notify first, unless that would land in the middle of a record."""
        self._queue_close_notify()
        if not self._mid_record:
            await self._flush()
        await super().send_eof()

    def _queue_close_notify(self) -> None:
        if self._handshake_done:
            # raises after it has written: the peer's close_notify has not come yet, or nothing can be written any more
            with suppress(ssl.SSLError):
                self._tls.unwrap()

    def close(self) -> None:
        """See `Stream.close`. Sends close_notify if that can be sent at once."""
        if self._socket.fileno() >= 0:
            self._queue_close_notify()
            if not self._mid_record and self._outgoing.pending:
                with suppress(OSError):
                    self._socket.send(self._outgoing.read(), socket.MSG_DONTWAIT)
        super().close()


def towards_client(below: Stream, credentials: LiveCredentials | None) -> Stream:
    """A client's connection: over TLS if there are credentials, else as it is."""
    return below if credentials is None else TlsStream(below, credentials)


async def towards_broker(below: Stream, credentials: LiveCredentials | None, name: str, seconds: float) -> Stream:
    """A broker's connection: over TLS if there are credentials, else as it is.

    Raises:
        NoHandshake: the handshake failed, or the certificate is another server's.
    """
    if credentials is None:
        return below
    try:
        stream = TlsStream(below, credentials, name)
    # a host name that can be no server's name
    except (ValueError, UnicodeError, ssl.SSLError) as error:
        below.close()
        raise NoHandshake(f"{name!r} can't be asked for: {error}") from error
    try:
        await stream.handshake(seconds)
    except BaseException:
        stream.close()
        raise
    return stream
