"""Tests of what the recorder is told, by which a cluster can be known again."""

from __future__ import annotations

import socket

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy import ips
from proxy.config import MappingKind
from proxy.mapping.nodes import Node
from proxy.net.brokers.identity import MOST_IDS, ROUND_SECONDS, UNTOLD, Identity
from proxy.net.brokers.node_ports import bind
from proxy.net.brokers.nodes import Nodes
from proxy.net.state.file import SavedState
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.dialects import Dialect
from proxy.wire.framing import framed
from proxy.wire.keys import METADATA
from tests.proxy.net.brokers.node_tables import ONE, TWO, one_port
from tests.proxy.net.cluster import ASK_METADATA, Broker, ping
from tests.proxy.net.peers import HOST, Peer
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import Watcher, settings

MAIN = "main"


class Names(trio.abc.HostnameResolver):
    """A resolver that knows these names, each with an IP address."""

    def __init__(self, **known: str) -> None:
        self.known = known

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return socket.getaddrinfo(self.known[name], port, type=type)

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError


@pytest.fixture
async def names():
    found = Names(broker="198.51.100.1", proxy="198.51.100.9")
    trio.socket.set_custom_hostname_resolver(found)
    yield found
    trio.socket.set_custom_hostname_resolver(None)


def told(watcher: Watcher, kind: str, cluster: str = MAIN) -> list[str]:
    return watcher.identities.get((cluster, kind), [])


async def test_names_are_reported_with_the_addresses_that_they_have_and_get(names, autojump_clock, nursery):
    watcher = Watcher()
    identity = Identity(MAIN, watcher)
    identity.add_upstreams(Address("broker", 9092), Address("unknown.invalid", 9092))
    identity.add_listeners(Address("proxy", 443))
    nursery.start_soon(identity.keep_looking_up)
    await trio.sleep(1)
    assert told(watcher, "upstreams") == ["broker:9092", "unknown.invalid:9092", "198.51.100.1:9092"]
    assert told(watcher, "listeners") == ["proxy:443", "198.51.100.9:443"]
    names.known = {"broker": "198.51.100.2"}
    await trio.sleep(ROUND_SECONDS)
    # a thread reads the machine's addresses, for which no clock of a test waits
    while told(watcher, "upstreams")[-1] != "198.51.100.2:9092":
        await trio.lowlevel.checkpoint()


async def test_each_name_is_looked_up_once_a_round_however_many_come(names, autojump_clock, nursery):
    asked: list[str] = []
    find = names.getaddrinfo

    async def getaddrinfo(host, *rest):
        asked.append(host)
        return await find(host, *rest)

    names.getaddrinfo = getaddrinfo
    identity = Identity(MAIN, Watcher())
    nursery.start_soon(identity.keep_looking_up)
    for number in range(20):
        identity.add_upstreams(Address(f"broker-{number}", 9092))
        await trio.sleep(1)
    assert len(asked) == 20


async def test_a_name_that_is_added_later_is_looked_up_at_once(names, autojump_clock, nursery):
    watcher = Watcher()
    identity = Identity(MAIN, watcher)
    nursery.start_soon(identity.keep_looking_up)
    await trio.sleep(1)
    identity.add_upstreams(Address("broker", 9092))
    await trio.sleep(1)
    assert told(watcher, "upstreams") == ["broker:9092", "198.51.100.1:9092"]


def test_each_thing_is_reported_once_in_one_spelling() -> None:
    watcher = Watcher()
    identity = Identity(MAIN, watcher)
    for spelled in ("127.0.0.1", "::ffff:127.0.0.1"):
        identity.add_upstreams(Address(spelled, 9092))
        identity.add_listeners(Address(spelled, 9093))
    for cluster_id in ("one", None, "", "one", "two"):
        identity.add_id(cluster_id)
    assert told(watcher, "upstreams") == ["127.0.0.1:9092"]
    assert told(watcher, "listeners") == ["127.0.0.1:9093"]
    assert told(watcher, "ids") == ["one", "two"]


def test_ids_that_a_broker_makes_up_are_limited() -> None:
    watcher = Watcher()
    identity = Identity(MAIN, watcher)
    for number in range(MOST_IDS + 2):
        identity.add_id(f"id-{number}")
    assert told(watcher, "ids") == [*(f"id-{number}" for number in range(MOST_IDS)), UNTOLD]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "*"])
