"""TLS over a stream: the same chunks, encrypted on the wire.

OpenSSL works on memory here (`ssl.SSLObject`): `Stream` does all waiting, waking and cancelling.

One task receives and one sends, as in every stream. So replies that OpenSSL makes while it decrypts (an alert, an
answer to a key update) leave with the next bytes that are sent. There is no half-close over TLS: bytes for a peer that
has ended its stream are dropped. The end of the TCP connection without close_notify counts as an end of stream too:
many clients just close their sockets, and frames have lengths of their own.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from logging import WARNING
from typing import Any, NamedTuple

import trio

from proxy.config import ClusterSettings
from proxy.log import log
from proxy.net.blocking import in_thread
from proxy.net.log_throttle import LogThrottle
from proxy.net.sockets.protocols import ALERT, HANDSHAKE, PROXY_HEADER, TLS, spoken
from proxy.net.sockets.streams import RECEIVE_SIZE, NothingSent, PeerLost, Stream, T
from proxy.schema.addresses import undotted
from proxy.threads import NoThread
from proxy.tls.contexts import Credentials, ServerNameObject, credentials, reason_of
from proxy.tls.subject import subject

# the most plaintext that a TLS record holds
RECORD_SIZE = 16 * 1024
# the most bytes of OpenSSL's replies that may wait until something is sent
MAX_UNSENT_REPLIES = 64 * 1024
# the longest that a new connection waits for the check of the certificates' files
CHECK_SECONDS = 1.0
# the most bytes that are kept of a peer's first ones, which tell what it speaks
FIRST_BYTES = 8
# OpenSSL's reasons for which a client is refused -> the setting that demands what the client lacks
_DEMANDS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "tls.clients",
    "CERTIFICATE_VERIFY_FAILED": "tls.client_ca",
    "UNSUPPORTED_PROTOCOL": "tls.minimum",
}


class NoHandshake(PeerLost):
    """The TLS handshake failed; the message says why. Close the connection.

    setting: the key of the settings that changes this, if the peer is a client; "": there is none.
    """

    def __init__(self, reason: object, stream: Stream | None = None, setting: str = "") -> None:
        super().__init__(reason, stream)
        self.setting = setting


class UnknownName(NoHandshake):
    """The client asks for a server name (SNI) that is no node's."""


class LiveCredentials:
    """Credentials whose files are checked in a thread before each TLS handshake, because their disk may hang.

    Handshakes that begin during a check share the next check.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._check_lock = trio.Lock()
        self._log_throttle = LogThrottle()
        # one check at a time: a disk that hangs blocks one thread
        self._thread_limit = trio.CapacityLimiter(1)
        # checks are numbered: the last that has begun, the last that has ended, and the last that was given up
        self._begun = self._ended = self._given_up = 0

    @property
    def context(self) -> ssl.SSLContext:
        """The context as of the last check."""
        return self._credentials.context

    @property
    def end(self) -> float | None:
        """See `Credentials`."""
        return self._credentials.end

    async def refresh(self) -> None:
        """Returns when the files have been checked, after CHECK_SECONDS at the latest. While a disk hangs: at once."""
        before = self._begun
        if self._hangs:
            return
        with trio.move_on_after(CHECK_SECONDS) as timeout:
            async with self._check_lock:
                if self._begun == before and not self._hangs:
                    await self._check_in_thread()
        if timeout.cancelled_caught and not self._hangs:
            self._given_up = self._begun
            self._log_unchecked(WARNING, f"not within {CHECK_SECONDS:.0f} s")

    @property
    def _hangs(self) -> bool:
        return self._given_up > self._ended

    async def _check_in_thread(self) -> None:
        try:
            await in_thread(self._check, self._thread_limit)
        except NoThread as error:
            self._log_unchecked(self._log_throttle.level(str(error)), error.strerror)

    def _log_unchecked(self, level: int, reason: object) -> None:
        event = "certificates can't be checked: those from before stay"
        log(level, event, of=self._credentials.of, reason=reason)

    def _check(self) -> None:
        self._begun += 1
        try:
            self._credentials.refresh()
        finally:
            self._ended = self._begun


class ClusterCredentials(NamedTuple):
    """A cluster's credentials towards clients (`listener`) and towards brokers (`upstream`). None: no TLS."""

    listener: LiveCredentials | None
    upstream: LiveCredentials | None

    @property
    def ends(self) -> dict[str, float]:
        """The setting of each certificate's file -> when the chain in it ends, in seconds since 1970. In any thread."""
        sides = (("tls.certificate", self.listener), ("tls.upstream.certificate", self.upstream))
        return {setting: side.end for setting, side in sides if side is not None and side.end is not None}


