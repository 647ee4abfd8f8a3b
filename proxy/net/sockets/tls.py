"""TLS over a stream: the same chunks, encrypted on the wire.

OpenSSL works on memory here (`ssl.SSLObject`), so that the waits, wakes and cancellations are those of the stream
below. One task receives and one sends, as everywhere: what OpenSSL wants to say while it decrypts (an alert, an answer
to a key update) goes out with what is sent next. TLS has no half-close: a peer that has ended takes nothing more
either, so what is sent to it then is dropped, as the RFCs have it. An end of the connection without TLS' own end is an
end all the same, for many clients just close their sockets, and frames have lengths of their own.
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
from proxy.tls.contexts import Credentials, NamedObject, credentials, why
from proxy.tls.subject import subject

# a record of TLS holds so much at most
RECORD_SIZE = 16 * 1024
# what OpenSSL may want to say that nothing is sent along with
MOST_UNSAID = 64 * 1024
# how long a connection that begins waits for its certificates' files to be looked at
LOOK_SECONDS = 1.0
# how a record of TLS' handshake begins, whatever its version
HANDSHAKE = b"\x16\x03"


class NoHandshake(PeerLost):
    """The peer and the proxy do not come to speak TLS; the message says why. Close the connection."""


class UnknownName(NoHandshake):
    """The client asks for a server that the proxy does not stand for."""


class Followed:
    """Credentials whose files are looked at for each connection that begins, in a thread: their disk may hang.

    Who comes while somebody looks shares the next look.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._looking = trio.Lock()
        self._log_throttle = LogThrottle()
        # a thread that hangs keeps no others from those who want them for something else
        self._one = trio.CapacityLimiter(1)
        # looks are numbered: the last one that has begun, that has ended, and that nobody waits for any more
        self._begun = self._ended = self._given_up = 0

    @property
    def context(self) -> ssl.SSLContext:
        """As of the last look."""
        return self._credentials.context

    async def look(self) -> None:
        """Returns when the files have been looked at. If their disk hangs, it is waited for once."""
        before = self._begun
        if self._hangs:
            return
        with trio.move_on_after(LOOK_SECONDS) as patience:
            async with self._looking:
                if self._begun == before and not self._hangs:
                    await self._look_aside()
        if patience.cancelled_caught and not self._hangs:
            self._given_up = self._begun
            self._say_unseen(WARNING, f"not within {LOOK_SECONDS:.0f} s")

    @property
    def _hangs(self) -> bool:
        return self._given_up > self._ended

    async def _look_aside(self) -> None:
        try:
            await in_thread(self._look, self._one)
        except NoThread as error:
            self._say_unseen(self._log_throttle.level(str(error)), error.strerror)

    def _say_unseen(self, level: int, reason: object) -> None:
        told = "certificates can't be looked at: those from before stay"
        log(level, told, of=self._credentials.of, reason=reason)

    def _look(self) -> None:
        self._begun += 1
        try:
            self._credentials.look()
        finally:
            self._ended = self._begun


class Secured(NamedTuple):
    """What a cluster speaks TLS with: towards clients, towards brokers. None: it doesn't."""

    listener: Followed | None
    upstream: Followed | None


def secured(settings: ClusterSettings) -> Secured:
    """What a cluster's settings name. Blocks. Raises BadSetting: it can't be used."""
    return Secured(*map(followed, credentials(settings)))


def followed(credentials: Credentials | None) -> Followed | None:
    """Credentials that follow their files; None where there are none."""
    return None if credentials is None else Followed(credentials)


