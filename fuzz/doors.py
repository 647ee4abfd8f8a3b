"""Checks of the bytes before a first request: PROXY headers, TLS handshakes, names; and of the admin page.

Only the declared errors are raised, no more bytes are taken than announced, and a header that was read can be written.
"""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from functools import cache, partial
from io import StringIO
from typing import Any

import trio
from prometheus_client import CollectorRegistry

from fuzz import corpus
from fuzz.findings import must, same
from proxy.config import ProxyProtocolVersion
from proxy.limited_server import ThreadingServer
from proxy.mapping.names import SniMap
from proxy.metrics.admin import admin_app
from proxy.net.sockets.proxy_protocol import SIGNATURE, ClientEndpoints, HeaderParser, Malformed, encode_header
from proxy.net.sockets.streams import NothingSent, Stream
from proxy.net.sockets.tls import NoHandshake, TlsStream
from proxy.schema.addresses import Address, undotted
from proxy.tls import contexts
from proxy.tls.subject import subject

NAMES = SniMap(Address("0.0.0.0", 9093), "b{node_id}.proxy.test:9093", "boot.proxy.test")
# a header of version 2: what stands before the length, and the longest rest
MAX_HEADER = 16 + 0xFFFF
# of an answer to garbage
STATUSES = (200, 400, 404, 405, 414, 431, 501, 505)


def greeting(data: bytes) -> None:
    """The largest piece, then a PROXY header and what is behind it."""
    if not data:
        return
    reader, at = HeaderParser(), 1
    with suppress(Malformed):
        while reader.missing and at < len(data):
            must(reader.missing > 0 and at + reader.missing <= 1 + MAX_HEADER, f"{reader.missing} bytes are awaited")
            piece = data[at : at + min(reader.missing, 1 + data[0])]
            reader.feed(piece)
            at += len(piece)
        if not reader.missing:
            _written_again(reader.endpoints)


def _written_again(endpoints: ClientEndpoints | None) -> None:
    for version in (ProxyProtocolVersion.ONE, ProxyProtocolVersion.TWO):
        again = HeaderParser()
        again.feed(encode_header(version, endpoints))
        same((again.missing, again.endpoints), (0, endpoints), f"a header of version {version}")


def name(data: bytes) -> None:
    """A server name that a client asks for."""
    text = data.decode("latin-1")
    with suppress(ValueError):
        node_id = NAMES.requested_node(None, text)
        told = "boot.proxy.test" if node_id is None else NAMES.advertised(node_id, None).host
        same(undotted(text).lower(), told, "a name and whose it is")


def certificate(data: bytes) -> None:
    """A client's certificate."""
    subject(data)


def hello(data: bytes) -> None:
    """The first bytes of a TLS handshake, of which the last is followed by the end of the connection."""
    with _nothing_said():
        trio.run(_greeted, data)


async def _greeted(data: bytes) -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(data[:60_000])
        one.shutdown(socket.SHUT_WR)
        stream = TlsStream(Stream(other, "client"), _Anonymous())  # type: ignore[arg-type]
        try:
            await stream.handshake(10)
        except (NoHandshake, NothingSent) as error:
            must(str(error).isprintable(), "a reason that can be printed")
        else:
            must(False, "nobody comes to speak TLS with a proxy that has no certificate")
        finally:
            stream.close()


class _Anonymous:
    """Credentials without a certificate: a handshake goes no further than the client's first words."""

    @property
    def context(self) -> ssl.SSLContext:
        return _context()

    async def refresh(self) -> None:
        """There is no file."""


@cache
def _context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.sslobject_class = contexts.ServerNameObject
    made.sni_callback = partial(contexts._on_server_name, NAMES)
    return made


