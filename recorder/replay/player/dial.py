"""Dials the target: a connection with TLS if asked for, its node's versions known, logged in, ready for requests.

Before a connection is ready the guard has looked at it: at the address that it has reached, before a byte is sent; at
its node's cluster id, which is the last thing that is asked.

Connections with TLS, and recorded ones, have two tasks that read and write. Plain sockets are watched together
(`sockets`).
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from proxy.schema.addresses import Address, undotted
from proxy.schema.errors import BadSetting
from proxy.wire import decode_response, encode_request
from proxy.wire.error_codes import UNSUPPORTED_VERSION
from proxy.wire.errors import WireError
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, METADATA
from recorder.replay.cluster import about_topics, newest
from recorder.replay.engine.channels import Send
from recorder.replay.login.logins import Logins
from recorder.replay.plan import CLIENT_ID, OfferedVersions
from recorder.replay.player.frames import READ, Frames
from recorder.replay.player.guard import Guard
from recorder.replay.player.recording import Recording, Tape
from recorder.replay.player.renewal import Session
from recorder.replay.player.sockets import CONNECT_SECONDS, LINGER_SECONDS, discard_on_close, end_sending

_VERSIONS_NEWEST, _VERSIONS_OLDEST = 3, 0
# the first version of Metadata whose answer has the cluster's id
_TELLS_ID = 2


class NotReached(Exception):
    """A node of the target can't be used. The text says why, and names the address."""


@dataclass(frozen=True)
class Target:
    """How the target is reached.

    Attributes:
        bootstrap: addresses as given.
        tls: the context, and the name that certificates must have (None: the host that is dialled).
        logins: the settings file's logins; None: there are none.
        recording: records all bytes of all connections; None if nothing is recorded.
        guard: looks at each connection.
    """

    bootstrap: tuple[tuple[str, int], ...]
    tls: tuple[ssl.SSLContext, str | None] | None = None
    logins: Logins | None = None
    recording: Recording | None = None
    guard: Guard = field(default_factory=Guard)


@dataclass(frozen=True, slots=True)
class NodeVersions:
    """The versions and features that a node has told when it was dialled."""

    offered: OfferedVersions
    features: Mapping[str, int]


