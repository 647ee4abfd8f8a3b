"""The page's server: uvicorn, in a thread of its own, with or without TLS.

Beyond loopback only with TLS: a token in clear is everybody's.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from proxy.limited_files import UnusableFile
from proxy.limited_server import Places
from proxy.schema.addresses import Address
from proxy.schema.certificates import wrong_certificate
from proxy.terminal import printable
from proxy.threads import begin
from proxy.tokens import new_token, token_of
from recorder.page.api import FILES, Api, Source
from recorder.page.guard import Guard
from recorder.page.recent import Recent

# connections at a time: a browser opens six
MAX_CONNECTIONS = 64
# the longest that a connection is kept without a whole head of a request, and that open streams hold up the end
IDLE_SECONDS, END_SECONDS = 75, 1
# host and port of a connection's ends: the peer's, and this server's
_Ends = tuple[tuple[Any, ...], tuple[Any, ...]]
# bytes of a request's head; a filter may be long
LONGEST_HEAD = 1 << 16
# of `view`; the proxy's settings are checked before they come here
_OPTIONS = "--listen", "--certificate", "--key"


class Certificate(NamedTuple):
    """Files in PEM."""

    chain: Path
    key: Path


class CannotServe(OSError):
    """The page can't be served there. The text is a sentence."""


class Access(NamedTuple):
    """Where the page is served, and to whom. `names`: host names by which browsers may ask, besides localhost."""

    listen: Address
    token: str
    certificate: Certificate | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, listen: Address, token_file: Path | None, chain: Path | None, key: Path | None, names: tuple[str, ...] = ()
    ) -> Self:
        """What options say; without a file of the token, a new token. Errors: CannotServe."""
        for fault in wrong_certificate(listen, chain, key, named=_OPTIONS):
            raise CannotServe(str(fault))
        certificate = Certificate(chain, key) if chain and key else None
        try:
            return cls(listen, token_of(token_file) if token_file else new_token(), certificate, names)
        except UnusableFile as error:
            raise CannotServe(f"{printable(token_file)} {error}") from error


def serve(recent: Recent, source: Source, access: Access, say: Callable[[str], None]) -> Server:
    """Serves the page in a thread, until `Server.close`. Errors: CannotServe for the certificate; OSError, a sentence.

    `say`: gets a sentence when somebody signs in.
    """
    return Server(Api(recent, source), access, say)


