"""Lets whoever shows the token ask the live process, through the proxy's admin page. Knows neither frames nor pyarrow.

    from here   the peer is on this machine: the admin page speaks no TLS, so a token would pass in clear elsewhere
    Host        an IP address or `localhost`: a name of somebody else's that leads here (DNS rebinding) is refused
    Origin      none: no page of a browser may ask
    token       `Authorization: Bearer`, compared in constant time with the file, which is read each time

A request that does not pass gets a status, and nothing more. Whoever begins to watch is a line of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPException
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from proxy.ips import ip_of, is_own_name
from proxy.limited_files import UnusableFile
from proxy.log import log
from proxy.tokens import bearer_of, is_equal, token_of
from recorder.live.beside_proxy import Answer, NoAnswer, ask

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# the page that is asked as long as somebody looks
_WATCH = "/top/watch"


class Door:
    """A page (WSGI) that passes requests on. `socket`: that of the process; `token_file`: holds the token."""

    def __init__(self, socket: Path, token_file: Path) -> None:
        self._socket, self._token_file = socket, token_file

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        status = self._refusal(environ)
        if status is not None:
            return _refused(start, status)
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        try:
            # as one path, whatever is in it: the process reads it once more
            answer = ask(self._socket, f"{quote(path, encoding='latin-1')}?{query}")
        except (NoAnswer, ValueError):
            return _refused(start, HTTPStatus.BAD_GATEWAY)
        if path == _WATCH and answer.status == HTTPStatus.OK:
            log(INFO, "somebody watches the traffic", peer=environ.get("REMOTE_ADDR"))
        kept = [(name, value) for name, value in answer.headers if name.lower() in ("content-type", "cache-control")]
        start(f"{answer.status} {answer.reason}", kept)
        return _parts(answer)

    def _refusal(self, environ: WSGIEnvironment) -> HTTPStatus | None:
        """The status of a request that does not pass; None: it passes."""
        if not ip_of(environ["REMOTE_ADDR"]).is_loopback:
            return HTTPStatus.FORBIDDEN
        if not is_own_name(environ.get("HTTP_HOST", "")):
            return HTTPStatus.MISDIRECTED_REQUEST
        if environ.get("HTTP_ORIGIN") is not None or environ["REQUEST_METHOD"] != "GET":
            return HTTPStatus.FORBIDDEN
        try:
            token = token_of(self._token_file)
        except (UnusableFile, ValueError) as error:
            log(WARNING, "nobody can watch the traffic", token_file=self._token_file, reason=error)
            return HTTPStatus.UNAUTHORIZED
        shown = bearer_of(environ.get("HTTP_AUTHORIZATION", ""))
        return None if shown is not None and is_equal(shown, token) else HTTPStatus.UNAUTHORIZED


def _refused(start: StartResponse, status: HTTPStatus) -> list[bytes]:
    start(f"{status.value} {status.phrase}", [("Content-Length", "0")])
    return []


def _parts(answer: Answer) -> Iterator[bytes]:
    with closing(answer):
        try:
            yield from answer.parts()
        except (OSError, HTTPException):
            # the process has ended: so does the answer
            return