class Connection:
    """An open connection.

    Args:
        plain: its socket, if that is to be watched with all others: without TLS and tape.
        tape: records all that is sent and received; None if nothing is recorded.

    Attributes:
        address: as it was dialled.
        frames: bytes received that are no whole frame yet.
        session: its login, if it has one; `ask` makes it again in time.
    """

    def __init__(
        self, stream: trio.abc.Stream, address: tuple[str, int], plain: socket.socket | None, tape: Tape | None
    ) -> None:
        self._stream, self.address, self.plain, self._tape = stream, address, plain, tape
        self.frames = Frames()
        self.session: Session | None = None
        self._early: list[bytes] = []
        self._out: list[bytes] = []
        self._more = trio.Event()
        # `close` was called; all has left, and the end was told
        self._is_closing = self._is_finished = False
        self._is_full = False
        self._running = trio.CancelScope()
        # requests that wait behind those that the socket is taking
        self._behind = 0

    def write(self, sends: Sequence[Send]) -> int:
        """Queues requests for `run`, which writes them at once unless earlier ones still wait for the socket.

        Returns how many requests begin to leave now.
        """
        for send in sends:
            data = bytes(send.data)
            if self._tape is not None:
                self._tape.sends(data, send.origin)
            self._out.append(data)
        self._more.set()
        self._behind += len(sends) if self._is_full else 0
        return 0 if self._is_full else len(sends)

    def close(self) -> None:
        """Ends the connection once everything has left."""
        self._is_closing = True
        self._more.set()

    def cut(self) -> None:
        """Ends the connection. What has not left never does."""
        if (sock := self._socket) is not None:
            with suppress(OSError):
                discard_on_close(sock)
        self._running.cancel()

    @property
    def _socket(self) -> trio.socket.SocketType | None:
        inner = self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream
        return inner.socket if isinstance(inner, trio.SocketStream) else None

    async def run(self, received: Callable[[list[bytes]], None], begun: Callable[[int], None]) -> None:
        """Reads and writes until the connection has ended.

        `begun`: called with how many more requests begin to leave.
        """
        with self._running:
            await self._run(received, begun)

    async def _run(self, received: Callable[[list[bytes]], None], begun: Callable[[int], None]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_writer, begun)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, WireError):
                while data := await self._receive():
                    frames = self.frames.feed(data)
                    if not self._is_finished:
                        received(frames)
            nursery.cancel_scope.cancel()

    def early(self) -> list[bytes]:
        """Frames that arrived behind the last answer to `ask`."""
        found, self._early = self._early, []
        return found

    async def _run_writer(self, begun: Callable[[int], None]) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while not self._is_closing or self._out:
                await self._more.wait()
                self._more = trio.Event() if not self._is_closing else self._more
                while self._out:
                    data, self._out = b"".join(self._out), []
                    behind, self._behind = self._behind, 0
                    if behind:
                        begun(behind)
                    self._is_full = True
                    await self._stream.send_all(data)
                self._is_full = False
            self._is_finished = True
            if (sock := self._socket) is not None:
                end_sending(sock)
                # the reader ends this wait once the other side has ended
                await trio.sleep(LINGER_SECONDS)
            await self._stream.aclose()

    async def ask(self, frame: bytes) -> bytes:
        """Sends a frame and returns the next one, before `run`.

        Errors: NotReached; WireError and BadSetting if a login that is due fails.
        """
        if self.session is not None and self.session.is_due:
            await self.session.log_in(self.ask_raw)
        return await self.ask_raw(framed(frame))

    async def ask_raw(self, data: bytes) -> bytes:
        """Sends a frame with its length and returns the next one, before `run`. Errors: NotReached."""
        if self._tape is not None:
            self._tape.sends(data)
        await self._stream.send_all(data)
        return await self.next_frame()

    async def next_frame(self) -> bytes:
        """The next frame. Errors: NotReached."""
        while not self._early:
            data = await self._receive()
            if not data:
                raise NotReached("closed the connection")
            self._early += self.frames.feed(data)
        return self._early.pop(0)

    async def _receive(self) -> bytes:
        """The next bytes; empty at the end."""
        if self._tape is None:
            return bytes(await self._stream.receive_some(READ))
        await self._tape.room()
        try:
            data = bytes(await self._stream.receive_some(READ))
        except trio.BrokenResourceError:
            self._tape.broke()
            raise
        self._tape.came(data)
        return data

    async def aclose(self) -> None:
        """Closes at once."""
        if self._tape is not None:
            self._tape.close()
        if self.plain is not None:
            self.plain.close()
        await trio.aclose_forcefully(self._stream)


async def dial(
    target: Target, host: str, port: int, principal: str | None, node: int | None = None
) -> tuple[Connection, NodeVersions]:
    """A connection that is ready for requests. `node`: the id of the dialled node, if known.

    Errors: NotReached; Forbidden if the guard refuses it, which nothing but that is to handle.
    """
    with trio.move_on_after(CONNECT_SECONDS):
        try:
            connection = await _connect(target, host, port, node)
        except (OSError, ValueError, ssl.SSLError, trio.BrokenResourceError) as error:
            raise NotReached(f"{host}:{port}: {_why(error)}") from error
        try:
            said = await _versions(connection)
            if target.logins is not None:
                await _log_in(connection, target.logins, principal, said)
            cluster_id = await _cluster_id(connection, said)
            target.guard.check_id(host, port, cluster_id)
            if target.recording is not None:
                target.recording.identified(cluster_id)
            return connection, said
        except (WireError, BadSetting, NotReached, trio.BrokenResourceError, OSError) as error:
            await connection.aclose()
            raise NotReached(f"{host}:{port}: {_why(error)}") from error
        except BaseException:
            await connection.aclose()
            raise
    raise NotReached(f"{host}:{port}: no answer within {CONNECT_SECONDS} s")


