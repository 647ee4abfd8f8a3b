"""The admin page: /metrics for Prometheus, /livez and /readyz for whoever starts and restarts the proxy.

Served by the standard library in a thread of its own: a scrape takes milliseconds that the event loop lacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from socket import AF_INET, AF_INET6
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import TYPE_CHECKING, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# a peer that sends nothing may hold a thread no longer than this
IDLE_SECONDS = 10

# how long close() may have to wait
POLL_SECONDS = 0.2

# whether it is so, and in one line of text why (not); called in the page's thread
Probe = Callable[[], tuple[bool, str]]


def admin_app(registry: CollectorRegistry, ready: Probe, alive: Probe) -> WSGIApplication:
    """A WSGI application of /metrics, /livez and /readyz; anything else is a 404.

    Args:
        ready: whether the proxy can serve.
        alive: whether it does anything at all.
    """
    metrics = make_wsgi_app(registry)

    pages: dict[str, WSGIApplication] = {"/metrics": metrics, "/livez": _probed(alive), "/readyz": _probed(ready)}

    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return pages.get(environ["PATH_INFO"], _not_found)(environ, start)

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


class _QuietHandler(WSGIRequestHandler):
    timeout = IDLE_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes come every few seconds: nobody wants them in the log."""


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        # HTTPServer's own would ask the name service who we are, and may wait long for it
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


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
        self._thread.start()

    def close(self) -> None:
        """Stops serving, and waits for the thread. Blocks."""
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve_admin(app: WSGIApplication, host: str, port: int) -> Server:
    """Serve `app` from a thread. Port 0: any free one.

    Raises:
        OSError: the address can't be bound.
    """
    family = AF_INET6 if ":" in host else AF_INET
    httpd = (_ThreadingServer6 if family == AF_INET6 else _ThreadingServer)((host, port), _QuietHandler)
    httpd.set_app(app)
    return Server(httpd)
