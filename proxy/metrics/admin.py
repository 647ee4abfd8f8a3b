"""The admin page: /metrics for Prometheus, /livez and /readyz for the program that supervises the proxy.

The standard library's HTTP server serves it in threads: a scrape takes milliseconds that the event loop lacks. Peers
may be hostile, so the number of connections, the size of a request and its time are limited. An error that a peer
causes is not logged.
"""

from __future__ import annotations

import gzip
import io
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import ERROR
from socket import AF_INET, AF_INET6, socket
from socketserver import TCPServer
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import choose_encoder, gzip_accepted

from proxy.limited_server import LimitedThreads
from proxy.log import log
from proxy.metrics.rendering import END, OPENMETRICS, renderer
from proxy.threads import begin

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# the longest that a request may take to arrive; also the longest that a part of the response may take to be sent
PATIENCE_SECONDS = 10.0
# the most bytes of a request; Prometheus sends 300
MAX_BYTES = 16 * 1024

# how often the server checks whether `close` was called, in seconds
POLL_SECONDS = 0.2

# returns whether the proxy is well, and a line of text that says why; called in the page's threads
Probe = Callable[[], tuple[bool, str]]


# metrics that another process makes, as text in the format that a header Accept asks for: "" or OPENMETRICS
MoreMetrics = Callable[[str], bytes]


def admin_app(
    registry: CollectorRegistry,
    ready: Probe,
    alive: Probe,
    more: Sequence[MoreMetrics] = (),
    doors: Mapping[str, WSGIApplication] = MappingProxyType({}),
) -> WSGIApplication:
    """Returns the WSGI application of the admin page. Other paths than its three are a 404.

    Args:
        ready: the probe of /readyz: can the proxy serve clients?
        alive: the probe of /livez: does the proxy run at all?
        more: metrics that stand behind those of the registry, unless a scrape asks for some names only.
        doors: by the first name of a path, an application that gets the rest of it as PATH_INFO.
    """
    metrics = _tolerant(_MetricsPage(registry, more))

    pages: dict[str, WSGIApplication] = {"/metrics": metrics, "/livez": _probed(alive), "/readyz": _probed(ready)}

    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        name, slash, rest = environ["PATH_INFO"].removeprefix("/").partition("/")
        if slash and name in doors:
            return doors[name]({**environ, "SCRIPT_NAME": f"/{name}", "PATH_INFO": f"/{rest}"}, start)
        return pages.get(environ["PATH_INFO"], _not_found)(environ, start)

    return page


class _MetricsPage:
    """The metrics page: the registry's families, and behind them the texts of other processes.

    Scrapes of some names only (`?name[]=`), and what is no GET, are left to prometheus-client.
    """

    def __init__(self, registry: CollectorRegistry, more: Sequence[MoreMetrics]) -> None:
        self._registry, self._more = registry, more
        self._others: WSGIApplication = make_wsgi_app(registry)
        self._open, self._plain = renderer(is_open=True), renderer(is_open=False)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "GET" or "name[]" in environ.get("QUERY_STRING", ""):
            return self._others(environ, start)
        _, content_type = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        is_open = content_type.startswith(OPENMETRICS)
        # before the registry's, which tell how old they are
        texts = [text(OPENMETRICS if is_open else "") for text in self._more]
        own = (self._open if is_open else self._plain).text(self._registry.collect())
        body = b"".join([own, *texts, END.encode() * is_open])
        headers = [("Content-Type", content_type)]
        if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            # names repeat: a higher level takes several times as long for little
            body, headers = gzip.compress(body, 1), [*headers, ("Content-Encoding", "gzip")]
        start("200 OK", [*headers, ("Content-Length", str(len(body)))])
        return [body]


def _tolerant(metrics: WSGIApplication) -> WSGIApplication:
    """The metrics page; if prometheus-client can't parse a request's headers, the page without regard to them."""

    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        try:
            return metrics(environ, start)
        except (TypeError, ValueError):
            return metrics({**environ, "HTTP_ACCEPT": "", "HTTP_ACCEPT_ENCODING": "", "QUERY_STRING": ""}, start)

    return page


def _probed(probe: Probe) -> WSGIApplication:
    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        is_well, line = probe()
        return _text(start, "200 OK" if is_well else "503 Service Unavailable", line)

    return page


def _not_found(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    return _text(start, "404 Not Found", "try /metrics, /livez or /readyz")


def _text(start: StartResponse, status: str, line: str) -> Iterable[bytes]:
    body = " ".join(line.split()).encode() + b"\n"
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]


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
        if not isinstance(exc_info[1], OSError):
            log(ERROR, "fault in the admin page", trace=True)


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Request(self.connection, time.monotonic() + PATIENCE_SECONDS))

    def handle(self) -> None:
        """Serves one request. Raises OSError: the peer has gone, or took too long."""
        self.raw_requestline = self.rfile.readline(MAX_BYTES)
        if not self.raw_requestline or not self.parse_request():
            return
        self.connection.settimeout(PATIENCE_SECONDS)
        answer = _Response(self.rfile, self.wfile, sys.stderr, self.get_environ())  # type: ignore[arg-type]
        # ServerHandler finds the server only by this attribute
        answer.request_handler = self  # type: ignore[attr-defined]
        answer.run(self.server.get_app())  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: scrapes come every few seconds."""


class _ThreadingServer(LimitedThreads, WSGIServer):
    def server_bind(self) -> None:
        # HTTPServer's method looks up the host's name, which may take long
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs an error, unless the peer has gone or took too long."""
        if not isinstance(sys.exc_info()[1], OSError):
            log(ERROR, "fault in the admin page", trace=True)


class _ThreadingServer6(_ThreadingServer):
    address_family = AF_INET6


class Server:
    """A running admin page. `host`, `port`: the address that was bound. `close` may be called twice."""

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
    """Serves `app` in threads until `Server.close`. Port 0: any free one.

    Raises:
        OSError: the address can't be bound, or no thread can be started.
    """
    family = AF_INET6 if ":" in host else AF_INET
    httpd = (_ThreadingServer6 if family == AF_INET6 else _ThreadingServer)((host, port), _Handler)
    httpd.set_app(app)
    return Server(httpd)