def _why(error: BaseException) -> str:
    cause: BaseException = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        # one error for each address of a host
        cause = cause.exceptions[0]
    number = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
    # error numbers of name look-ups are negative, and have their own texts
    return os.strerror(number) if number is not None and number > 0 else str(cause) or type(cause).__name__


async def _connect(target: Target, host: str, port: int, node: int | None) -> Connection:
    plain = await trio.open_tcp_stream(host, port)
    try:
        target.guard.check_ends(host, port, plain.socket)
    except BaseException:
        await trio.aclose_forcefully(plain)
        raise
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # trio limits what the kernel takes beyond the peer's window to 16 KiB: a large request would leave in many pieces
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 0)
    if target.tls is None:
        tape = _tape(target, plain, host, port, node)
        return Connection(plain, (host, port), None if tape else _unwrapped(plain), tape)
    context, name = target.tls
    secured = trio.SSLStream(plain, context, server_hostname=undotted(name or host), https_compatible=True)
    try:
        await secured.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(plain)
        raise
    return Connection(secured, (host, port), None, _tape(target, plain, host, port, node))


def _tape(target: Target, plain: trio.SocketStream, host: str, port: int, node: int | None) -> Tape | None:
    if target.recording is None:
        return None
    here, reached = (str(Address(*end()[:2])) for end in (plain.socket.getsockname, plain.socket.getpeername))
    return target.recording.opened(node, str(Address(host, port)), here, reached, tls=target.tls is not None)


def _unwrapped(plain: trio.SocketStream) -> socket.socket:
    """The socket of a stream, to be watched with others, which trio's own object does not allow."""
    raw = socket.socket(fileno=socket.dup(plain.socket.fileno()))
    raw.setblocking(False)
    return raw


async def _versions(connection: Connection) -> NodeVersions:
    """The versions that a node offers. A broker without ApiVersions (before 0.10) hangs up: it can't be used."""
    values = {"client_software_name": CLIENT_ID, "client_software_version": "1"}
    for version in (_VERSIONS_NEWEST, _VERSIONS_OLDEST):
        frame = encode_request(API_VERSIONS, version, correlation_id=0, client_id=CLIENT_ID, values=values)
        answer = await connection.ask(frame)
        decoded = decode_response(answer, API_VERSIONS, version)
        if not isinstance(decoded, tuple):
            raise NotReached("its answer to ApiVersions can't be read")
        found = decoded[1]
        if found["error_code"] != UNSUPPORTED_VERSION:
            break
    offered = {each["api_key"]: range(each["min_version"], each["max_version"] + 1) for each in found["api_keys"]}
    features = {each["name"]: each["max_version_level"] for each in found.get("finalized_features") or ()}
    return NodeVersions(offered, features)


async def _cluster_id(connection: Connection, said: NodeVersions) -> str | None:
    """The id of the node's cluster; None: it has none (before 0.10.1)."""
    version = newest(METADATA, said.offered, None)
    if version is None or version < _TELLS_ID:
        return None
    frame = encode_request(METADATA, version, correlation_id=0, client_id=CLIENT_ID, values=about_topics(()))
    decoded = decode_response(await connection.ask(frame), METADATA, version)
    if not isinstance(decoded, tuple):
        raise NotReached("its answer to Metadata can't be read")
    return decoded[1].get("cluster_id") or None


async def _log_in(connection: Connection, logins: Logins, principal: str | None, said: NodeVersions) -> None:
    entry = logins.of(principal)
    if entry is None:
        raise NotReached(f"the settings file has no login for {principal or 'connections without a principal'}")
    connection.session = Session(entry, said.offered)
    await connection.session.log_in(connection.ask_raw)
