"""Serves a WSGI application in threads, by the standard library: on a port to peers that may be hostile, or on a Unix
socket to processes of this user.

The number of connections, the size of a request and its time are limited. Above the limit of connections, the one that
has waited longest for its request makes room, so that silent peers keep nobody out. The machine may have no more
threads or files: then connections are closed, and later ones are served again. An error that a peer causes is not
logged.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from logging import ERROR
from pathlib import Path
from socket import AF_INET6, AF_UNIX, SHUT_RDWR, socket
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from proxy.log import log
from proxy.threads import no_thread, start_thread

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# a connection
Peer = TypeVar("Peer")
# the most connections at a time
MAX_CONNECTIONS = 64
# the pause in seconds after accept() has failed, because too many files are open: one may be closed meanwhile
ACCEPT_PAUSE = 0.1
# the longest that a request may take to arrive; also the longest that a part of the response may take to be sent
PATIENCE_SECONDS = 10.0
# the most bytes of a request; Prometheus sends 300
MAX_BYTES = 16 * 1024
# how often the server checks whether `close` was called, in seconds
POLL_SECONDS = 0.2


def text_page(start: StartResponse, status: str, line: str) -> Iterable[bytes]:
    """Answers with one line of text."""
    body = " ".join(line.split()).encode() + b"\n"
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]


def _not_found(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    return text_page(start, "404 Not Found", "there is no such page")


def by_first_name(pages: Mapping[str, WSGIApplication], otherwise: WSGIApplication = _not_found) -> WSGIApplication:
    """Passes a request on to the page that the first name of its path names; the page gets the rest as PATH_INFO."""

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        name, _, rest = environ["PATH_INFO"].removeprefix("/").partition("/")
        if name not in pages:
            return otherwise(environ, start)
        return pages[name]({**environ, "SCRIPT_NAME": f"/{name}", "PATH_INFO": f"/{rest}"}, start)

    return app


class _Request(io.RawIOBase):
    """A request's bytes as a stream, which ends after MAX_BYTES. `deadline`: a time of `time.monotonic()`."""

    def __init__(self, connection: socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads what has come. Raises TimeoutError at the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        # to a socket, a size of 0 means no limit
        received = self._connection.recv_into(buffer, min(len(buffer), self._left)) if self._left else 0
        self._left -= received
        return received


class _Response(ServerHandler):
    # the default Server header would name Python and its version
    server_software = "kafka-wiretap"

    def log_exception(self, exc_info: Any) -> None:
        """Logs an error, unless the peer has gone or reads nothing."""
        # ServerHandler finds the server only by the same attribute
        self.request_handler.server.log_fault(exc_info[1])  # type: ignore[attr-defined]


class Handler(WSGIRequestHandler):
    """Serves one request of a connection."""

    def setup(self) -> None:
        """Bounds what the request may be."""
        super().setup()
        self.rfile = io.BufferedReader(_Request(self.connection, time.monotonic() + PATIENCE_SECONDS))

    def handle(self) -> None:
        """Serves one request. Raises OSError: the peer has gone, or took too long."""
        self.raw_requestline = self.rfile.readline(MAX_BYTES)
        if not self.raw_requestline or not self.parse_request():
            return
        self.server.head_came(self.connection)  # type: ignore[attr-defined]
        self.connection.settimeout(PATIENCE_SECONDS)
        answer = _Response(self.rfile, self.wfile, sys.stderr, self.get_environ())  # type: ignore[arg-type]
        answer.request_handler = self  # type: ignore[attr-defined]
        answer.run(self.server.get_app())  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: scrapes come every few seconds."""


class Places(Generic[Peer]):
    """The places of connections, `most` at most: above that, the one that has waited longest for a head makes room.

    `end`: ends a connection that makes room. Called in several threads.
    """

    def __init__(self, most: int, end: Callable[[Peer], None]) -> None:
        self._most, self._end = most, end
        # `end` may give the place back, too
        self._lock = threading.RLock()
        # the oldest first; True: the head of its request, or of its next one, has not come yet
        self._taken: dict[Peer, bool] = {}

    def take(self, connection: Peer) -> bool:
        """Takes a place for a new connection. Returns False if there is none."""
        with self._lock:
            if len(self._taken) >= self._most:
                oldest = next((each for each, waits in self._taken.items() if waits), None)
                if oldest is None:
                    return False
                del self._taken[oldest]
                # with the lock, its own thread has not closed it yet
                self._end(oldest)
            self._taken[connection] = True
            return True

    def keep(self, connection: Peer) -> None:
        """Lets a connection keep its place until it waits anew, or leaves."""
        with self._lock:
            if connection in self._taken:
                self._taken[connection] = False

    def wait(self, connection: Peer) -> None:
        """Notes that a connection waits for its next head from now on."""
        with self._lock:
            if self._taken.pop(connection, None) is not None:
                self._taken[connection] = True

    def leave(self, connection: Peer) -> None:
        """Gives back the place of a connection, if it has one."""
        with self._lock:
            self._taken.pop(connection, None)


def _shut_down(connection: socket) -> None:
    """Ends a connection: its thread reads the end, and closes it."""
    with suppress(OSError):
        connection.shutdown(SHUT_RDWR)


class ThreadingServer(ThreadingMixIn, WSGIServer):
    """A server of an application that serves each connection in a thread. `name`: of what is served, for the log."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, app: WSGIApplication, address: tuple[str, int] | str, name: str) -> None:
        self._places = Places(MAX_CONNECTIONS, _shut_down)
        self._name = name
        super().__init__(address, Handler)  # type: ignore[arg-type]
        self.set_app(app)

    def server_bind(self) -> None:
        """Binds the address. Raises OSError."""
        # HTTPServer's method looks up the host's name, which may take long
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self._bound()
        self.setup_environ()

    def _bound(self) -> tuple[str, int]:
        return str(self.server_address[0]), int(self.server_address[1])

    def get_request(self) -> Any:
        """Returns the next connection. Raises OSError, after a pause, if none can be accepted for now."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(ACCEPT_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread. Closes it if there are too many. Raises NoThread."""
        if not self._places.take(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError as error:
            raise no_thread() from error

    def head_came(self, request: socket) -> None:
        """Notes that the head of a connection's request is whole: the connection gives way to no other any more."""
        self._places.keep(request)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection; called for each one, however it ends."""
        self._places.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs the current error, unless the peer has gone or took too long."""
        self.log_fault(sys.exc_info()[1])

    def log_fault(self, error: BaseException | None) -> None:
        """Logs an error with its trace, unless the peer has caused it."""
        if not isinstance(error, OSError):
            log(ERROR, f"fault in the {self._name}", trace=True)


class _ThreadingServer6(ThreadingServer):
    address_family = AF_INET6


class _UnixServer(ThreadingServer):
    """Its socket has mode 0600, and is removed at the end."""

    address_family = AF_UNIX

    def server_bind(self) -> None:
        """Binds the path, where a process that was killed may have left a socket. Raises OSError."""
        self._path = Path(str(self.server_address))
        self._path.unlink(missing_ok=True)
        super().server_bind()
        self._path.chmod(0o600)

    def _bound(self) -> tuple[str, int]:
        return "local", 0

    def get_request(self) -> Any:
        """Returns the next connection, whose peer has no address: handlers want one."""
        request, _ = super().get_request()
        return request, ("local", 0)

    def server_close(self) -> None:
        """Closes the socket and removes it."""
        super().server_close()
        self._path.unlink(missing_ok=True)


class Server:
    """A running server. `host`, `port`: the address that was bound. `close` may be called twice."""

    def __init__(self, httpd: ThreadingServer, name: str) -> None:
        self._httpd = httpd
        self.host, self.port = httpd.server_name, httpd.server_port
        self._thread = start_thread(lambda: httpd.serve_forever(POLL_SECONDS), name)

    def close(self) -> None:
        """Stops serving, and waits for the thread. Blocks."""
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(app: WSGIApplication, address: tuple[str, int] | Path, name: str) -> Server:
    """Serves `app` in threads until `Server.close`.

    Args:
        address: host and port (0: any free one), or the path of a Unix socket.
        name: of the thread, and of what is served in the log.

    Raises:
        OSError: the address can't be bound, or no thread can be started.
    """
    if isinstance(address, Path):
        return Server(_UnixServer(app, str(address), name), name)
    kind = _ThreadingServer6 if ":" in address[0] else ThreadingServer
    return Server(kind(app, address, name), name)
