"""Tests of one cluster among others, and of the routes of its frames."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy import net
from proxy.config import Others, ProxyProtocolVersion
from proxy.conversation import Cause, Direction
from proxy.mapping.nodes import Node
from proxy.net.brokers.nodes import bind
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.cluster import LINGER_AT_CLIENT, routes
from proxy.net.sockets.proxy_protocol import ClientEndpoints, encode_header
from proxy.net.sockets.proxy_protocol_reader import HeaderParser
from proxy.rewrite import api_versions
from proxy.schema.addresses import NETWORKS, Address
from proxy.schema.errors import BadSetting
from proxy.wire import apis
from proxy.wire.framing import framed, pack_api_and_version
from proxy.wire.keys import HEARTBEAT, METADATA, SASL_HANDSHAKE
from tests.proxy.conversation.script import produce, request, response
from tests.proxy.net.cluster import ASK_METADATA, PING, PONG, Broker, ping
from tests.proxy.net.peers import HOST, NOWHERE, PATIENCE, Peer
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
        monkeypatch.setattr("proxy.net.brokers.nodes.bind", offering)
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
    wrong = {"listen": {"listen": busy}, "named": {"named": elsewhere}, "state": {"state": tmp_path / "nodes.json"}}
    with pytest.raises(BadSetting) as error:
        net.run(whole(settings(NOWHERE, name="east"), settings(NOWHERE, name="west", **wrong[kind])))
    assert error.value.cluster == "west"


def test_connections_that_end_within_a_message_are_closed_without_a_reset():
    assert {
        Cause.BROKER_CLOSED,
        Cause.BROKER_RESET,
        Cause.BAD_LENGTH,
        Cause.UNEXPECTED_RESPONSE,
        Cause.UNSUPPORTED_VERSION,
        Cause.NOT_REWRITABLE,
        Cause.TLS_HANDSHAKE,
        Cause.BROKER_LOST,
        Cause.IDLE,
        Cause.UNKNOWN_NAME,
        Cause.LEADS_BACK,
        Cause.DRAINED,
        Cause.PROXY_FAULT,
    } == LINGER_AT_CLIENT


# which clients are accepted


async def ended(proxy: Running, *causes: Cause) -> None:
    """Returns once a connection has ended for each of these causes."""
    expected = {cause.value: causes.count(cause) for cause in causes}
    with trio.fail_after(PATIENCE):
        while sum(proxy.closes().values()) < len(causes):
            await wait_all_tasks_blocked(0.005)
    assert proxy.closes() == expected


@pytest.mark.parametrize("where", ["a cluster's", "everybody's", "an address'"])
async def test_connections_above_the_limit_are_closed_at_once_and_let_in_when_there_is_room(where, broker, caplog):
    limits = {"connection_limit": 2} if where == "a cluster's" else {"address_limit": 2} if "address" in where else {}
    others = {"connection_limit": 2} if where == "everybody's" else {}
    async with proxying(settings(broker.address, **limits), **others) as proxy:
        inside = [await proxy.client() for _ in range(2)]
        for client in inside:
            await ping(client)
        for _ in range(2):
            await (await proxy.client()).hears_the_end()
        await ended(proxy, *[Cause.TOO_MANY_CONNECTIONS] * 2)
        assert [one.message for one in caplog.records].count("too many connections") == 1
        inside[0].close()
        await ended(proxy, *[Cause.TOO_MANY_CONNECTIONS] * 2, Cause.CLIENT_CLOSED)
        await ping(await proxy.client())
        await ping(inside[1])


async def test_a_broker_that_ends_the_connection_at_a_login_token_has_refused_the_login(broker: Broker):
    async def handshake_alone(key: int, version: int, correlation_id: int) -> bytes | None:
        return response(correlation_id, bytes(6)) if key == SASL_HANDSHAKE else None

    broker.answer = handshake_alone
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await client.say(request(SASL_HANDSHAKE, 0, 1, b"\0\5PLAIN"))
        await client.hears(response(1, bytes(6)))
        await client.say(framed(b"\0somebody\0wrong"))
        await client.hears_the_end()
        client.close()
        await ended(proxy, Cause.BROKER_CLOSED)
    assert proxy.cluster.traffic.errors.named == {("SaslHandshake", "SASL_AUTHENTICATION_FAILED"): 1}


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


async def test_an_idle_connection_is_ended_and_one_that_waits_for_an_answer_is_not(broker: Broker):
    may_answer = trio.Event()

    async def answer(key: int, version: int, correlation_id: int) -> bytes:
        if correlation_id == 2:
            await may_answer.wait()
        return response(correlation_id, b"pong")

    broker.answer = answer
    async with proxying(settings(broker.address, idle_seconds=0.08)) as proxy:
        polling, idle = await proxy.client(), await proxy.client()
        await polling.say(request(HEARTBEAT, 3, 2))
        await ping(idle)
        await idle.hears_the_end()
        idle.close()
        await ended(proxy, Cause.IDLE)
        may_answer.set()
        await polling.hears(response(2, b"pong"))


# how a broker's connection ends


async def test_requests_without_an_answer_reach_a_broker_that_is_slow_when_their_client_has_gone(monkeypatch):
    monkeypatch.setattr(Upstreams, "keep_discovering", lambda self: trio.sleep_forever())
    with socket.socket() as listener:
        # a broker with a small buffer: the rest waits in the proxy's socket
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind((HOST, 0))
        listener.listen()
        address = Address(*listener.getsockname())
        async with proxying(settings(address, half_close_seconds=0.01)) as proxy:
            client = await proxy.client()
            broker = Peer((await trio.to_thread.run_sync(listener.accept))[0])
            asked = PING + b"".join(produce(number, 2, acks=0, tail=bytes(1000)) for number in range(14))
            await client.say(asked)
            with trio.fail_after(PATIENCE):
                while proxy.watcher.bytes[Direction.REQUEST] != asked:
                    await wait_all_tasks_blocked(0.005)
            client.reset()
            await wait_all_tasks_blocked(0.02)
            # a response in flight, which nobody reads any more
            await broker.say(PONG)
            await wait_all_tasks_blocked(0.02)
            assert await broker.hear_all() == asked
            broker.close()
            await ended(proxy, Cause.CLIENT_RESET)


# for whom a balancer connects

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
        await ended(proxy, Cause.CLIENT_CLOSED)
        (await proxy.client()).reset()
        await ended(proxy, Cause.CLIENT_CLOSED, Cause.CLIENT_RESET)


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


# the routes of frames


def test_answers_with_brokers_and_what_may_hold_secrets_are_marked():
    table = routes()
    assert table.of(pack_api_and_version(METADATA, 12)).mark_response
    assert table.of(pack_api_and_version(18, 3)).mark_response
    assert not table.of(pack_api_and_version(HEARTBEAT, 3)).mark_response
    assert table.of(pack_api_and_version(36, 2)).mark_request
    assert table.of(pack_api_and_version(36, 2)).mark_response
    assert table.of(pack_api_and_version(36, 99)).mark_request


def test_handshakes_are_marked_for_the_mechanism_that_they_name():
    assert all(routes().of(pack_api_and_version(17, version)).mark_request for version in (0, 1))
    assert not routes().of(pack_api_and_version(17, 1)).mark_response


def test_only_api_versions_is_answered_and_only_when_newer_than_known():
    table = routes()
    assert not table.of(pack_api_and_version(18, api_versions.newest_known())).answered_by_proxy
    assert table.of(pack_api_and_version(18, api_versions.newest_known() + 1)).answered_by_proxy
    assert not table.of(pack_api_and_version(HEARTBEAT, 99)).answered_by_proxy


@pytest.mark.parametrize("key", [0, 1, 3, 10, 60, 78, 79])
def test_versions_that_would_name_brokers_somewhere_unknown_are_refused(key):
    table, newest = routes(), apis.versions(key)[-1]
    assert not table.of(pack_api_and_version(key, newest)).refused
    assert table.of(pack_api_and_version(key, newest + 1)).refused


def test_unknown_versions_that_name_no_broker_pass():
    assert not routes().of(pack_api_and_version(HEARTBEAT, 99)).refused
    assert not routes().of(pack_api_and_version(12_345, 0)).refused