def _context(certificate: Certificate) -> ssl.SSLContext:
    """What OpenSSL is told. Errors: OSError, ValueError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.chain, certificate.key)
    return context


class _Connections:
    """Open connections: MAX_CONNECTIONS at most, and none to whoever sends no whole head within IDLE_SECONDS. ASGI.

    uvicorn's own clock stops at the first byte of a head, and begins after TLS's handshake. The application, however,
    is called once a head is whole.

    `tls`: what connections begin with; None: nothing.
    """

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None) -> None:
        self._app, self.tls = app, tls
        self.places = Places(MAX_CONNECTIONS, _Connection.end)
        self._open: dict[_Ends, _Connection] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # None: it was closed meanwhile
        connection = self._open.get((tuple(scope["client"]), tuple(scope["server"])))
        with nullcontext() if connection is None else connection.answering():
            await self._app(scope, receive, send)

    def protocol(self, **given: Any) -> asyncio.Protocol:
        """The protocol of a new connection. `given`: what uvicorn gives to its own."""
        return _Connection(H11Protocol(**given), self)

    def add(self, ends: _Ends, connection: _Connection) -> bool:
        """Adds a connection, or returns False: there are too many."""
        if not self.places.take(connection):
            return False
        self._open[ends] = connection
        return True

    def remove(self, ends: _Ends, connection: _Connection) -> None:
        """Removes a connection."""
        self.places.leave(connection)
        self._open.pop(ends, None)

    def end_handshakes(self) -> None:
        """Ends the connections whose TLS has not begun to serve."""
        for connection in [one for one in self._open.values() if not one.is_served]:
            connection.end()


class _Connection(asyncio.Protocol):
    """A connection, which another protocol serves. It ends itself once it has waited too long for a head.

    TLS begins here, not before: a peer counts from its first packet on, also if it never says a word of TLS.
    """

    def __init__(self, served: asyncio.Protocol, connections: _Connections) -> None:
        self._served, self._connections = served, connections
        # that of TCP; None: there is no connection, or none that counts
        self._transport: asyncio.Transport | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._ends: _Ends = ((), ())
        # False during TLS's handshake: uvicorn does not know the connection yet
        self.is_served = False
        # what has come behind the handshake, in the same turn
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes part in the limit; above that, closes the connection."""
        self._ends = transport.get_extra_info("peername")[:2], transport.get_extra_info("sockname")[:2]
        if not self._connections.add(self._ends, self):
            transport.abort()
            return
        self._transport = transport
        self._wait()
        tls = self._connections.tls
        if tls is None:
            self._serve(transport)
        else:
            # what has come belongs to the handshake
            transport.pause_reading()
            self._handshake = asyncio.get_running_loop().create_task(self._secure(transport, tls))

    async def _secure(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        if self._transport is None:
            # it made room before this began; a handshake would keep its memory until its limit of time
            return
        loop, secured = asyncio.get_running_loop(), None
        with suppress(OSError):
            # None: the peer has gone meanwhile. The clock of `_wait` ends a handshake before this limit
            longest = 2.0 * IDLE_SECONDS
            secured = await loop.start_tls(transport, self, tls, server_side=True, ssl_handshake_timeout=longest)
        if secured is None:
            self.end()
        else:
            self._serve(secured)

    def _serve(self, transport: asyncio.Transport) -> None:
        self.is_served = True
        self._served.connection_made(transport)
        for data in self._early:
            self._served.data_received(data)
        self._early.clear()

    def end(self) -> None:
        """Closes the connection at once: a peer that reads nothing would hold up what is polite. Makes room."""
        if self._transport is not None:
            self._transport.abort()
            self._leave()

    def _leave(self) -> None:
        self._stop_waiting()
        self._transport = None
        self._connections.remove(self._ends, self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Makes room."""
        if self._transport is not None:
            self._leave()
        if self.is_served:
            self.is_served = False
            self._served.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Passes bytes on, and so do the methods below with what else happens."""
        if self.is_served:
            self._served.data_received(data)
        else:
            self._early.append(data)

    def eof_received(self) -> bool | None:
        return self._served.eof_received()

    def pause_writing(self) -> None:
        self._served.pause_writing()

    def resume_writing(self) -> None:
        self._served.resume_writing()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The clock stands still within the block."""
        self._stop_waiting()
        self._connections.places.keep(self)
        try:
            yield
        finally:
            if self._transport is not None:
                self._connections.places.wait(self)
                self._wait()

    def _wait(self) -> None:
        self._clock = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.end)

    def _stop_waiting(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


class _Uvicorn(uvicorn.Server):
    """Ends handshakes, too: uvicorn does not know them, and from Python 3.12.1 on waits for them."""

    def __init__(self, config: uvicorn.Config, connections: _Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._connections.end_handshakes()
        await super().shutdown(sockets)


class Server:
    """A running server. `port`: what was bound; `url`: by which a browser asks."""

    def __init__(self, api: Api, access: Access, say: Callable[[str], None]) -> None:
        self._api = api
        host, certificate = access.listen.host, access.certificate
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._bound = socket.create_server((host, access.listen.port), family=family)
        except OSError as error:
            # the text of `socket` has a tuple of Python's
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise OSError(error.errno, f"the page can't be served at {access.listen}: {reason}") from error
        self.port: int = self._bound.getsockname()[1]
        self.url = f"{'https' if certificate else 'http'}://{Address(host, self.port)}/"
        try:
            tls = certificate and _context(certificate)
        except (OSError, ValueError) as error:
            self._bound.close()
            raise CannotServe(f"the certificate can't be used: {error}") from error
        secure = tls is not None
        guard = Guard(
            api.app(), access.token, names=access.names, files=FILES, port=self.port, is_secure=secure, say=say
        )
        connections = _Connections(guard, tls)
        config = uvicorn.Config(
            connections,
            http=connections.protocol,  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            # what peers do wrong is no line of a log
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=END_SECONDS,
            h11_max_incomplete_event_size=LONGEST_HEAD,
        )
        self._server = _Uvicorn(config, connections)
        self._thread = threading.Thread(target=self._run, name="page", daemon=True)
        begin(self._thread)

    @property
    def asked_at(self) -> float:
        """When somebody who may has asked last, as of `time.monotonic()`."""
        return self._api.asked_at

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._bound]))

    def close(self) -> None:
        """Ends all streams, and waits for the thread. Blocks for END_SECONDS at most."""
        # what uvicorn has to cut off is lines of its log
        self._api.is_closing = True
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
