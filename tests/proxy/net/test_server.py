from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import MappingKind
from proxy.conversation import Cause
from proxy.mapping.nodes import Node
from proxy.net.sockets.reactor import reactor
from proxy.net.state.claims import StateClaims
from proxy.net.state.file import read_state
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import DESCRIBE_CLUSTER, HEARTBEAT, METADATA
from tests.brokers.ports import reserved_range
from tests.proxy.net.cluster import ASK_METADATA, PING, Broker, ping
from tests.proxy.net.peers import HOST, Peer
from tests.proxy.net.proxies import closed, proxying
from tests.proxy.net.relays import settings, whole
from tests.proxy.rewrite.responses import read

# relaying


async def test_a_client_reaches_the_cluster_through_the_bootstrap_listener(broker):
    async with proxying(settings(broker.address)) as proxy:
        await ping(await proxy.client())
        (opened,) = proxy.watcher.seen("opened")
        assert opened[1].connection == 1
        assert opened[1].listener == str(proxy.listening)
        assert opened[1].upstream == str(broker.address)
        assert opened[1].node is None


async def test_a_client_reaches_a_node_through_its_advertised_listener(broker, nursery):
    other = Broker()
    await other.start(nursery)
    broker.nodes = [Node(7, other.address.host, other.address.port)]
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await client.say(ASK_METADATA)
        (told,) = read(METADATA, 12, await client.hear_frame())["brokers"]
        assert told["port"] != other.address.port
        async with await trio.open_tcp_stream(told["host"], told["port"]) as stream:
            await ping(Peer(stream))
        assert (HEARTBEAT, 3) in other.asked
        assert proxy.watcher.seen("opened")[1][1].node == 7


async def test_a_client_of_controllers_reaches_each_through_its_listener(broker, nursery):
    other = Broker()
    await other.start(nursery)
    broker.describes_quorum = 2
    broker.nodes = [Node(7, other.address.host, other.address.port)]
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await client.say(framed(catalog.encode_request(DESCRIBE_CLUSTER, 2, 77, "tests", {"endpoint_type": 2})))
        (told,) = read(DESCRIBE_CLUSTER, 2, await client.hear_frame())["brokers"]
        assert told["port"] != other.address.port
        async with await trio.open_tcp_stream(told["host"], told["port"]) as stream:
            await ping(Peer(stream))
        assert (HEARTBEAT, 3) in other.asked
        assert proxy.watcher.seen("opened")[1][1].node == 7


async def test_controllers_named_to_clients_of_brokers_end_the_connection_with_the_reason(broker, caplog):
    """Brokers and controllers have the same ids. Kafka's own brokers never name controllers."""
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await client.say(ASK_METADATA)
        await client.hear_frame()
        broker.nodes = [Node(1, "secret.invalid", 9093)]
        await client.say(framed(catalog.encode_request(DESCRIBE_CLUSTER, 2, 78, "tests", {"endpoint_type": 2})))
        assert await client.hear_all() == b""
        assert await closed(proxy) == {"not_rewritable": 1}
    (said,) = [record for record in caplog.records if record.msg == "response can't be rewritten"]
    assert "the response names controllers, and these listeners stand for brokers" in str(said.keys["reason"])


async def test_connections_have_numbers_of_their_own_and_ends(broker):
    async with proxying(settings(broker.address)) as proxy:
        for number in (1, 2, 3):
            client = await proxy.client()
            await ping(client)
            client.close()
            assert await closed(proxy, number) == {"client_closed": number}
        await wait_all_tasks_blocked(0.01)
        assert proxy.watcher.seen("closed") == [("closed", number, Cause.CLIENT_CLOSED) for number in (1, 2, 3)]


@pytest.mark.parametrize("host", [pytest.param("::1", marks=pytest.mark.ipv6), "localhost", "127.0.0.1"])
async def test_listener_and_upstream_may_be_named_in_any_way(host, nursery):
    broker = Broker()
    await broker.start(nursery, host="::1" if host == "::1" else HOST)
    async with proxying(settings(Address(host, broker.address.port), listen=Address(host, 0))) as proxy:
        await ping(await proxy.client())
        await proxy.nodes(1)
        await ping(await proxy.client(1))


async def test_a_proxy_that_listens_everywhere_tells_what_it_is_advertised_as(broker):
    chosen = settings(broker.address, listen=Address("0.0.0.0", 0), advertise="localhost")
    async with proxying(chosen) as proxy:
        client = Peer(await trio.open_tcp_stream(HOST, proxy.listening.port))
        await client.say(ASK_METADATA)
        (told,) = read(METADATA, 12, await client.hear_frame())["brokers"]
        assert told["host"] == "localhost"
        async with await trio.open_tcp_stream(HOST, told["port"]) as stream:
            await ping(Peer(stream))


async def test_ordinary_connections_are_not_logged(broker, caplog):
    caplog.set_level(logging.INFO)
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        await ping(await proxy.client())
        client = await proxy.client(1)
        await ping(client)
        client.reset()
        await closed(proxy)
    assert [record.message for record in caplog.records] == ["node found"]


# upstream


async def test_while_upstream_is_down_clients_are_closed_at_once_and_later_served(nursery, caplog):
    broker = Broker()
    address = await broker.start(nursery)
    broker.stop()
    await wait_all_tasks_blocked()
    async with proxying(settings(address)) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await client.hears_the_end()
        assert await closed(proxy) == {"upstream_down": 1}
        assert "upstream is down" in caplog.text
        await broker.start(nursery, port=address.port)
        await ping(await proxy.client())


