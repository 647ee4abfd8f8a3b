"""The admin page: /metrics for Prometheus, /livez and /readyz for the proxy's supervisor.

Served by the standard library in a thread of its own: a scrape takes milliseconds that the event loop lacks. Whoever
connects may mean harm: connections, their requests and the time that these take are limited, and what a peer does
wrong is no fault of the page's.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterable
from logging import ERROR
from socket import AF_INET, AF_INET6, socket
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from proxy.log import log
from proxy.threads import begin, no_thread

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# the time in which a request must arrive, and again that in which its answer must be read
PATIENCE_SECONDS = 10.0
# a request's line and headers: what Prometheus sends has 300 bytes
MAX_BYTES = 16 * 1024
# the most connections at a time, each with a thread; further ones are closed at once
MAX_CONNECTIONS = 64
# no more files may be open: wait for one to be closed
ACCEPT_PAUSE = 0.1

# the longest wait of close()
POLL_SECONDS = 0.2

# (True if it is so, a line of text with the reason); called in the page's thread
Probe = Callable[[], tuple[bool, str]]


def admin_app(registry: CollectorRegistry, ready: Probe, alive: Probe) -> WSGIApplication:
    """A WSGI application of /metrics, /livez and /readyz; anything else is a 404.

    Args:
        ready: the probe of /readyz: the proxy can serve.
        alive: the probe of /livez: the proxy works at all.
    """
    metrics = _tolerant(make_wsgi_app(registry))

    pages: dict[str, WSGIApplication] = {"/metrics": metrics, "/livez": _probed(alive), "/readyz": _probed(ready)}

    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return pages.get(environ["PATH_INFO"], _not_found)(environ, start)

    return page


def _tolerant(metrics: WSGIApplication) -> WSGIApplication:
    """The metrics page, without the request's headers if prometheus-client can't parse them."""

    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        try:
            return metrics(environ, start)
        except (TypeError, ValueError):
            return metrics({**environ, "HTTP_ACCEPT": "", "HTTP_ACCEPT_ENCODING": "", "QUERY_STRING": ""}, start)

    return page


def _probed(probe: Probe) -> WSGIApplication:
    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        is_so, reasons = probe()
        return _text(start, "200 OK" if is_so else "503 Service Unavailable", reasons)

    return page


def _not_found(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    return _text(start, "404 Not Found", "try /metrics, /livez or /readyz")


def _text(start: StartResponse, status: str, line: str) -> Iterable[bytes]:
    body = " ".join(line.split()).encode() + b"\n"
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]


class _Request(io.RawIOBase):
    """The bytes of a request, limited in number and by a deadline."""

    def __init__(self, connection: socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises TimeoutError: the time is up."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        # a socket takes a size of 0 for no limit
        got = self._connection.recv_into(buffer, min(len(buffer), self._left)) if self._left else 0
        self._left -= got
        return got


class _Answer(ServerHandler):
    # what stands in its head otherwise names the program's parts
    server_software = "kafka-wiretap"

    def log_exception(self, exc_info: Any) -> None:
        """A peer that has gone, or takes nothing, is no fault."""
        if not isinstance(exc_info[1], OSError):
            log(ERROR, "fault in the admin page", trace=True)


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Request(self.connection, time.monotonic() + PATIENCE_SECONDS))

    def handle(self) -> None:
        """Serves one request. Raises OSError: the peer has gone, or its time is up."""
        self.raw_requestline = self.rfile.readline(MAX_BYTES)
        if not self.raw_requestline or not self.parse_request():
            return
        self.connection.settimeout(PATIENCE_SECONDS)
        answer = _Answer(self.rfile, self.wfile, sys.stderr, self.get_environ())  # type: ignore[arg-type]
        # ServerHandler finds the server only by this attribute
        answer.request_handler = self  # type: ignore[attr-defined]
        answer.run(self.server.get_app())  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: scrapes come every few seconds."""


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        super().__init__(address, handler)
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def server_bind(self) -> None:
        # HTTPServer's own looks up the host's name, which may take long
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> tuple[socket, Any]:
        """The next connection. Raises OSError if none can be accepted for now."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(ACCEPT_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread, unless there are too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError as error:
            # the connection's place is free again
            self._places.release()
            raise no_thread() from error

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that has gone, or whose time is up, is no fault."""
        if not isinstance(sys.exc_info()[1], OSError):
            log(ERROR, "fault in the admin page", trace=True)


class _ThreadingServer6(_ThreadingServer):
    address_family = AF_INET6


class Server:
    """A running admin page. `host` and `port` are the address that was bound; `close()` may be called twice."""

    def __init__(self, httpd: WSGIServer) -> None:
        self._httpd = httpd
        self.host, self.port = str(httpd.server_address[0]), int(httpd.server_address[1])
        self._thread = threading.Thread(
            target=httpd.serve_forever, args=(POLL_SECONDS,), name="admin page", daemon=True
        )
        begin(self._thread)

    def close(self) -> None:
        """Stops serving, and waits for the thread. Blocks."""
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve_admin(app: WSGIApplication, host: str, port: int) -> Server:
    """Serve `app` from a thread. Port 0: any free one.

    Raises:
        OSError: the address can't be bound.
    """
    family = AF_INET6 if ":" in host else AF_INET
    httpd = (_ThreadingServer6 if family == AF_INET6 else _ThreadingServer)((host, port), _Handler)
    httpd.set_app(app)
    return Server(httpd)
