"""Tests of one cluster among others."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy import net
from proxy.mapping.nodes import Node
from proxy.net.brokers.node_ports import bind
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.wire.keys import HEARTBEAT, METADATA
from tests.proxy.conversation.script import response
from tests.proxy.net.cluster import ASK_METADATA, PING, Broker, ping
from tests.proxy.net.peers import HOST, NOWHERE, PATIENCE
from tests.proxy.net.proxies import Running, proxying
from tests.proxy.net.relays import settings, whole
from tests.proxy.rewrite.responses import read


@pytest.fixture
async def brokers(nursery: trio.Nursery) -> tuple[Broker, Broker]:
    """The brokers of two clusters, both node 1; each answers with its name."""
    east, west = Broker(), Broker()
    for broker, name in ((east, b"east"), (west, b"west")):
        await broker.start(nursery)

        async def answer(key: int, version: int, correlation_id: int, name: bytes = name) -> bytes:
            return response(correlation_id, name)

        broker.answer = answer
    return east, west


@asynccontextmanager
async def proxying_both(brokers: tuple[Broker, Broker]) -> AsyncIterator[Running]:
    east, west = (settings(broker.address, name=name) for broker, name in zip(brokers, ("east", "west"), strict=True))
    async with proxying(east, west, metrics=Address(HOST, 0), drain_seconds=1e9) as proxy:
        yield proxy


async def test_each_clusters_clients_reach_its_brokers(brokers: tuple[Broker, Broker]):
    async with proxying_both(brokers) as two:
        for name in ("east", "west"):
            await two.nodes(1, cluster=name)
            for client in (await two.client(cluster=name), await two.client(1, cluster=name)):
                await client.say(PING)
                await client.hears(response(1, name.encode()))


async def test_nodes_of_the_same_number_have_listeners_of_their_own(brokers: tuple[Broker, Broker]):
    async with proxying_both(brokers) as two:
        told = {}
        for name in ("east", "west"):
            client = await two.client(cluster=name)
            await client.say(ASK_METADATA)
            (node,) = read(METADATA, 12, await client.hear_frame())["brokers"]
            told[name] = (node["host"], node["port"])
        assert told["east"] != told["west"]
        assert told == {name: (HOST, two.of(name).nodes.advertised(1).port) for name in told}


async def test_connections_are_counted_for_their_cluster_and_numbered_over_all(brokers: tuple[Broker, Broker]):
    async with proxying_both(brokers) as two:
        for name in ("west", "west", "east"):
            client = await two.client(cluster=name)
            await client.say(PING)
            await client.hears(response(1, name.encode()))
        assert (two.of("east").traffic.connections_opened, two.of("west").traffic.connections_opened) == (1, 2)
        facts = [event[1] for event in two.watcher.seen("opened")]
        assert [(one.connection, one.cluster) for one in facts] == [(1, "west"), (2, "west"), (3, "east")]


@pytest.mark.parametrize(("late", "idle"), [("east", "west"), ("west", "east")])
async def test_an_answer_in_flight_is_waited_for_in_whichever_cluster_it_is(late, idle, brokers):
    broker = dict(zip(("east", "west"), brokers, strict=True))[late]
    answered = trio.Event()

    async def answer(key: int, version: int, correlation_id: int) -> bytes:
        await answered.wait()
        return response(correlation_id, b"late")

    broker.answer = answer
    async with proxying_both(brokers) as two:
        served = await two.client(cluster=idle)
        await served.say(PING)
        await served.hears(response(1, idle.encode()))
        client = await two.client(cluster=late)
        await client.say(PING)
        with trio.fail_after(PATIENCE):
            while HEARTBEAT not in [key for key, _ in broker.asked]:
                await wait_all_tasks_blocked(0.005)
        two.stop()
        await served.hears_the_end()
        served.close()
        await wait_all_tasks_blocked(0.01)
        assert not two.finished.is_set()
        answered.set()
        await client.hears(response(1, b"late"))
        client.close()
        await two.ends_with(0)


async def test_a_proxy_is_ready_when_each_cluster_has_been_reached(brokers: tuple[Broker, Broker]):
    east = settings(brokers[0].address, name="east")
    async with proxying(east, settings(NOWHERE, name="west"), metrics=Address(HOST, 0)) as proxy:
        await proxy.nodes(1, cluster="east")
        assert proxy.proxy._is_ready() == (False, f"no upstream broker of west could be reached ({NOWHERE})")


async def test_a_port_that_the_kernel_picked_is_not_in_another_clusters_range(brokers, monkeypatch):
    """East needs a free port. The first one that the kernel offers is one that west keeps for its nodes."""
    reserved = bind(Address(HOST, 0))
    port = reserved.getsockname()[1]
    reserved.close()
    offered = iter([port])

    def offering(address: Address) -> socket.socket:
        return bind(Address(address.host, next(offered, 0)) if address.port == 0 else address)

    west = settings(brokers[1].address, name="west", base=port, node_count=1, listen=Address("127.0.0.2", 0))
    async with proxying(settings(brokers[0].address, name="east"), west) as proxy:
        nodes = proxy.of("east").nodes
        monkeypatch.setattr("proxy.net.brokers.node_ports.bind", offering)
        await nodes.ensure([Node(5, "up-5.invalid", 9092)])
        assert nodes.advertised(5).port != port
        assert next(offered, None) is None


@pytest.fixture
def busy() -> Iterator[Address]:
    with bind(Address(HOST, 0)) as sock:
        yield Address(*sock.getsockname())


@pytest.mark.parametrize("kind", ["listen", "named", "state"])
def test_a_bad_setting_names_its_cluster(kind: str, busy: Address, tmp_path):
    (tmp_path / "nodes.json").write_text("not json")
    elsewhere = {1: Address("192.0.2.1", 9094)}
    wrong: dict[str, dict[str, Any]] = {
        "listen": {"listen": busy},
        "named": {"named": elsewhere},
        "state": {"state": tmp_path / "nodes.json"},
    }
    with pytest.raises(BadSetting) as error:
        net.run(net.Proxy(whole(settings(NOWHERE, name="east"), settings(NOWHERE, name="west", **wrong[kind]))))
    assert error.value.cluster == "west"


async def test_a_limit_is_its_clusters_own(brokers: tuple[Broker, Broker]):
    east, west = brokers
    one, two = settings(east.address, name="east", connection_limit=1), settings(west.address, name="west")
    async with proxying(one, two) as proxy:
        first = await proxy.client(cluster="east")
        await first.say(PING)
        await first.hears(response(1, b"east"))
        for _ in range(3):
            other = await proxy.client(cluster="west")
            await other.say(PING)
            await other.hears(response(1, b"west"))
        await (await proxy.client(cluster="east")).hears_the_end()


@pytest.mark.real
async def test_pods_that_come_and_go_leave_no_listener_behind_and_their_clients_go_on(nursery, autojump_clock):
    broker = Broker()
    address = await broker.start(nursery)
    broker.nodes = [Node(number, address.host, address.port) for number in (1, 2, 3)]
    async with proxying(settings(address, forget_node_seconds=12)) as proxy:
        await proxy.nodes(1, 2, 3)
        three = proxy.cluster.nodes.advertised(3)
        client = await proxy.client(2)
        await ping(client)
        broker.nodes = broker.nodes[:1]
        await trio.sleep(100)
        # the proxy asks itself: no client has
        assert [row.node_id for row in proxy.cluster.nodes.listeners()] == [1, 2]
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream(three.host, three.port)
        await ping(client)
        client.close()
        await trio.sleep(5)
        assert [row.node_id for row in proxy.cluster.nodes.listeners()] == [1]
        # a pod of that id is back
        broker.nodes = [Node(3, address.host, address.port)]
        other = await proxy.client()
        await other.say(ASK_METADATA)
        await other.hear_frame()
        assert proxy.cluster.nodes.advertised(3) == three
        await ping(await proxy.client(3))
