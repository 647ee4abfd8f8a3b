"""Answers requests over a Unix socket, in threads: HTTP by the standard library, for processes of this user alone.

The socket lies in a folder that only its owner can enter. Whoever may connect may ask everything: tokens, hosts and
origins are checked by the proxy's admin page, which passes requests on (`recorder.live.beside_proxy`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from socketserver import UnixStreamServer
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler

from proxy.limited_server import LimitedThreads
from proxy.threads import start_thread

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# the longest that a part of a request or a response may take
PATIENCE_SECONDS = 30.0


def pages_app(pages: Mapping[str, WSGIApplication]) -> WSGIApplication:
    """Passes a request on to the page that the first name of its path names. The page sees the rest of the path."""

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        name, _, rest = environ["PATH_INFO"].removeprefix("/").partition("/")
        page = pages.get(name)
        if page is None:
            start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"there is no such page\n"]
        moved = {"SCRIPT_NAME": f"{environ.get('SCRIPT_NAME', '')}/{name}", "PATH_INFO": f"/{rest}"}
        return page(environ | moved, start)

    return app


class _Response(ServerHandler):
    server_software = "kafka-wiretap"

    def log_exception(self, exc_info: Any) -> None:
        """Lets the peer's absence pass in silence; the server's own faults go to standard error."""
        if not isinstance(exc_info[1], OSError):
            super().log_exception(exc_info)


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_SECONDS

    def handle(self) -> None:
        """Serves one request."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            return
        answer = _Response(self.rfile, self.wfile, self.get_stderr(), self.get_environ(), multithread=True)  # type: ignore[arg-type]
        # ServerHandler finds the server only by this attribute
        answer.request_handler = self  # type: ignore[attr-defined]
        answer.run(self.server.app)  # type: ignore[attr-defined]

    def address_string(self) -> str:
        """A Unix socket's peer has no address."""
        return "local"

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


class _UnixServer(LimitedThreads, UnixStreamServer):
    def __init__(self, path: str, app: WSGIApplication) -> None:
        self.app = app
        self.base_environ = {
            "SERVER_NAME": "local",
            "SERVER_PORT": "0",
            "SCRIPT_NAME": "",
            "GATEWAY_INTERFACE": "CGI/1.1",
        }
        super().__init__(path, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a request in a thread; closes it if there are too many."""
        # the handler names its peer by the first element
        super().process_request(request, ("local", 0))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says what is wrong, unless the peer has gone."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Server:
    """A running server on a Unix socket of mode 0600. `close` may be called twice."""

    def __init__(self, path: Path, app: WSGIApplication) -> None:
        with suppress(FileNotFoundError):
            # of a process that was killed
            path.unlink()
        self._path = path
        self._server = _UnixServer(str(path), app)
        path.chmod(0o600)
        self._thread = start_thread(lambda: self._server.serve_forever(0.2), "live server")

    def close(self) -> None:
        """Stops serving, and removes the socket."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        with suppress(FileNotFoundError):
            self._path.unlink()
