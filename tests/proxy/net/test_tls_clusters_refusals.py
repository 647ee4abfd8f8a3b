"""Tests of clients and brokers with which there is no TLS."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import Clients, ListenerTls, UpstreamTls
from tests.certificates import Authority
from tests.proxy.net.cluster import PING
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.tls_clusters import closed, reasons, shown, tls_client


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (PING, "the client speaks plaintext, and this port is for TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP, and this port is for TLS"),
        (b"\x16\x03\x01", "the peer closed the connection during the TLS handshake; this is a TLS port"),
    ],
)
async def test_a_client_without_tls_is_closed_counted_and_logged_once(plain, signed, caplog, said, reason):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        for _ in range(3):
            client = await proxy.client()
            await client.say(said)
            await client.finish()
            await client.hear_all()
            client.close()
        await closed(proxy, tls_handshake=3)
        assert reasons(caplog, "no TLS with a client") == [reason]
        assert not any(record.exc_info for record in caplog.records)
        assert proxy.watcher.seen("opened") == []


async def test_clients_of_tls_on_a_plaintext_port_are_named_in_the_log_once(plain, signed, caplog):
    async with proxying(settings(plain.address)) as proxy:
        for _ in range(3):
            client = await tls_client(proxy, signed)
            with pytest.raises(trio.BrokenResourceError):
                await client.stream.do_handshake()
            client.close()
        await closed(proxy, bad_length=3)
        assert len(reasons(caplog, "client speaks TLS, and this port is for plaintext")) == 1


async def test_a_client_that_says_nothing_is_closed_in_time(plain, signed, autojump_clock):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy), tls_seconds=3)) as proxy:
        client = await proxy.client()
        await client.hears_the_end()
        client.close()
        await closed(proxy, tls_handshake=1)


async def test_no_broker_is_dialled_for_a_refused_client(plain, signed):
    tls = ListenerTls(signed.proxy, client_ca=signed.ca.path, clients=Clients.REQUIRED)
    async with proxying(settings(plain.address, tls=tls)) as proxy:
        await proxy.nodes(1)
        before = plain.connections
        client = await tls_client(proxy, signed)
        await client.stream.do_handshake()
        with pytest.raises(trio.BrokenResourceError):
            await client.stream.receive_some()
        client.close()
        await closed(proxy, tls_handshake=1)
        assert plain.connections == before


async def test_a_stop_during_a_handshake_waits_no_longer_than_the_drain(plain, signed):
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy)), drain_seconds=0.01) as proxy:
        client = await proxy.client()
        with trio.fail_after(PATIENCE):
            while not proxy.cluster.traffic.connections_opened:
                await wait_all_tasks_blocked(0.005)
        proxy.stop()
        await proxy.ends_with(0)
        client.close()


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        (lambda signed, other: UpstreamTls(ca=other.path), "self-signed certificate in certificate chain"),
        (lambda signed, other: shown(signed, server_name="kafka.example.org"), "Hostname mismatch"),
    ],
)
async def test_a_broker_that_is_another_is_down_for_that_reason(secure, signed, tmp_path, caplog, tls, reason):
    upstream = tls(signed, Authority(tmp_path, "other"))
    async with proxying(settings(secure.address, upstream_tls=upstream)) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await client.hears_the_end()
        client.close()
        await closed(proxy, upstream_down=1)
        (said,) = reasons(caplog, "upstream is down")
        assert reason in said