def cluster_credentials(settings: ClusterSettings) -> ClusterCredentials:
    """Returns the credentials that a cluster's settings name. Blocks. Raises BadSetting: a file can't be used."""
    return ClusterCredentials(*(LiveCredentials(side) if side is not None else None for side in credentials(settings)))


class TlsStream(Stream):
    """One side of a relay over TLS. Call `handshake` first.

    Args:
        below: the connection's stream, whose socket this stream takes over.
        broker_name: for SNI and the broker's certificate; None: the peer is a client.
    """

    __slots__ = (
        "_broken",
        "_broker_name",
        "_credentials",
        "_ended",
        "_first_bytes",
        "_handshake_done",
        "_incoming",
        "_mid_record",
        "_outgoing",
        "_tls",
    )

    supports_half_close = False
    is_tls = True

    def __init__(self, below: Stream, credentials: LiveCredentials, broker_name: str | None = None) -> None:
        super().__init__(below.detach(), below.peer)
        self._credentials = credentials
        self._broker_name = broker_name
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = self._new_tls_object()
        # the first bytes from the peer (FIRST_BYTES)
        self._first_bytes = b""
        self._handshake_done = False
        # the peer has sent close_notify, or its end of stream
        self._ended = False
        # why nothing more is decrypted
        self._broken: PeerLost | None = None
        # something is being sent, or a send was cancelled in the middle of a record
        self._mid_record = False

    @property
    def peer_certificate(self) -> Mapping[str, Any]:
        """The peer's certificate after the handshake, as `ssl.SSLObject.getpeercert` gives it. {}: unchecked."""
        return self._tls.getpeercert() or {}

    @property
    def tls_version(self) -> str:
        """The version of TLS that the handshake has agreed on: "TLSv1.3"."""
        return self._tls.version() or ""

    def _new_tls_object(self) -> ssl.SSLObject:
        return self._credentials.context.wrap_bio(
            self._incoming, self._outgoing, server_side=self._broker_name is None, server_hostname=self._broker_name
        )

    async def handshake(self, seconds: float) -> None:
        """Performs the TLS handshake. Sets `requested_name` and `principal` if the peer is a client.

        Raises:
            NoHandshake: the handshake failed, or took longer than `seconds`.
            NothingSent: a client has ended the connection without sending a byte.
        """
        try:
            with trio.fail_after(seconds):
                await self._credentials.refresh()
                self._tls = self._new_tls_object()
                await self._shake_hands()
        except trio.TooSlowError as error:
            raise NoHandshake("no TLS handshake in time", self, "timeouts.tls") from error
        except NoHandshake:
            raise
        except PeerLost as lost:
            if self._is_unheard_client and not lost.vanished:
                raise NothingSent(lost, self) from lost
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
                # sends the alert, which tells the peer why
                with suppress(PeerLost):
                    await self._flush()
                raise self._refusal(error) from error
            else:
                return await self._flush()
            finally:
                if isinstance(self._tls, ServerNameObject):
                    self.requested_name = self._tls.requested_name

    async def _receive_handshake(self) -> None:
        data = await super().receive()
        if data is None:
            return
        self._first_bytes = (self._first_bytes + data)[:FIRST_BYTES]
        if not data and self._is_unheard_client:
            raise NothingSent("the connection ended", self)
        if not data:
            hint = "this is a TLS port" if self._tls.server_side else "is it a plaintext port?"
            raise NoHandshake(f"the peer closed the connection during the TLS handshake; {hint}", self)
        self._incoming.write(data)

    def _refusal(self, error: ssl.SSLError) -> NoHandshake:
        if isinstance(self._tls, ServerNameObject) and self._tls.refusal:
            return UnknownName(self._tls.refusal, self, "advertise")
        return NoHandshake(*self._why(error))

    @property
    def _is_unheard_client(self) -> bool:
        """True if the peer is a client that has not sent a byte."""
        return self._tls.server_side and not self._first_bytes

    def _why(self, error: ssl.SSLError) -> tuple[str, Stream, str]:
        """Returns the arguments of a NoHandshake. Often one of the two sides has the wrong port."""
        first, protocol = self._first_bytes, spoken(self._first_bytes)
        if protocol == TLS or first[:1] in (HANDSHAKE[:1], ALERT[:1], b""):
            return f"TLS handshake failed: {reason_of(error)}", self, _DEMANDS.get(error.reason or "", "")
        if not self._tls.server_side:
            return f"the broker speaks {protocol}" if protocol else "the peer does not speak TLS", self, ""
        if protocol == PROXY_HEADER:
            return f"the client sends {protocol}, and this port takes none from it", self, "proxy_protocol.accept"
        if protocol is not None:
            return f"the client speaks {protocol}, and this port is for TLS", self, ""
        # the length of a request of Kafka's
        if first[:1] == b"\0":
            return "the client speaks plaintext, and this port is for TLS", self, "tls"
        return "the peer does not speak TLS", self, ""

    async def receive(self, max_bytes: int = RECEIVE_SIZE) -> bytes | None:
        """See `Stream.receive`. Both close_notify and the connection's end are an end of stream."""
        if self._pushback or self._ended or self._has_more():
            # before anything is taken: a cancelled call loses no bytes
            await trio.lowlevel.checkpoint()
        while not (chunk := self.take_put_back(max_bytes) or self._decrypted(max_bytes)) and not self._ended:
            data = await super().receive()
            if data is None:
                return None
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()
        return chunk

    async def receive_until(self, take: Callable[[bytes | None], T | None], max_bytes: int = RECEIVE_SIZE) -> T:
        """See `Stream.receive_until`."""
        while (result := take(await self.receive(max_bytes))) is None:
            pass
        return result

    def _decrypted(self, max_bytes: int) -> bytes:
        """Returns decrypted bytes; b"": none have come. Raises PeerLost: bad bytes, an alert, too many replies."""
        pieces: list[bytes] = []
        try:
            # asked only if there is something to read: an error of OpenSSL takes as long as decrypting a record
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
            self._broken = PeerLost("TLS: too many replies are to be sent", self)
        # bytes from before the error are returned first
        if self._broken is not None and not pieces:
            raise self._broken
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _has_more(self) -> bool:
        return self._broken is None and bool(self._incoming.pending or self._incoming.eof or self._tls.pending())

    async def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        """See `Stream.send`. Sends nothing to a peer whose end of stream has come."""
        if self._ended:
            return
        try:
            for piece in pieces:
                # one part at a time, because encrypted bytes take memory too until they are sent
                for at in range(0, len(piece), RECEIVE_SIZE):
                    if self._outgoing.pending >= RECEIVE_SIZE:
                        await self._flush()
                    self._tls.write(memoryview(piece)[at : at + RECEIVE_SIZE])
        except ssl.SSLError as error:
            raise PeerLost(f"TLS: {reason_of(error)}", self) from error
        await self._flush()

    def send_now(self, pieces: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
        """See `Stream.send_now`. Sends nothing, and returns all pieces."""
        return pieces

    async def _flush(self) -> None:
        if self._outgoing.pending:
            self._mid_record = True
            await super().send([self._outgoing.read()])
            self._mid_record = False

    async def send_eof(self) -> None:
        """See `Stream.send_eof`. Sends close_notify first, unless a record is only partly sent."""
        self._queue_close_notify()
        if not self._mid_record:
            await self._flush()
        await super().send_eof()

    def _queue_close_notify(self) -> None:
        if self._handshake_done:
            # OpenSSL raises also if it has written, but the peer's close_notify has not come
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
    """Returns a client's stream over TLS, before the handshake; `below` itself if there are no credentials."""
    return below if credentials is None else TlsStream(below, credentials)


async def towards_broker(below: Stream, credentials: LiveCredentials | None, name: str, seconds: float) -> Stream:
    """Returns a broker's stream over TLS, after the handshake; `below` itself if there are no credentials.

    Raises:
        NoHandshake: the handshake failed, or the certificate is not for `name`.
    """
    if credentials is None:
        return below
    try:
        stream = TlsStream(below, credentials, undotted(name))
    # a host name that can't be a server name
    except (ValueError, UnicodeError, ssl.SSLError) as error:
        below.close()
        raise NoHandshake(f"{name!r} can't be a server name: {error}") from error
    try:
        await stream.handshake(seconds)
    except BaseException:
        stream.close()
        raise
    return stream