class TlsStream(Stream):
    """One side of a relay over TLS: `handshake` comes first.

    Args:
        below: the connection, which is this stream's from now on.
        server_name: of the broker that is asked for; None: the peer is the client.
    """

    __slots__ = (
        "_asked_for",
        "_broken",
        "_credentials",
        "_cut",
        "_ended",
        "_first",
        "_incoming",
        "_outgoing",
        "_shaken",
        "_tls",
    )

    half_closes = False
    is_tls = True

    def __init__(self, below: Stream, credentials: Followed, server_name: str | None = None) -> None:
        super().__init__(below.given_up(), below.peer)
        self._credentials = credentials
        self._asked_for = server_name
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._wrapped()
        # what the peer began with
        self._first = b""
        self._shaken = False
        # the peer has said that it ends
        self._ended = False
        # what has come can't be read
        self._broken: PeerLost | None = None
        # something is being sent, or its sending was cut off in the middle of a record
        self._cut = False

    def _wrapped(self) -> ssl.SSLObject:
        return self._credentials.context.wrap_bio(
            self._incoming, self._outgoing, server_side=self._asked_for is None, server_hostname=self._asked_for
        )

    async def handshake(self, seconds: float) -> None:
        """Agrees with the peer on how to speak; afterwards `server_name` and `principal` are known.

        Raises:
            NoHandshake: they don't, or it takes longer.
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
        self._shaken = True
        certificate = self._tls.getpeercert(binary_form=True)
        if self._tls.server_side and certificate:
            self.principal = subject(certificate)

    async def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._hear_handshake()
            except ssl.SSLError as error:
                # the peer is told why
                with suppress(PeerLost):
                    await self._flush()
                raise self._refusal(error) from error
            else:
                return await self._flush()
            finally:
                if isinstance(self._tls, NamedObject):
                    self.server_name = self._tls.asked_for

    async def _hear_handshake(self) -> None:
        data = await super().receive()
        if data is None:
            return
        self._first = self._first or data[:8]
        if not data:
            whose = "this is a TLS port" if self._tls.server_side else "is it a plaintext port?"
            raise NoHandshake(f"the peer closed the connection during the TLS handshake; {whose}", self)
        self._incoming.write(data)

    def _refusal(self, error: ssl.SSLError) -> NoHandshake:
        if isinstance(self._tls, NamedObject) and self._tls.refusal:
            return UnknownName(self._tls.refusal, self)
        return NoHandshake(self._why(error), self)

    def _why(self, error: ssl.SSLError) -> str:
        """Which of the two sides got the port wrong, if that is it."""
        if self._first[:1] == b"\0" and self._tls.server_side:
            return "the client speaks plaintext, and this port is for TLS"
        if self._first[:1] not in (HANDSHAKE[:1], b"\x15", b""):
            return "the peer does not speak TLS"
        return f"TLS handshake failed: {why(error)}"

    async def receive(self, most: int = RECEIVE_SIZE) -> bytes | None:
        """See `Stream.receive`. At the end of stream, be it TLS' or the connection's: b""."""
        chunk = self._again(most) or self._decrypted(most)
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
            chunk = self._decrypted(most)
        return chunk

    async def until(self, take: Callable[[bytes | None], T | None], most: int = RECEIVE_SIZE) -> T:
        """See `Stream.until`."""
        while (found := take(await self.receive(most))) is None:
            pass
        return found

    def _decrypted(self, most: int) -> bytes:
        """What can be read of what has come. Raises PeerLost: it can't be, or the peer says why it goes."""
        pieces: list[bytes] = []
        try:
            # asked in vain, OpenSSL raises, which costs as much as a record does
            while most and self._has_more():
                piece = self._tls.read(min(most, RECORD_SIZE))
                if not piece:
                    self._ended = True
                    break
                pieces.append(piece)
                most -= len(piece)
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._ended = True
        except ssl.SSLError as error:
            self._broken = PeerLost(f"TLS: {why(error)}", self)
            self._broken.__cause__ = error
        if self._outgoing.pending > MOST_UNSAID:
            self._broken = PeerLost("TLS: more questions than are answered", self)
        # what came before it is passed on first
        if self._broken is not None and not pieces:
            raise self._broken
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _has_more(self) -> bool:
        return self._broken is None and bool(self._incoming.pending or self._incoming.eof or self._tls.pending())

    async def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        """See `Stream.send`. To a peer that has ended nothing is sent."""
        if self._ended:
            return
        try:
            for piece in pieces:
                # what is encrypted at a time is held a second time until it is sent
                for at in range(0, len(piece), RECEIVE_SIZE):
                    if self._outgoing.pending >= RECEIVE_SIZE:
                        await self._flush()
                    self._tls.write(memoryview(piece)[at : at + RECEIVE_SIZE])
        except ssl.SSLError as error:
            raise PeerLost(f"TLS: {why(error)}", self) from error
        await self._flush()

    def send_now(self, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """See `Stream.send_now`: nothing."""
        return pieces

    async def _flush(self) -> None:
        if self._outgoing.pending:
            self._cut = True
            await super().send([self._outgoing.read()])
            self._cut = False

    async def send_eof(self) -> None:
        """See `Stream.send_eof`. TLS' own end goes first, unless that would come in the middle of a record."""
        self._say_goodbye()
        if not self._cut:
            await self._flush()
        await super().send_eof()

    def _say_goodbye(self) -> None:
        if self._shaken:
            # it raises once it has written: the peer's own end is not there yet, or nothing can be said any more
            with suppress(ssl.SSLError):
                self._tls.unwrap()

    def close(self) -> None:
        """See `Stream.close`. Says TLS' own end if that can be said at once."""
        if self._socket.fileno() >= 0:
            self._say_goodbye()
            if not self._cut and self._outgoing.pending:
                with suppress(OSError):
                    self._socket.send(self._outgoing.read(), socket.MSG_DONTWAIT)
        super().close()


def towards_client(below: Stream, credentials: Followed | None) -> Stream:
    """A client's connection as its listener has it: over TLS if there are credentials, as it is if not."""
    return below if credentials is None else TlsStream(below, credentials)


async def towards_broker(below: Stream, credentials: Followed | None, server_name: str, seconds: float) -> Stream:
    """A broker's connection as it is to be: over TLS if there are credentials.

    Raises:
        NoHandshake: the broker does not speak TLS with the proxy, or is another one.
    """
    if credentials is None:
        return below
    try:
        stream = TlsStream(below, credentials, server_name)
    # a host name that can be no server's name
    except (ValueError, UnicodeError, ssl.SSLError) as error:
        below.close()
        raise NoHandshake(f"{server_name!r} can't be asked for: {error}") from error
    try:
        await stream.handshake(seconds)
    except BaseException:
        stream.close()
        raise
    return stream
