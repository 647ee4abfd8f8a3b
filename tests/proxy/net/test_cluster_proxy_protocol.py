"""Tests of headers of the PROXY protocol: for whom a balancer connects."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import Others, ProxyProtocolVersion
from proxy.conversation import Cause
from proxy.net.sockets.proxy_protocol import ClientEndpoints, HeaderParser, encode_header
from proxy.schema.addresses import NETWORKS, Address
from tests.proxy.net.cluster import PING, PONG, Broker, ping
from tests.proxy.net.peers import HOST, PATIENCE, Peer
from tests.proxy.net.proxies import Running, ended, proxying
from tests.proxy.net.relays import settings

CLIENT = Address("192.0.2.7", 50123)
ENDPOINTS = ClientEndpoints(CLIENT, Address("198.51.100.1", 9092))
BOTH = pytest.mark.parametrize("version", [ProxyProtocolVersion.ONE, ProxyProtocolVersion.TWO])


def opened(proxy: Running) -> list[Any]:
    return [facts for _, facts in proxy.watcher.seen("opened")]


@BOTH
async def test_the_client_is_the_headers_source(version: ProxyProtocolVersion, broker: Broker, caplog):
    caplog.set_level(logging.DEBUG)
    async with proxying(settings(broker.address, accept_proxy=True)) as proxy:
        client = await proxy.client()
        await client.say(encode_header(version, ENDPOINTS), PING)
        await client.hears(PONG)
        assert [facts.client for facts in opened(proxy)] == [str(CLIENT)]
        client.close()
        await ended(proxy, Cause.CLIENT_CLOSED)
    (record,) = [record for record in caplog.records if record.message == "connection closed"]
    assert record.keys["client"] == str(CLIENT)


@BOTH
async def test_a_balancers_own_connection_is_served_under_its_own_address(
    version: ProxyProtocolVersion, broker: Broker
):
    async with proxying(settings(broker.address, accept_proxy=True)) as proxy:
        client = await proxy.client()
        await client.say(encode_header(version, None), PING)
        await client.hears(PONG)
        (facts,) = opened(proxy)
        assert facts.client == f"{HOST}:{client.stream.socket.getsockname()[1]}"


async def test_the_nodes_listeners_expect_a_header_too(broker: Broker):
    async with proxying(settings(broker.address, accept_proxy=True)) as proxy:
        await proxy.nodes(1)
        client = await proxy.client(1)
        await client.say(encode_header(ProxyProtocolVersion.TWO, ENDPOINTS), PING)
        await client.hears(PONG)


async def test_a_client_without_a_header_is_refused_before_a_broker_is_dialled(broker: Broker, caplog):
    async with proxying(settings(broker.address, accept_proxy=True)) as proxy:
        await proxy.nodes(1)
        before = broker.connections
        for _ in range(3):
            client = await proxy.client()
            await client.say(PING)
            assert await _end_of(client) == b""
        await ended(proxy, *[Cause.BAD_PROXY_HEADER] * 3)
        assert broker.connections == before
    assert [one.message for one in caplog.records].count("no header of the PROXY protocol") == 1
    assert not any(record.exc_info for record in caplog.records)


async def _end_of(client: Peer) -> bytes:
    """Returns the bytes before the end, which may be a reset."""
    try:
        return await client.hear_all()
    except trio.BrokenResourceError:
        return b""


async def test_a_missing_header_is_waited_for_until_its_timeout(broker: Broker):
    async with proxying(settings(broker.address, accept_proxy=True, header_seconds=0.05)) as proxy:
        client = await proxy.client()
        await client.say(encode_header(ProxyProtocolVersion.TWO, ENDPOINTS)[:-1])
        # on a busy machine, the time is over before the bytes have arrived
        assert await _end_of(client) == b""
        await ended(proxy, Cause.BAD_PROXY_HEADER)


TRUSTED = {"accept_proxy": True, "trusted": NETWORKS.read([HOST])}
STRANGERS = {"accept_proxy": True, "trusted": NETWORKS.read(["192.0.2.0/24"])}


async def test_a_header_is_believed_from_a_balancer_that_is_trusted(broker: Broker):
    async with proxying(settings(broker.address, **TRUSTED)) as proxy:
        client = await proxy.client()
        await client.say(encode_header(ProxyProtocolVersion.TWO, ENDPOINTS), PING)
        await client.hears(PONG)
        assert [facts.client for facts in opened(proxy)] == [str(CLIENT)]


@pytest.mark.parametrize("said", [b"", PING, encode_header(ProxyProtocolVersion.TWO, ENDPOINTS)])
async def test_a_peer_that_is_no_trusted_balancer_is_refused(said: bytes, broker: Broker, caplog):
    async with proxying(settings(broker.address, **STRANGERS, header_seconds=3600)) as proxy:
        for _ in range(3):
            client = await proxy.client()
            await client.say(said)
            assert await _end_of(client) == b""
        await ended(proxy, *[Cause.UNTRUSTED] * 3)
        assert opened(proxy) == []
    assert [one.message for one in caplog.records].count("client is no trusted load balancer") == 1


async def test_an_untrusted_peer_may_speak_without_a_header_if_others_is_plain(broker: Broker):
    """A header that it sends all the same is no frame."""
    async with proxying(settings(broker.address, **STRANGERS, others=Others.PLAIN)) as proxy:
        client = await proxy.client()
        await ping(client)
        assert [facts.client for facts in opened(proxy)] == [f"{HOST}:{client.stream.socket.getsockname()[1]}"]
        liar = await proxy.client()
        await liar.say(encode_header(ProxyProtocolVersion.ONE, ENDPOINTS), PING)
        assert await _end_of(liar) == b""
        await ended(proxy, Cause.BAD_LENGTH)
        client.close()


@pytest.mark.parametrize("said", [b"", encode_header(ProxyProtocolVersion.TWO, ENDPOINTS)[:-1]])
async def test_a_connection_that_waits_for_a_header_does_not_delay_a_stop(said: bytes, broker: Broker):
    async with proxying(settings(broker.address, accept_proxy=True, header_seconds=3600), drain_seconds=3600) as proxy:
        client = await proxy.client()
        await client.say(said)
        with trio.fail_after(PATIENCE):
            while not proxy.cluster._entering:
                await wait_all_tasks_blocked(0.005)
        proxy.stop()
        await proxy.ends_with(0)
        assert proxy.closes() == {"drained": 1}
        client.close()


async def test_a_probe_of_the_listener_is_no_fault(broker: Broker):
    async with proxying(settings(broker.address, accept_proxy=True)) as proxy:
        (await proxy.client()).close()
        await ended(proxy, Cause.PROBE)
        (await proxy.client()).reset()
        await ended(proxy, *[Cause.PROBE] * 2)


async def test_a_limit_for_each_address_is_for_the_clients_behind_a_balancer(broker: Broker):
    async with proxying(settings(broker.address, accept_proxy=True, address_limit=1)) as proxy:
        one, two, one_again = [await proxy.client() for _ in range(3)]
        for client, number in ((one, 1), (two, 2), (one_again, 1)):
            await client.say(
                encode_header(ProxyProtocolVersion.TWO, ClientEndpoints(Address(f"192.0.2.{number}", 1), CLIENT))
            )
            if client is not one_again:
                await ping(client)
        await one_again.hears_the_end()
        await ended(proxy, Cause.TOO_MANY_CONNECTIONS)


@pytest.fixture
async def header_reading_broker(nursery: trio.Nursery) -> tuple[Address, list[tuple[ClientEndpoints | None, bytes]]]:
    """A broker behind a program that reads headers: its address, the headers, and the bytes after them."""
    came: list[tuple[ClientEndpoints | None, bytes]] = []

    async def serve(stream: trio.SocketStream) -> None:
        reader = HeaderParser()
        while reader.missing:
            reader.feed(await stream.receive_some(reader.missing))
        came.append((reader.endpoints, await stream.receive_some()))

    listeners = await nursery.start(
        trio.serve_tcp,
        serve,
        0,
    )
    return Address(HOST, listeners[0].socket.getsockname()[1]), came


@BOTH
@pytest.mark.parametrize("accepts", [False, True])
async def test_brokers_are_sent_the_client_first(accepts: bool, version: ProxyProtocolVersion, header_reading_broker):
    address, came = header_reading_broker
    async with proxying(settings(address, send_proxy=version, accept_proxy=accepts)) as proxy:
        client = await proxy.client()
        await client.say(*([encode_header(ProxyProtocolVersion.ONE, ENDPOINTS)] if accepts else []), PING)
        await client.hears_the_end()
        own = ClientEndpoints(Address(*client.stream.socket.getsockname()), proxy.listening)
    # the proxy's own query has no client
    assert {endpoints for endpoints, _ in came} == {None, ENDPOINTS if accepts else own}
    assert {after_header for endpoints, after_header in came if endpoints} == {PING}
