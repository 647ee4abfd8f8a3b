"""Tests of one TLS port for all nodes: the name that a client asks for says which node it wants."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from proxy.config import MappingKind
from proxy.config.tls import ListenerTls
from proxy.mapping.nodes import Node
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT, METADATA
from tests.certificates import Authority
from tests.proxy.net.cluster import PING, Broker, ping
from tests.proxy.net.peers import HOST, Peer
from tests.proxy.net.proxies import Running, proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.tls_clusters import closed, reasons
from tests.proxy.net.tls_peers import Certificates, TlsPeer, client_context
from tests.proxy.rewrite.responses import read

NAMED: dict[str, Any] = {
    "mapping": MappingKind.SNI,
    "advertise": "kafka-{node_id}.test:9092",
    "bootstrap_name": "kafka.test",
}
UNKNOWN = "the client asks for a name that is no node's, nor the bootstrap listener's"
NAMELESS = "the client asks for no name (SNI), so nobody knows which node it wants"


@pytest.fixture(scope="module")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A proxy with a certificate for all of its names."""
    folder = tmp_path_factory.mktemp("wild")
    ca = Authority(folder)
    pem = ca.signs("proxy", "kafka.test", *(f"kafka-{number}.test" for number in range(10)), "other.test").path
    return Certificates(ca, pem, pem, pem)


async def asking_for(proxy: Running, wild: Certificates, name: str | None) -> TlsPeer:
    context = client_context(wild.ca)
    context.check_hostname = name is not None
    plain = await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port)
    return TlsPeer(plain, context, asks_for=name)


async def test_a_node_is_found_by_the_name_that_the_client_asks_for(plain, nursery, wild):
    other = Broker()
    await other.start(nursery)
    plain.nodes = [Node(number, HOST, broker.address.port) for number, broker in ((1, plain), (2, other))]
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        client = await asking_for(proxy, wild, "kafka.test")
        await client.say(framed(catalog.encode_request(METADATA, 12, 77, "tests", {})))
        told = read(METADATA, 12, await client.hear_frame())["brokers"]
        assert [(node["host"], node["port"]) for node in told] == [("kafka-1.test", 9092), ("kafka-2.test", 9092)]
        await ping(await asking_for(proxy, wild, "kafka-2.test"))
        assert other.asked == [(HEARTBEAT, 3)]
        await ping(await asking_for(proxy, wild, "KAFKA-1.test"))
        assert plain.asked.count((HEARTBEAT, 3)) == 1
        assert [event[1].node for event in proxy.watcher.seen("opened")] == [None, 2, 1]


async def test_a_client_of_an_unknown_node_is_closed_after_discovery(plain, wild):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        client = await asking_for(proxy, wild, "kafka-9.test")
        await client.hears_the_end()
        await closed(proxy, unknown_node=1)


@pytest.mark.parametrize(("name", "reason"), [("other.test", UNKNOWN), ("kafka-x.test", UNKNOWN), (None, NAMELESS)])
async def test_a_name_that_leads_nowhere_is_refused_in_the_handshake(name, reason, plain, wild, caplog):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        client = await asking_for(proxy, wild, name)
        with pytest.raises(trio.BrokenResourceError) as error:
            await client.say(PING)
        assert "UNRECOGNIZED_NAME" in str(error.value.__cause__)
        await closed(proxy, unknown_name=1)
        (record,) = [record for record in caplog.records if record.message == "no TLS with a client"]
        assert record.keys["reason"] == reason
        assert [record.keys[key] for key in record.keys if key == "asked_for"] == ([] if name is None else [name])
        assert (HEARTBEAT, 3) not in plain.asked


async def test_one_reason_for_different_refused_names_is_logged_once(plain, wild, caplog):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        for number in range(5):
            client = await asking_for(proxy, wild, f"other-{number}.test")
            with pytest.raises(trio.BrokenResourceError):
                await client.say(PING)
        await closed(proxy, unknown_name=5)
    assert reasons(caplog, "no TLS with a client") == [UNKNOWN]


async def test_without_a_handshake_it_is_no_name_that_was_wrong(plain, wild):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy), **NAMED)) as proxy:
        plain_client = Peer(await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port))
        await plain_client.say(PING)
        await plain_client.hears_the_end()
        await closed(proxy, tls_handshake=1)


async def test_other_mappings_take_any_name(plain, wild):
    async with proxying(settings(plain.address, tls=ListenerTls(wild.proxy))) as proxy:
        await ping(await asking_for(proxy, wild, "other.test"))
