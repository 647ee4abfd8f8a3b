"""Tests of connections without a byte: the checks of balancers and monitors. No broker is dialled for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import ProxyProtocolVersion
from proxy.config.tls import ListenerTls
from proxy.conversation import Cause
from proxy.net.sockets.proxy_protocol import encode_header
from tests.logs import keys_of
from tests.proxy.net.cluster import PING, PONG, Broker
from tests.proxy.net.peers import PATIENCE, Peer
from tests.proxy.net.proxies import Running, ended, proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.tls_clusters import tls_client
from tests.proxy.net.tls_peers import Certificates

HEADER = encode_header(ProxyProtocolVersion.TWO, None)
ENDS = pytest.mark.parametrize("ends_it", [Peer.close, Peer.reset])
# what the listener expects, and what the check sends
LISTENERS = pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, b""),
        ({"tls": True}, b""),
        ({"accept_proxy": True}, b""),
        ({"accept_proxy": True}, HEADER),
        ({"accept_proxy": True, "tls": True}, HEADER),
    ],
    ids=["plaintext", "tls", "proxy", "proxy-local", "proxy-local-tls"],
)


def chosen(broker: Broker, signed: Certificates, how: dict[str, Any]) -> Any:
    return settings(broker.address, **how | ({"tls": ListenerTls(signed.proxy)} if "tls" in how else {}))


@ENDS
@LISTENERS
async def test_a_check_is_a_probe_for_which_no_broker_is_dialled(
    how: dict[str, Any],
    said: bytes,
    ends_it: Callable[[Peer], None],
    broker: Broker,
    signed: Certificates,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with proxying(chosen(broker, signed, how)) as proxy:
        await proxy.nodes(1)
        before = broker.connections
        for _ in range(3):
            check = await proxy.client()
            await check.say(said)
            ends_it(check)
        await ended(proxy, *[Cause.PROBE] * 3)
        assert broker.connections == before
        assert [facts.upstream for _, facts in proxy.watcher.seen("opened")] == [None] * 3
        assert [cause for _, _, cause in proxy.watcher.seen("closed")] == [Cause.PROBE] * 3
        assert proxy.watcher.decisions == [{}] * 3
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_check_that_completes_a_handshake_and_says_nothing_is_a_probe(
    broker: Broker, signed: Certificates
) -> None:
    async with proxying(settings(broker.address, tls=ListenerTls(signed.proxy))) as proxy:
        check = await tls_client(proxy, signed)
        await check.stream.do_handshake()
        check.close()
        await ended(proxy, Cause.PROBE)
        assert [cause for _, _, cause in proxy.watcher.seen("closed")] == [Cause.PROBE]


async def test_a_check_shows_in_the_log_for_those_who_look(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafka-wiretap")
    async with proxying(settings(broker.address)) as proxy:
        (await proxy.client()).close()
        await ended(proxy, Cause.PROBE)
    said = [record for record in caplog.records if record.message == "connection closed"]
    assert [keys_of(record)["cause"] for record in said] == [Cause.PROBE]


async def test_the_first_bytes_of_a_client_may_come_one_by_one(broker: Broker) -> None:
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        for at in range(len(PING)):
            await client.say(PING[at : at + 1])
            await wait_all_tasks_blocked()
        await client.hears(PONG)
        client.close()
        await ended(proxy, Cause.CLIENT_CLOSED)


@pytest.mark.parametrize(("idle", "at"), [pytest.param(None, 600, marks=pytest.mark.real), (7.0, 7)])
async def test_a_client_that_says_nothing_is_idle_in_the_end(
    idle: float | None, at: float, broker: Broker, autojump_clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka-wiretap")
    async with proxying(settings(broker.address, idle_seconds=idle)) as proxy:
        client = await proxy.client()
        with trio.fail_after(2 * at):
            assert await client.stream.receive_some() == b""
        assert trio.current_time() >= at
        client.close()
        await ended(proxy, Cause.IDLE)
    (said,) = [record for record in caplog.records if record.message == "connection was idle"]
    assert keys_of(said)["setting"] == "timeouts.idle"


async def test_a_client_that_says_nothing_has_its_place_under_the_limits(broker: Broker) -> None:
    async with proxying(settings(broker.address, connection_limit=1)) as proxy:
        silent = await proxy.client()
        await opened(proxy, 1)
        await (await proxy.client()).hears_the_end()
        silent.close()
        await ended(proxy, Cause.TOO_MANY_CONNECTIONS, Cause.PROBE)


async def test_a_client_that_says_nothing_delays_no_stop(broker: Broker) -> None:
    async with proxying(settings(broker.address), drain_seconds=1e9) as proxy:
        client = await proxy.client()
        await opened(proxy, 1)
        proxy.stop()
        await proxy.ends_with(0)
        assert proxy.closes() == {Cause.DRAINED: 1}
        client.close()


async def opened(proxy: Running, connections: int) -> None:
    with trio.fail_after(PATIENCE):
        while proxy.cluster.traffic.connections_opened < connections:
            await wait_all_tasks_blocked(0.005)
