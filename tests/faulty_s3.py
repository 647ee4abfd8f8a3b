"""A server in front of an S3 store: passes requests on, or fails as stores and networks do.

A test says what happens to each request (`Front.fault`); what was put into the store is counted by key.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import http.server
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from urllib.parse import unquote

from tests.s3 import CREDENTIALS, Store
from tests.servers import Quiet, serving

_HOP_BY_HOP = {"expect", "connection", "transfer-encoding", "keep-alive"}
_CHECKSUM = "x-amz-checksum-sha256"
# the id of the key in a signature's field
_KEY_ID = re.compile(r"Credential=([^/]+)/")


class Fault(StrEnum):
    """What happens to a request."""

    HANG = "hang"  # it is read, and never answered
    STUCK = "stuck"  # no more of it is read than its head
    CUT = "cut"  # the connection ends within the request's body
    ANSWER_LOST = "answer_lost"  # the store does it, and the connection ends before the answer
    HALF = "half"  # the store gets half of the bytes, and says that all is well
    OTHER = "other"  # the store gets other bytes of the same number
    ECHO = "echo"  # likewise, and tells the digest of those that it was given: it checks none
    UNCHECKED = "unchecked"  # any digest is taken, and told again
    NOTHING = "nothing"  # the store gets nothing, and says that all is well
    WRONG_SIZE = "wrong_size"  # the answer tells another size than the store
    WRONG_DIGEST = "wrong_digest"  # the answer tells other digests than the store
    NO_DIGEST = "no_digest"  # the answer tells none: the store is an old one
    OLD = "old"  # a request with fields of digests is refused: the store does not know them
    ODD = "odd"  # a wrong digest is refused in words of the store's own
    SLOW = "slow"  # the bytes trickle
    ERROR = "500"
    SLOW_DOWN = "503"
    FORBIDDEN = "403"
    FULL = "507"


_CODES = {
    Fault.ERROR: "InternalError",
    Fault.SLOW_DOWN: "SlowDown",
    Fault.FORBIDDEN: "AccessDenied",
    Fault.FULL: "XMinioStorageFull",
}


def _kept(body: bytes, fault: Fault | None) -> bytes:
    """What the store gets of a request's body."""
    if fault is Fault.HALF:
        return body[: len(body) // 2]
    return body[::-1] if fault in (Fault.OTHER, Fault.ECHO) else body


class Front:
    """A running front.

    Attributes:
        fault: called with the method and key of each request; None: it is passed on.
        puts: how often the store has taken a key.
        asked: how often a method was tried on a key.
        known_key: the id of the only access key that it knows; None: it knows all.
    """

    def __init__(self, behind: Store, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}
        self.behind = behind.endpoint.removeprefix("http://")
        self.fault: Callable[[str, str], Fault | None] = lambda method, key: None
        self.puts = Counter[str]()
        self.asked = Counter[tuple[str, str]]()
        self.known_key: str | None = None
        self.goes_on = threading.Event()
        self.lock = threading.Condition()
        self._at_work = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within the block a request is answered."""
        with self.lock:
            self._at_work += 1
        try:
            yield
        finally:
            with self.lock:
                self._at_work -= 1
                self.lock.notify_all()

    def wait_until_idle(self) -> None:
        """Waits for the answers to all requests so far."""
        with self.lock:
            assert self.lock.wait_for(lambda: not self._at_work, 60)


class _Handler(Quiet, http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    front: Front

    def _handle(self) -> None:
        key = unquote(self.path.partition("?")[0].lstrip("/"))
        with self.front.lock:
            self.front.asked[self.command, key] += 1
            fault = self.front.fault(self.command, key)
        with suppress(ConnectionError, TimeoutError), self.front.working():
            self._answer(key, fault)

    do_GET = do_PUT = do_HEAD = do_POST = _handle  # noqa: N815

    def _answer(self, key: str, fault: Fault | None) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if fault is Fault.CUT:
            self.rfile.read(size // 2)
            self._hang_up()
            return
        if fault is Fault.STUCK:
            self.front.goes_on.wait()
            self._hang_up()
            return
        body = b"".join(self._pieces(size, 512 if fault is Fault.SLOW else size or 1))
        if fault is Fault.HANG:
            self.front.goes_on.wait()
            self._hang_up()
            return
        if fault is Fault.OLD and any("checksum" in name.lower() for name in self.headers):
            self._send(501, {}, b"")
            return
        if fault in _CODES:
            self._refuse(int(fault), _CODES[fault])
            return
        if self.front.known_key not in (None, *_KEY_ID.findall(self.headers.get("Authorization", ""))):
            self._refuse(403, "InvalidAccessKeyId")
            return
        told = self.headers.get(_CHECKSUM)
        is_wrong = told is not None and told != base64.b64encode(hashlib.sha256(body).digest()).decode()
        # moto checks no digests, and tells what it was told
        if is_wrong and fault not in (Fault.ECHO, Fault.UNCHECKED):
            self._refuse(400, "OddDigest" if fault is Fault.ODD else "BadDigest")
            return
        if fault is Fault.NOTHING and self.command == "PUT":
            self._send(200, {}, b"")
            return
        status, headers, content = self._pass_on(_kept(body, fault), fault)
        if self.command == "PUT" and status == 200:
            with self.front.lock:
                self.front.puts[key] += 1
        if fault is Fault.ANSWER_LOST:
            self._hang_up()
            return
        if fault is Fault.WRONG_DIGEST:
            headers = {name: '"0"' if name.lower() == "etag" else value for name, value in headers.items()}
            headers |= {name: "A" * 43 + "=" for name in headers if name.lower() == _CHECKSUM}
        if fault is Fault.WRONG_SIZE:
            headers = {name: "7" if name.lower() == "content-length" else value for name, value in headers.items()}
        if fault is Fault.NO_DIGEST:
            headers = {name: value for name, value in headers.items() if "checksum" not in name.lower()}
        self._send(status, headers, content)

    def _refuse(self, status: int, code: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self._send(status, {"Content-Type": "application/xml"}, text)

    def _pieces(self, size: int, each: int) -> Iterator[bytes]:
        while size and (piece := self.rfile.read(min(each, size))):
            size -= len(piece)
            yield piece

    def _pass_on(self, body: bytes, fault: Fault | None) -> tuple[int, dict[str, str], bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        if fault in (Fault.HALF, Fault.OTHER):
            headers = {name: value for name, value in headers.items() if name.lower() != _CHECKSUM}
            headers["Content-Length"] = str(len(body))
        connection = http.client.HTTPConnection(self.front.behind)
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        length = headers.get("Content-Length", str(len(content))) if self.command == "HEAD" else str(len(content))
        for name, value in {**headers, "Content-Length": length}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _hang_up(self) -> None:
        self.close_connection = True


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def front(behind: Store) -> Iterator[Front]:
    """A front before a store, within the block."""

    class Handler(_Handler):
        pass

    server = _Server(("127.0.0.1", 0), Handler)
    Handler.front = opened = Front(behind, server.server_address[1])
    with serving(server):
        try:
            yield opened
        finally:
            opened.goes_on.set()