def test_a_listener_on_every_interface_is_reported_at_each_address_of_this_machine(host: str) -> None:
    watcher = Watcher()
    Identity(MAIN, watcher).add_listeners(Address(host, 9092))
    found = {Address.parse(each) for each in told(watcher, "listeners")}
    assert {Address(str(ip), 9092) for ip in ips.of_this_machine()} | {Address(host, 9092)} == found
    assert Address("127.0.0.1", 9092) in found


def test_the_addresses_of_this_machine_are_those_that_a_socket_can_be_bound_to() -> None:
    found = ips.of_this_machine()
    assert ips.ip_of("127.0.0.1") in found
    assert all(ips.is_of_this_machine(ip) for ip in found if not ip.is_link_local)


# a whole proxy


async def test_a_cluster_is_known_by_its_id_its_brokers_and_the_listeners_before_it(broker, nursery):
    broker.cluster_id = "an-id"
    other = Broker()
    await other.start(nursery)
    broker.nodes = [Node(7, "localhost", other.address.port)]
    async with proxying(settings(Address("localhost", broker.address.port))) as proxy:
        await proxy.nodes(7)
        await ping(await proxy.client())
        await ping(await proxy.client(7))
        assert told(proxy.watcher, "ids") == ["an-id"]
        upstreams = told(proxy.watcher, "upstreams")
        for name in (HOST, "localhost"):
            assert {f"{name}:{broker.address.port}", f"{name}:{other.address.port}"} <= {*upstreams}
        nodes = proxy.cluster.nodes
        assert {str(proxy.listening), str(nodes.advertised(7))} <= {*told(proxy.watcher, "listeners")}


async def test_a_node_that_another_proxy_serves_is_reported(broker):
    broker.nodes = [Node(7, "192.0.2.7", 9092)]
    sidecar = settings(broker.address, mapping=MappingKind.TEMPLATE, advertise="127.0.0.{node_id}:9092", own_node=3)
    async with proxying(sidecar) as proxy:
        client = Peer(await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port))
        await client.say(ASK_METADATA)
        await client.hear_frame()
        assert "192.0.2.7:9092" in told(proxy.watcher, "upstreams")


async def test_an_id_that_only_a_clients_response_tells_is_reported(broker):
    broker.is_reticent, broker.cluster_id = True, "an-id"
    async with proxying(settings(broker.address)) as proxy:
        await wait_all_tasks_blocked(0.01)
        assert not told(proxy.watcher, "ids")
        broker.is_reticent = False
        client = await proxy.client()
        await client.say(ASK_METADATA)
        await client.hear_frame()
        assert told(proxy.watcher, "ids") == ["an-id"]


async def test_another_cluster_in_the_place_of_the_first_is_reported_though_no_client_asks_it(broker, monkeypatch):
    monkeypatch.setattr("proxy.net.brokers.upstreams.ID_ROUND_SECONDS", 0)
    broker.cluster_id = "one"
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        await ping(await proxy.client())
        await wait_all_tasks_blocked(0.01)
        assert told(proxy.watcher, "ids") == ["one"]
        broker.cluster_id = "two"
        await ping(await proxy.client())
        await wait_all_tasks_blocked(0.01)
        assert told(proxy.watcher, "ids") == ["one", "two"]


async def test_brokers_that_clients_have_just_reached_are_asked_when_the_proxy_stops(broker):
    broker.cluster_id = "one"
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        await ping(await proxy.client())
        await wait_all_tasks_blocked(0.01)
        broker.cluster_id = "two"
        await ping(await proxy.client())
        proxy.stop()
        await proxy.finished.wait()
        assert told(proxy.watcher, "ids") == ["one", "two"]


async def test_a_question_that_is_under_way_when_the_proxy_stops_is_asked_again(nursery):
    class Busy(Broker):
        """A broker that leaves Metadata without an answer while it is busy."""

        is_busy = False

        async def _told(self, key: int, version: int, correlation_id: int) -> bytes | None:
            if self.is_busy and key == METADATA:
                await trio.sleep_forever()
            return await super()._told(key, version, correlation_id)

    broker = Busy()
    await broker.start(nursery)
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        broker.cluster_id, broker.is_busy = "an-id", True
        await ping(await proxy.client())
        await wait_all_tasks_blocked(0.01)
        broker.is_busy = False
        proxy.stop()
        await proxy.finished.wait()
        assert "an-id" in told(proxy.watcher, "ids")


