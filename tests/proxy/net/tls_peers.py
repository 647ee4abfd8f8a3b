"""Peers that speak TLS with trio's own stream, and certificates for both sides; none of the tested code."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.net.sockets.streams import Stream
from proxy.net.sockets.tls import LiveCredentials, TlsStream, cluster_credentials
from tests.certificates import Authority
from tests.proxy.net.peers import PATIENCE, Peer, connected
from tests.proxy.net.relays import settings


class TlsPeer(Peer):
    """A client or a broker that speaks TLS."""

    # trio's stream of TLS in the place of the one below: no type of trio's has what tests ask of both
    stream: Any

    def __init__(self, sock: trio.SocketStream, context: ssl.SSLContext, *, asks_for: str | None = None) -> None:
        super().__init__(sock)
        self.below = sock
        server = context.protocol is ssl.PROTOCOL_TLS_SERVER
        self.stream = trio.SSLStream(sock, context, server_side=server, server_hostname=asks_for, https_compatible=True)

    async def ends(self) -> None:
        """Sends TLS's end, but not TCP's."""
        # trio's own method would also wait for the other side's end
        with suppress(ssl.SSLWantReadError):
            self.stream._ssl_object.unwrap()
        await self.says_what_is_left()

    async def says_what_is_left(self) -> None:
        """Sends what trio's stream keeps to itself: the alert of a failed handshake."""
        with suppress(trio.BrokenResourceError):
            await self.below.send_all(self.stream._outgoing.read())

    def close(self) -> None:
        self.below.socket.close()


@dataclass(frozen=True, slots=True)
class Certificates:
    """A CA, and the certificates that it has signed."""

    ca: Authority
    proxy: Path
    client: Path
    broker: Path


def certificates(folder: Path) -> Certificates:
    ca = Authority(folder)
    proxy, client, broker = (ca.signs(name, common_name=name).path for name in ("proxy", "client", "broker"))
    return Certificates(ca, proxy, client, broker)


def client_context(ca: Authority, certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca.path)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def broker_context(certificate: Path, client_ca: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if client_ca is not None:
        context.load_verify_locations(client_ca.path)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def listening(tls: ListenerTls) -> LiveCredentials:
    """Returns the TLS context of a listener with these settings."""
    found = cluster_credentials(settings(tls=tls)).listener
    assert found is not None
    return found


def dialling(tls: UpstreamTls) -> LiveCredentials:
    """Returns the TLS context towards brokers."""
    found = cluster_credentials(settings(upstream_tls=tls)).upstream
    assert found is not None
    return found


def plain_pair(buffers: int = 0) -> tuple[Stream, trio.SocketStream]:
    one, other = connected(buffers=buffers)
    return Stream(one, "peer"), trio.SocketStream(trio.socket.from_stdlib_socket(other))


@dataclass
class Ends:
    stream: TlsStream
    peer: TlsPeer

    async def shake_hands(self) -> None:
        async with trio.open_nursery() as both:
            both.start_soon(self.stream.handshake, PATIENCE)
            both.start_soon(self.peer.stream.do_handshake)

    def close(self) -> None:
        self.stream.close()
        self.peer.close()


def client_and_proxy(
    signed: Certificates, tls: ListenerTls, context: ssl.SSLContext, name: str = "localhost", buffers: int = 0
) -> Ends:
    stream, sock = plain_pair(buffers)
    return Ends(TlsStream(stream, listening(tls)), TlsPeer(sock, context, asks_for=name))


@dataclass
class Split:
    """A client and the proxy, with the test between them."""

    stream: TlsStream
    peer: TlsPeer
    to_proxy: trio.SocketStream
    to_client: trio.SocketStream

    @classmethod
    async def begin(cls, signed: Certificates) -> Split:
        inner, to_proxy = plain_pair()
        to_client, outer = connected()
        streams = [trio.SocketStream(trio.socket.from_stdlib_socket(sock)) for sock in (to_client, outer)]
        peer = TlsPeer(streams[1], client_context(signed.ca), asks_for="localhost")
        split = cls(TlsStream(inner, listening(ListenerTls(signed.proxy))), peer, to_proxy, streams[0])
        with trio.CancelScope() as passing:
            async with trio.open_nursery() as both:
                both.start_soon(passed, to_proxy, streams[0])
                both.start_soon(passed, streams[0], to_proxy)
                both.start_soon(split.stream.handshake, PATIENCE)
                await peer.stream.do_handshake()
                await wait_all_tasks_blocked(0.01)
                passing.cancel()
        return split

    async def took(self) -> bytes:
        """Returns the client's bytes."""
        await wait_all_tasks_blocked(0.005)
        return bytes(await self.to_client.receive_some())

    async def gives(self, data: bytes) -> None:
        """Passes the bytes on to the proxy."""
        await self.to_proxy.send_all(data)

    def close(self) -> None:
        self.stream.close()
        self.peer.close()
        self.to_proxy.socket.close()
        self.to_client.socket.close()


async def passed(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    async for chunk in source:
        await sink.send_all(chunk)
