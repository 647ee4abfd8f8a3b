"""Tests of certificates and settings of TLS that change while the proxy runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import MappingKind
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.mapping.nodes import Node
from proxy.net.reloading import ReloadedSettings
from proxy.wire.keys import METADATA
from tests.proxy.net.cluster import Broker, ping
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import settings, whole
from tests.proxy.net.tls_clusters import TlsBroker, reasons, tls_client
from tests.proxy.net.tls_peers import broker_context, certificates


async def test_connections_live_on_while_certificates_change(plain, tmp_path):
    signed = certificates(tmp_path)
    async with proxying(settings(plain.address, tls=ListenerTls(signed.proxy))) as proxy:
        old = await tls_client(proxy, signed)
        await ping(old)
        signed.ca.signs("proxy", common_name="the new one")
        new = await tls_client(proxy, signed)
        await ping(new)
        signed.proxy.write_text("broken")
        newest = await tls_client(proxy, signed)
        for client in (old, new, newest):
            await ping(client)
        names = [dict(pair for (pair,) in client.stream.getpeercert()["subject"]) for client in (old, new, newest)]
        assert [name["commonName"] for name in names] == ["proxy", "the new one", "the new one"]
        for client in (old, new, newest):
            client.close()


async def test_other_files_are_taken_for_new_connections_when_settings_are_read_again(plain, tmp_path):
    """Certificates of both sides change: clients and brokers of the old CA are then refused."""
    (tmp_path / "other").mkdir()
    signed, other = certificates(tmp_path), certificates(tmp_path / "other")
    secure = TlsBroker(broker_context(signed.broker, signed.ca))
    tls = ListenerTls(signed.proxy, client_ca=signed.ca.path)
    before = settings(plain.address, tls=tls, upstream_tls=UpstreamTls(ca=signed.ca.path, certificate=signed.proxy))
    new = replace(
        before,
        tls=ListenerTls(other.proxy, client_ca=other.ca.path),
        upstream_tls=UpstreamTls(ca=other.ca.path, certificate=other.proxy, server_name="localhost"),
    )
    async with trio.open_nursery() as nursery:
        await secure.start(nursery)
        before, new = (replace(one, upstream=(secure.address,)) for one in (before, new))
        async with proxying(before, reload=lambda: ReloadedSettings(whole(new))) as proxy:
            old = await tls_client(proxy, signed, certificate=signed.client)
            await ping(old)
            secure.context = broker_context(other.broker, other.ca)
            await proxy.read_again()
            client = await tls_client(proxy, other, certificate=other.client)
            await ping(client)
            await ping(old)
            stranger = await tls_client(proxy, other, certificate=signed.client)
            with pytest.raises(trio.BrokenResourceError):
                await ping(stranger)
            for one in (old, client, stranger):
                one.close()
        nursery.cancel_scope.cancel()


async def test_files_that_can_not_be_used_change_nothing(plain, signed, tmp_path, caplog):
    before = settings(plain.address, tls=ListenerTls(signed.proxy))
    new = replace(before, tls=ListenerTls(tmp_path / "none.pem"))
    async with proxying(
        before, drain_seconds=60, reload=lambda: ReloadedSettings(whole(new, drain_seconds=1))
    ) as proxy:
        await proxy.read_again()
        assert "none.pem" in reasons(caplog, "settings stay as they are")[0]
        assert proxy.proxy.settings.drain_seconds == 60
        client = await tls_client(proxy, signed)
        await ping(client)
        client.close()


async def test_a_node_id_without_a_name_does_not_end_the_proxy_at_a_reload(nursery, signed, caplog):
    """A broker has the node id -7; then SIGHUP comes."""
    broker = Broker()
    await broker.start(nursery)
    broker.nodes = [Node(-7, HOST, 9)]
    chosen = settings(
        broker.address,
        mapping=MappingKind.SNI,
        advertise="broker-{node_id}.proxy.test:443",
        bootstrap_name="proxy.test",
        tls=ListenerTls(signed.proxy),
    )
    async with proxying(chosen, reload=lambda: ReloadedSettings(whole(chosen))) as proxy:
        with trio.fail_after(PATIENCE):
            while METADATA not in [key for key, _ in broker.asked]:
                await wait_all_tasks_blocked(0.005)
        await proxy.read_again()
        assert not proxy.finished.is_set()
        assert reasons(caplog, "settings stay as they are") == []