async def test_brokers_are_asked_for_the_id_once_a_round_however_many_clients_come(broker, monkeypatch):
    monkeypatch.setattr("proxy.net.brokers.upstreams.ID_ROUND_SECONDS", 3600)
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        await ping(await proxy.client())
        await wait_all_tasks_blocked(0.01)
        asked = broker.asked.count((METADATA, broker.newest_metadata))
        for _ in range(20):
            await ping(await proxy.client())
        await wait_all_tasks_blocked(0.01)
        assert broker.asked.count((METADATA, broker.newest_metadata)) == asked


async def test_brokers_that_tell_no_id_are_reported_as_such(broker):
    broker.newest_metadata, broker.cluster_id = 1, "an-id"
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        assert told(proxy.watcher, "ids") == [UNTOLD]


async def test_an_old_clients_list_tells_no_id_where_brokers_answer_no_question_of_the_proxys(broker):
    broker.is_reticent, broker.cluster_id = True, "an-id"
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await ping(client)
        await wait_all_tasks_blocked(0.01)
        assert not told(proxy.watcher, "ids")
        broker.is_reticent = False
        await client.say(framed(catalog.encode_request(METADATA, 1, 77, "tests", {})))
        await client.hear_frame()
        assert told(proxy.watcher, "ids") == [UNTOLD]


async def test_an_old_clients_list_tells_nothing_where_the_proxys_own_question_told_the_id(broker):
    broker.cluster_id = "an-id"
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await client.say(framed(catalog.encode_request(METADATA, 1, 77, "tests", {})))
        await client.hear_frame()
        await wait_all_tasks_blocked(0.01)
        assert told(proxy.watcher, "ids") == ["an-id"]


async def test_an_id_of_the_state_file_is_reported_once_a_broker_has_told_it(broker, tmp_path):
    broker.cluster_id = "an-id"
    chosen = settings(broker.address, state=tmp_path / "state.json")
    async with proxying(chosen) as proxy:
        await proxy.nodes(1)
        proxy.stop()
        await proxy.finished.wait()
    broker.speaks = False
    async with proxying(chosen) as proxy:
        # another cluster may have taken its place
        assert told(proxy.watcher, "ids") == []
    broker.speaks = True
    async with proxying(chosen) as proxy:
        await proxy.nodes(1)
        await wait_all_tasks_blocked(0.01)
        assert told(proxy.watcher, "ids") == ["an-id"]


async def test_a_proxy_of_the_dialect_of_0_7_reports_both_ends(broker):
    async with proxying(settings(broker.address, dialect=Dialect.KAFKA_07)) as proxy:
        await proxy.client()
        await wait_all_tasks_blocked(0.01)
        assert told(proxy.watcher, "upstreams") == [str(broker.address)]
        assert str(proxy.listening) in told(proxy.watcher, "listeners")


async def test_a_client_is_reported_at_the_address_that_it_came_to(broker):
    async with proxying(settings(broker.address, listen=Address("0.0.0.0", 0), advertise="127.0.0.1")) as proxy:
        stream = await trio.open_tcp_stream("127.0.0.3", proxy.listening.port)
        async with stream:
            await wait_all_tasks_blocked(0.01)
            assert f"127.0.0.3:{proxy.listening.port}" in told(proxy.watcher, "listeners")


async def test_named_listeners_and_brokers_behind_one_port_are_reported():
    watcher = Watcher()
    nodes = Nodes(one_port(), lambda *_: lambda: None, SavedState(), watcher)
    with bind(Address(HOST, 0)) as sock:
        nodes.add_bootstrap(sock, Address(HOST, 9092))
    await nodes.ensure([ONE, TWO], "an-id")
    names = ("kafka.example.org", "kafka-1.example.org", "kafka-2.example.org")
    assert {f"{name}:443" for name in names} <= {*told(watcher, "listeners")}
    assert {str(ONE.address), str(TWO.address)} <= {*told(watcher, "upstreams")}
    assert told(watcher, "ids") == ["an-id"]


def test_nothing_is_reported_without_a_recorder() -> None:
    identity = Identity(MAIN, None)
    identity.add_id("one")
    identity.add_upstreams(Address("broker", 9092))
    with bind(Address(HOST, 0)) as sock, socket.create_connection(sock.getsockname()) as dialled:
        identity.reached(dialled)