async def test_a_client_of_an_unknown_node_is_closed(broker):
    async with proxying(settings(broker.address, named={9: Address(HOST, 0)})) as proxy:
        client = await proxy.client(9)
        await client.say(PING)
        await client.hears_the_end()
        assert await closed(proxy) == {"unknown_node": 1}
    assert proxy.watcher.seen("opened") == []


@pytest.fixture
def ports() -> Iterator[dict[int, int]]:
    """Yields ports of nodes that no other process takes while no proxy listens on them."""
    with reserved_range((HOST,), 3) as first:
        yield {1: first + 2, 2: first, 3: first + 1}


async def test_nodes_keep_their_ports_over_a_restart(broker, ports, tmp_path):
    state = tmp_path / "nodes.json"
    broker.nodes = [Node(number, HOST, broker.address.port) for number in (1, 2, 3)]
    async with proxying(settings(broker.address, state=state, remembered=ports)) as proxy:
        await proxy.nodes(1, 2, 3)
        proxy.stop()
        await proxy.ends_with(0)
    broker.nodes = [Node(number, HOST, broker.address.port) for number in (3, 1)]
    remembered = {number: node.port for number, node in read_state(state).nodes.items() if node.port}
    assert remembered == ports
    async with proxying(settings(broker.address, state=state, remembered=remembered)) as proxy:
        assert {number: proxy.cluster.nodes.advertised(number).port for number in (1, 2, 3)} == ports
        await ping(await proxy.client(2))
        assert len(proxy.watcher.seen("node")) == 3


async def test_a_restarted_proxy_serves_clients_that_remember_its_ports_before_nodes_are_named(broker, ports, tmp_path):
    state = tmp_path / "nodes.json"
    broker.nodes = [Node(number, HOST, broker.address.port) for number in (1, 2)]
    async with proxying(settings(broker.address, state=state, remembered=ports)) as proxy:
        await proxy.nodes(1, 2)
        remembered = proxy.cluster.nodes.advertised(2)
        proxy.stop()
        await proxy.ends_with(0)
    broker.is_reticent = True
    (again,) = StateClaims(whole(settings(broker.address, state=state))).settings.clusters
    async with proxying(again):
        client = Peer(await trio.open_tcp_stream(remembered.host, remembered.port))
        await ping(client)


async def test_a_sidecar_reaches_its_broker_behind_its_own_address(broker):
    async with proxying(settings(broker.address, named={1: Address(HOST, 0)})) as proxy:
        here = proxy.cluster.nodes.advertised(1)
        broker.nodes = [Node(1, here.host, here.port)]
        client = await proxy.client()
        await client.say(ASK_METADATA)
        await client.hear_frame()
        await ping(await proxy.client(1))
        assert proxy.cluster.traffic.connections_opened == 2


async def test_proxies_for_a_broker_each_tell_the_others_names(nursery):
    brokers = {number: Broker() for number in (1, 2, 3)}
    for broker in brokers.values():
        await broker.start(nursery)
    nodes = [Node(number, HOST, broker.address.port) for number, broker in brokers.items()]
    for broker in brokers.values():
        broker.nodes = nodes
    hosts = {number: f"127.66.20.{number}" for number in brokers}
    with reserved_range(tuple(hosts.values()), 1) as port:
        template: dict[str, Any] = {"mapping": MappingKind.TEMPLATE, "advertise": f"127.66.20.{{node_id}}:{port}"}
        sidecars = [
            settings(broker.address, listen=Address(hosts[number], port), own_node=number, name=str(number), **template)
            for number, broker in brokers.items()
        ]
        async with proxying(*sidecars) as proxy:
            for number, broker in brokers.items():
                client = Peer(await trio.open_tcp_stream(hosts[number], port))
                await client.say(ASK_METADATA)
                told = read(METADATA, 12, await client.hear_frame())["brokers"]
                assert {node["node_id"]: (node["host"], node["port"]) for node in told} == {
                    number: (host, port) for number, host in hosts.items()
                }
                await ping(client)
                assert broker.asked.count((HEARTBEAT, 3)) == 1
                assert [row.node_id for row in proxy.of(str(number)).nodes.listeners()] == [number]
            assert [event[1].node for event in proxy.watcher.seen("opened")] == [1, 2, 3]


async def test_the_broker_beside_a_proxy_is_reached_before_its_node_id_is_known(broker):
    broker.is_reticent = True
    sidecar = settings(broker.address, mapping=MappingKind.TEMPLATE, advertise="kafka-{node_id}:9092", own_node=3)
    async with proxying(sidecar) as proxy:
        stream = await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port)
        await ping(Peer(stream))


async def test_a_node_without_a_name_in_the_template_is_not_advertised(broker):
    broker.nodes = [Node(256, HOST, broker.address.port)]
    sidecar = settings(broker.address, mapping=MappingKind.TEMPLATE, advertise="127.0.0.{node_id}:9092", own_node=3)
    async with proxying(sidecar) as proxy:
        client = Peer(await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port))
        await client.say(ASK_METADATA)
        await client.hears_the_end()
        assert await closed(proxy) == {"not_rewritable": 1}


@pytest.mark.parametrize("busy", [True, False])
async def test_the_proxy_polls_only_if_busy_polling_is_on(busy, broker):
    async with proxying(settings(broker.address), busy_polling=busy):
        assert reactor().polling.busy == busy
