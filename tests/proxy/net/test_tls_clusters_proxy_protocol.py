"""Tests of headers of the PROXY protocol before TLS, to the proxy and to brokers."""

from __future__ import annotations

import pytest
import trio

from proxy.config import ProxyProtocolVersion
from proxy.config.tls import ListenerTls
from proxy.net.sockets.proxy_protocol import ClientEndpoints, HeaderParser, encode_header
from proxy.schema.addresses import Address
from tests.proxy.net.cluster import ping
from tests.proxy.net.peers import HOST
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.tls_clusters import TlsBroker, closed, shown, tls_client
from tests.proxy.net.tls_peers import TlsPeer, broker_context, client_context


@pytest.mark.parametrize("version", [ProxyProtocolVersion.ONE, ProxyProtocolVersion.TWO])
async def test_a_balancers_header_comes_before_tls(plain, signed, version):
    endpoints = ClientEndpoints(Address("192.0.2.7", 50123), Address("198.51.100.1", 9092))
    chosen = settings(plain.address, tls=ListenerTls(signed.proxy), accept_proxy=True)
    async with proxying(chosen) as proxy:
        sock = (await proxy.client()).stream
        # the header and the first bytes of TLS in one packet
        client = TlsPeer(sock, client_context(signed.ca), asks_for=HOST)
        held = HeldBack(sock, encode_header(version, endpoints))
        client.stream.transport_stream = held
        await ping(client)
        (facts,) = (event[1] for event in proxy.watcher.seen("opened"))
        assert (facts.client, facts.tls) == (str(endpoints.client), True)


class HeldBack(trio.abc.HalfCloseableStream):
    """A stream with other bytes before its first ones."""

    def __init__(self, below: trio.SocketStream, first: bytes) -> None:
        self._below, self._first = below, first

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        first, self._first = self._first, b""
        await self._below.send_all(first + bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await self._below.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._below.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._below.send_eof()

    async def aclose(self) -> None:
        await self._below.aclose()


async def test_without_a_header_there_is_no_handshake(plain, signed, caplog):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy), accept_proxy=True)) as proxy:
        client = await tls_client(proxy, signed)
        with pytest.raises(trio.BrokenResourceError):
            await client.stream.do_handshake()
        await closed(proxy, bad_proxy_header=1)


async def test_brokers_are_sent_the_header_before_tls(nursery, signed):
    came: list[ClientEndpoints | None] = []

    class Behind(TlsBroker):
        """A balancer that ends TLS and reads headers."""

        async def _connection(self, stream: trio.abc.Stream) -> None:
            reader = HeaderParser()
            while reader.missing:
                reader.feed(bytes(await stream.receive_some(reader.missing)))
            came.append(reader.endpoints)
            await super()._connection(stream)

    broker = Behind(broker_context(signed.broker, signed.ca))
    await broker.start(nursery)
    chosen = settings(broker.address, upstream_tls=shown(signed), send_proxy=ProxyProtocolVersion.TWO)
    async with proxying(chosen) as proxy:
        await proxy.nodes(1)
        client = await proxy.client()
        await ping(client)
        own = ClientEndpoints(Address(*client.stream.socket.getsockname()), proxy.listening)
        assert came[0] is None
        # the proxy's own questions come from no client
        assert [each for each in came if each is not None] == [own]