def page(data: bytes) -> None:
    """A request to the admin page."""
    one, other = socket.socketpair()
    with one, other, _nothing_said():
        one.settimeout(10)
        one.sendall(data[:60_000])
        one.shutdown(socket.SHUT_WR)
        server = _server()
        try:
            server.RequestHandlerClass(other, ("127.0.0.1", 1), server)
        except OSError:
            return
        other.shutdown(socket.SHUT_WR)
        answer = one.recv(4096)
    if answer.startswith(b"HTTP/"):
        must(int(answer.split(None, 2)[1]) in STATUSES, f"an answer to garbage: {answer[:80]!r}")


@cache
def _server() -> Any:
    """The admin page's server, which accepts nobody."""
    app = admin_app(CollectorRegistry(), lambda: (True, "ready"), lambda: (True, "alive"))
    return ThreadingServer(app, ("127.0.0.1", 0), "admin page")


@contextmanager
def _nothing_said() -> Iterator[None]:
    """Nothing is printed, and Python has no exception left over."""
    unraisable: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        with redirect_stderr(StringIO()) as said:
            yield
    finally:
        sys.unraisablehook = before
    must(not said.getvalue(), f"something is said: {said.getvalue()!r}")
    # the name that a client asks for is decoded by Python itself, which tells nobody else when it is no text
    others = [one for one in unraisable if not contexts.is_bad_server_name(one)]
    must(not others, f"something is raised: {others!r}")


def inputs() -> Iterator[corpus.Input]:
    """To start from."""
    endpoints = ClientEndpoints(Address("192.0.2.1", 56324), Address("198.51.100.1", 9092))
    six = ClientEndpoints(Address("2001:db8::1", 1), Address("2001:db8::2", 65535))
    for number, one in enumerate((None, endpoints, six)):
        for version in (ProxyProtocolVersion.ONE, ProxyProtocolVersion.TWO):
            yield corpus.Input(
                "greeting", f"{version.value}-{number}", b"\xff" + encode_header(version, one) + b"\0\0\0\x0c"
            )
    unix = SIGNATURE + b"\x21\x31\0\xd8" + b"/tmp/a".ljust(216, b"\0")
    yield corpus.Input("greeting", "unix", b"\7" + unix)
    names = (b"boot.proxy.test", b"b17.proxy.test", b"B2147483647.PROXY.TEST", b"b-1.proxy.test", b"b17.proxy.test.")
    for number, text in enumerate(names):
        yield corpus.Input("name", str(number), text)
        yield corpus.Input("hello", str(number), client_hello(text))
    yield corpus.Input("hello", "no text", client_hello(b"boot.proxy.test").replace(b"boot", b"b\xff\xfet"))
    yield corpus.Input("certificate", "short", _DER)
    for number, request in enumerate(_REQUESTS):
        yield corpus.Input("page", str(number), request)


def client_hello(server_name: bytes) -> bytes:
    """As OpenSSL makes it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=server_name.decode()).do_handshake()
    return outgoing.read()


# the fields of a certificate up to its subject, CN=client
_DER = bytes.fromhex("30213022a00302010202010130000600300030003011310f300d06035504030c06636c69656e74")
_REQUESTS = (
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n"
    b"Accept-Encoding: gzip\r\n\r\n",
    b"GET /metrics?name[]=process_cpu_seconds_total HTTP/1.0\r\n\r\n",
    b"HEAD /livez HTTP/1.1\r\nExpect: 100-continue\r\nConnection: keep-alive\r\n\r\n",
    b"POST /readyz HTTP/1.1\r\nContent-Length: 99999999999\r\nTransfer-Encoding: chunked\r\n\r\nbody",
    b"GET http://[::1/%ff%00 HTTP/9.9\r\n\r\n",
    b"GET /\r\n",
    b"\0\0\0\x0c\0\3\0\0\0\0\0\1\xff\xff\0\0",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 300 + b"\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)

CHECKS: dict[str, Callable[[bytes], None]] = {
    "greeting": greeting,
    "name": name,
    "hello": hello,
    "certificate": certificate,
    "page": page,
}
