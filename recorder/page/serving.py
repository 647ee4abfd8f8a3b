"""The page's server: uvicorn, in a thread of its own, with or without TLS.

Beyond loopback only with TLS: a token in clear is everybody's.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from proxy.ips import is_loopback
from proxy.limited_files import UnusableFile
from proxy.schema.addresses import Address
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
# bytes of a request's head; a filter may be long
LONGEST_HEAD = 1 << 16


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
        if (chain is None) != (key is None):
            raise CannotServe("a certificate needs its key: right would be both")
        certificate = Certificate(chain, key) if chain and key else None
        if certificate is None and not is_loopback(listen.host):
            right = "right would be a certificate and its key, or 127.0.0.1"
            raise CannotServe(f"{listen} is beyond loopback, where the page needs TLS: {right}")
        try:
            return cls(listen, token_of(token_file) if token_file else new_token(), certificate, names)
        except UnusableFile as error:
            raise CannotServe(f"{printable(token_file)} {error}") from error


def serve(recent: Recent, source: Source, access: Access, say: Callable[[str], None]) -> Server:
    """Serves the page in a thread, until `Server.close`. Errors: CannotServe for the certificate; OSError.

    `say`: gets a sentence when somebody signs in.
    """
    return Server(Api(recent, source), access, say)


class _Protocol(H11Protocol):
    """A connection. Closed at once if there are too many; whoever sends no head within IDLE_SECONDS holds none."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        # uvicorn's own clock, which it starts behind the first response only
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        """Reads on. The clock runs until a head is whole; uvicorn's own method stops it at the first byte."""
        self.conn.receive_data(data)
        self.handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._unset_keepalive_if_required()


class Server:
    """A running server. `port`: what was bound; `url`: by which a browser asks."""

    def __init__(self, api: Api, access: Access, say: Callable[[str], None]) -> None:
        self._api = api
        host, certificate = access.listen.host, access.certificate
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._bound = socket.create_server((host, access.listen.port), family=family)
        self.port: int = self._bound.getsockname()[1]
        self.url = f"{'https' if certificate else 'http'}://{Address(host, self.port)}/"
        secure = certificate is not None
        guard = Guard(
            api.app(), access.token, names=access.names, files=FILES, port=self.port, is_secure=secure, say=say
        )
        config = uvicorn.Config(
            guard,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=END_SECONDS,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            ssl_certfile=certificate and certificate.chain,
            ssl_keyfile=certificate and certificate.key,
        )
        try:
            config.load()
        except (OSError, ValueError) as error:
            self._bound.close()
            raise CannotServe(f"the certificate can't be used: {error}") from error
        self._server = uvicorn.Server(config)
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
        self._server.should_exit = True
        self._thread.join()
        self._bound.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
