"""Tests of whole proxies with TLS on either side or both."""

from __future__ import annotations

from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import ListenerTls
from proxy.wire.dialects import Dialect
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.script import request, response
from tests.proxy.net.cluster import PING, PONG, Broker, ping
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.tls_clusters import closed, shown, tls_client

LARGE = 5 * 1024 * 1024


class MuteBroker(Broker):
    """A broker that never answers. `heard`: the bytes of each connection that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bytes] = []

    async def _converse(self, stream: trio.abc.Stream) -> None:
        heard = b""
        async for chunk in stream:
            heard += chunk
        self.heard.append(heard)


async def test_clients_speak_tls_and_brokers_do_not(plain, signed):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        await proxy.nodes(1)
        for node_id in (None, 1):
            client = await tls_client(proxy, signed, node_id)
            await ping(client)
            await client.ends()
        await closed(proxy, client_closed=2)
        facts = [event[1] for event in proxy.watcher.seen("opened")]
        assert [(one.tls, one.principal) for one in facts] == [(True, None)] * 2


async def test_tls_is_no_matter_of_the_dialect(secure, signed):
    fetch = framed(b"\0\1" + bytes(6))
    both: dict[str, Any] = {"tls": ListenerTls(signed.proxy), "upstream_tls": shown(signed)}
    async with proxying(settings(secure.address, dialect=Dialect.KAFKA_07, **both)) as proxy:
        client = await tls_client(proxy, signed)
        await client.say(fetch)
        await client.hears(PONG[:4] + bytes(4) + PONG[8:])
        await client.ends()
        await closed(proxy, client_closed=1)


async def test_brokers_speak_tls_and_clients_do_not(secure, signed):
    """The proxy's own query uses TLS too."""
    async with proxying(settings(secure.address, upstream_tls=shown(signed))) as proxy:
        await proxy.nodes(1)
        for node_id in (None, 1):
            client = await proxy.client(node_id)
            await ping(client)
            await client.finish()
            await client.hears_the_end()
        await closed(proxy, client_closed=2)
        assert not any(event[1].tls for event in proxy.watcher.seen("opened"))


async def test_both_speak_tls_and_show_certificates(secure, signed):
    tls = ListenerTls(signed.proxy, client_ca=signed.ca.path)
    async with proxying(settings(secure.address, tls=tls, upstream_tls=shown(signed))) as proxy:
        client = await tls_client(proxy, signed, certificate=signed.client)
        await ping(client)
        (facts,) = [event[1] for event in proxy.watcher.seen("opened")]
        assert facts.principal.startswith("CN=client,")
        client.close()


async def test_frames_longer_than_records_pass_both_ways(secure, signed):
    async def echo(key: int, version: int, correlation_id: int) -> bytes:
        return response(correlation_id, b"y" * LARGE)

    secure.answer = echo
    async with proxying(settings(secure.address, tls=ListenerTls(signed.proxy), upstream_tls=shown(signed))) as proxy:
        client = await tls_client(proxy, signed)
        async with trio.open_nursery() as both:
            both.start_soon(client.say, request(HEARTBEAT, 3, 1, b"x" * LARGE))
            assert (await client.hear_frame())[4:] == b"y" * LARGE
        assert secure.frames[-1].endswith(b"x" * LARGE)
        client.close()


async def test_the_broker_learns_of_a_clients_end_at_once_and_after_what_it_sent(signed, nursery):
    """The end is not held until the broker has answered; a plaintext client's end would be held for 30 s."""
    broker = MuteBroker()
    await broker.start(nursery)
    async with proxying(settings(broker.address, tls=ListenerTls(signed.proxy))) as proxy:
        client = await tls_client(proxy, signed)
        await client.say(PING)
        await client.ends()
        with trio.fail_after(PATIENCE):
            while PING not in broker.heard:
                await wait_all_tasks_blocked(0.005)
        await closed(proxy, client_closed=1)
        client.close()


async def test_a_stop_lets_what_is_in_flight_be_answered_and_says_the_end(plain, signed):
    asked, go_on = trio.Event(), trio.Event()

    async def late(key: int, version: int, correlation_id: int) -> bytes:
        asked.set()
        await go_on.wait()
        return PONG

    plain.answer = late
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        client = await tls_client(proxy, signed)
        client.stream._https_compatible = False
        await client.say(PING)
        await asked.wait()
        proxy.stop()
        go_on.set()
        await client.hears(PONG)
        await client.hears_the_end()
        client.close()
        await proxy.ends_with(0)
        assert proxy.closes() == {"drained": 1}
