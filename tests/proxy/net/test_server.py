from __future__ import annotations

import errno
import gc
import http.client
import logging
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy import net
from proxy.config import MappingKind
from proxy.conversation import Cause, Direction
from proxy.mapping.nodes import Node
from proxy.net import cluster, server, stopping
from proxy.net.brokers.nodes import bind
from proxy.net.cluster import LINGER_SECONDS
from proxy.net.connection.relay import Relay
from proxy.net.reloading import ReloadedSettings
from proxy.net.sockets.waits import waits
from proxy.net.state.claims import StateClaims
from proxy.net.state.file import read_state
from proxy.net.stopping import HURRIED_STOP_SECONDS, STOP_SECONDS
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.wire import catalog
from proxy.wire.dialects import Dialect
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT, METADATA
from tests.brokers.ports import reserved_range
from tests.proxy.conversation.script import request, response
from tests.proxy.net.cluster import PING, PONG, Broker, asked, ping
from tests.proxy.net.peers import HOST, PATIENCE, Peer
from tests.proxy.net.proxies import Running, proxying
from tests.proxy.net.relays import Watcher, listens, settings, whole
from tests.proxy.rewrite.responses import read

NOWHERE = Address(HOST, 1)
ASK_METADATA = framed(catalog.encode_request(METADATA, 12, 77, "tests", {}))


async def closed(proxy: Running, count: int = 1) -> dict[str, int]:
    """The causes, once so many connections have ended."""
    with trio.fail_after(PATIENCE):
        while sum(proxy.closes().values()) < count:
            await wait_all_tasks_blocked(0.005)
    return proxy.closes()


# the main job


async def test_a_client_reaches_the_cluster_through_the_bootstrap_listener(broker):
    async with proxying(settings(broker.address)) as proxy:
        await ping(await proxy.client())
        (opened,) = proxy.watcher.seen("opened")
        assert opened[1].connection == 1
        assert opened[1].listener == str(proxy.listening)
        assert opened[1].upstream == str(broker.address)
        assert opened[1].node is None


async def test_a_client_reaches_a_node_through_the_listener_that_it_is_told(broker, nursery):
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


async def test_connections_have_numbers_of_their_own_and_ends(broker):
    async with proxying(settings(broker.address)) as proxy:
        for number in (1, 2, 3):
            client = await proxy.client()
            await ping(client)
            client.close()
            assert await closed(proxy, number) == {"client_closed": number}
        await wait_all_tasks_blocked(0.01)
        assert proxy.watcher.seen("closed") == [("closed", number, Cause.CLIENT_CLOSED) for number in (1, 2, 3)]


@pytest.mark.parametrize("host", ["::1", "localhost", "127.0.0.1"])
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


async def test_connections_are_no_news_for_the_log(broker, caplog):
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
        await client.hears_the_end()
        assert await closed(proxy) == {"upstream_down": 1}
        assert "upstream is down" in caplog.text
        await broker.start(nursery, port=address.port)
        await ping(await proxy.client())


async def test_a_client_of_a_node_that_nobody_knows_is_closed(broker):
    async with proxying(settings(broker.address, named={9: Address(HOST, 0)})) as proxy:
        client = await proxy.client(9)
        await client.hears_the_end()
        assert await closed(proxy) == {"unknown_node": 1}
    assert proxy.watcher.seen("opened") == []


@pytest.fixture
def ports() -> Iterator[dict[int, int]]:
    """Nodes' ports that nobody else takes while no proxy listens on them."""
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
    remembered = {number: node.port for number, node in read_state(state).nodes.items()}
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
        template = {"mapping": MappingKind.TEMPLATE, "advertise": f"127.66.20.{{node_id}}:{port}"}
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


async def test_the_broker_beside_a_proxy_is_reached_before_it_has_said_who_it_is(broker):
    broker.is_reticent = True
    sidecar = settings(broker.address, mapping=MappingKind.TEMPLATE, advertise="kafka-{node_id}:9092", own_node=3)
    async with proxying(sidecar) as proxy:
        stream = await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port)
        await ping(Peer(stream))


async def test_a_node_that_the_template_has_no_name_for_is_not_told(broker):
    broker.nodes = [Node(256, HOST, broker.address.port)]
    sidecar = settings(broker.address, mapping=MappingKind.TEMPLATE, advertise="127.0.0.{node_id}:9092", own_node=3)
    async with proxying(sidecar) as proxy:
        client = Peer(await trio.open_tcp_stream(proxy.listening.host, proxy.listening.port))
        await client.say(ASK_METADATA)
        await client.hears_the_end()
        assert await closed(proxy) == {"not_rewritable": 1}


@pytest.mark.parametrize("busy", [True, False])
async def test_it_looks_out_for_what_comes_next_only_where_it_may(busy, broker):
    async with proxying(settings(broker.address), busy_polling=busy):
        assert waits().polling.busy == busy


# how it stops


async def test_an_idle_proxy_stops_at_once_and_closes_all(broker):
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await ping(client)
        proxy.stop()
        await client.hears_the_end()
        client.close()
        await proxy.ends_with(0)
        assert not listens(proxy.listening.port)
        assert proxy.closes() == {"drained": 1}
    assert [event[0] for event in proxy.watcher.events][-2:] == ["closed", "close"]


async def test_ctrl_c_stops_it_too(broker):
    async with proxying(settings(broker.address)) as proxy:
        signal.raise_signal(signal.SIGINT)
        await proxy.ends_with(0)


async def test_exchanges_in_flight_finish_while_nobody_else_is_let_in(broker, withheld):
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await asked(broker, HEARTBEAT)
        proxy.stop()
        with trio.fail_after(PATIENCE):
            while listens(proxy.listening.port):
                await wait_all_tasks_blocked(0.005)
        withheld.set()
        await client.hears(PONG)
        await client.hears_the_end()
        client.close()
        await proxy.ends_with(0)


async def test_what_does_not_finish_in_time_is_cut_off(broker, withheld, autojump_clock):
    async with proxying(settings(broker.address), drain_seconds=10) as proxy:
        client = await proxy.client()
        await client.say(PING)
        while HEARTBEAT not in [key for key, _ in broker.asked]:
            await wait_all_tasks_blocked(0.005)
        began = trio.current_time()
        proxy.stop()
        await proxy.finished.wait()
        assert proxy.code == 1
        assert 10 <= trio.current_time() - began < 12
        assert proxy.closes() == {"drain_deadline": 1}
        withheld.set()
        assert await client.stream.receive_some() == b""
        while broker.open > 0:
            await wait_all_tasks_blocked(0.005)
    assert proxy.watcher.seen("closed") == [("closed", 1, Cause.DRAIN_DEADLINE)]
    assert proxy.watcher.events[-1] == ("close",)


async def test_a_second_signal_ends_the_wait_and_what_is_cut_off_is_said(broker, withheld, caplog):
    caplog.set_level(logging.INFO, logger="kafka-wiretap")
    async with proxying(settings(broker.address), drain_seconds=1e9) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await asked(broker, HEARTBEAT)
        proxy.stop()
        await wait_all_tasks_blocked(0.01)
        assert not proxy.finished.is_set()
        proxy.stop()
        await proxy.ends_with(1)
    said = [record.message for record in caplog.records]
    assert [one for one in said if one.startswith("stopping")] == ["stopping", "stopping at once"]
    (cut,) = [record for record in caplog.records if "cut off" in record.message]
    assert cut.keys["connections"] == 1
    assert proxy.watcher.events[-1] == ("close",)


async def test_two_signals_at_the_same_moment_let_the_recording_end_in_order(broker):
    """As a terminal and a service manager may send them."""
    async with proxying(settings(broker.address)) as proxy:
        proxy.stop()
        proxy.stop()
        await proxy.ends_with(0)
    assert proxy.watcher.events[-1] == ("close",)


@pytest.fixture
def hung_disk() -> Iterator[Watcher]:
    """A recorder that never ends, with something to write."""
    released = threading.Event()
    watcher = Watcher()
    watcher.close = released.wait
    watcher.unwritten = 4711
    yield watcher
    released.set()


async def test_a_recorder_that_hangs_at_the_end_is_left_and_what_is_lost_is_said(
    broker, hung_disk, caplog, autojump_clock
):
    async with proxying(settings(broker.address), watcher=hung_disk) as proxy:
        began = trio.current_time()
        proxy.stop()
        await proxy.finished.wait()
        assert proxy.code == 1
        assert proxy.proxy.hangs
        assert trio.current_time() - began < STOP_SECONDS
    (said,) = [record for record in caplog.records if "the recorder does not end" in record.message]
    assert said.keys["bytes"] == 4711


async def test_a_second_signal_while_the_recorder_hangs_ends_the_proxy_at_once(broker, hung_disk):
    async with proxying(settings(broker.address), watcher=hung_disk) as proxy:
        proxy.stop()
        with trio.fail_after(PATIENCE):
            while not proxy.proxy._stop._only_recorder:
                await wait_all_tasks_blocked(0.005)
        proxy.stop()
        await proxy.ends_with(1)


async def test_the_last_resort_knows_how_long_each_stop_may_take(broker, withheld):
    said: list[float] = []
    async with proxying(settings(broker.address), drain_seconds=100) as proxy:
        proxy.proxy.last_resort = SimpleNamespace(end_within=said.append)
        client = await proxy.client()
        await client.say(PING)
        await asked(broker, HEARTBEAT)
        for _ in range(2):
            proxy.stop()
            await wait_all_tasks_blocked(0.01)
        await proxy.ends_with(1)
    assert said == [100 + STOP_SECONDS, HURRIED_STOP_SECONDS]


async def test_without_time_to_drain_idle_connections_are_not_cut_off(broker):
    async with proxying(settings(broker.address), drain_seconds=0) as proxy:
        client = await proxy.client()
        await ping(client)
        await wait_all_tasks_blocked()
        proxy.stop()
        await proxy.ends_with(0)
        assert proxy.closes() == {"drained": 1}


async def test_a_client_that_does_not_close_is_waited_for_a_moment_only(broker, autojump_clock):
    async with proxying(settings(broker.address), drain_seconds=60) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await client.stream.receive_some()
        began = trio.current_time()
        proxy.stop()
        await proxy.finished.wait()
        assert proxy.code == 0
        assert trio.current_time() - began < LINGER_SECONDS + 1


async def test_a_connection_that_reaches_its_broker_while_the_proxy_stops_ends_there(broker, monkeypatch):
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        reached, real = trio.Event(), proxy.cluster.upstreams.connect

        async def late(*asked: Any) -> Any:
            await reached.wait()
            return await real(*asked)

        monkeypatch.setattr(proxy.cluster.upstreams, "connect", late)
        client = await proxy.client()
        await client.say(PING)
        await wait_all_tasks_blocked(0.01)
        proxy.stop()
        await wait_all_tasks_blocked(0.01)
        reached.set()
        await client.hears_the_end()
        client.close()
        await proxy.ends_with(0)
        assert proxy.closes() == {"drained": 1}
        assert (HEARTBEAT, 3) not in broker.asked


async def test_a_node_that_turns_up_while_the_proxy_stops_harms_nobody(broker):
    gate = trio.Event()
    broker.nodes = []
    async with proxying(settings(broker.address)) as proxy:
        await asked(broker, METADATA)

        async def told(key: int, version: int, correlation_id: int) -> bytes:
            await gate.wait()
            return response(correlation_id, b"pong")

        broker.answer = told
        client = await proxy.client()
        await client.say(PING, ASK_METADATA)
        await asked(broker, HEARTBEAT)
        proxy.stop()
        await wait_all_tasks_blocked(0.01)
        broker.nodes = [Node(7, HOST, 9)]
        gate.set()
        await client.hears(PONG)
        (node,) = read(METADATA, 12, await client.hear_frame())["brokers"]
        assert not listens(node["port"])
        client.close()
        await proxy.ends_with(0)


async def test_the_child_is_looked_after_until_the_last_connection_has_ended(broker, withheld, monkeypatch):
    events: list[Any] = []

    async def look_after(command: list[str], has_ended: Callable[[], None]) -> None:
        events.append(command)
        has_ended()
        try:
            await trio.sleep_forever()
        finally:
            events.append("left alone")

    monkeypatch.setattr(server, "look_after", look_after)
    async with proxying(settings(broker.address), child=["compactor"]) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await asked(broker, HEARTBEAT)
        proxy.stop()
        await wait_all_tasks_blocked(0.01)
        assert events == [["compactor"]]
        withheld.set()
        await client.hears(PONG)
        client.close()
        await proxy.ends_with(0)
        assert proxy.watcher.seen("child ended")
    assert events == [["compactor"], "left alone"]


# faults


async def test_a_fault_in_one_connection_ends_it_alone(broker, caplog):
    bad = request(HEARTBEAT, 3, 666)

    def arrives(direction: Direction, chunk: bytes) -> None:
        if chunk == bad:
            raise RuntimeError("what nobody thought of")

    async with proxying(settings(broker.address), watcher=Watcher(arrives)) as proxy:
        well, ill = await proxy.client(), await proxy.client()
        await ping(well)
        await ping(ill)
        await ill.say(bad)
        await ill.hears_the_end()
        await ping(well)
        assert proxy.closes() == {"proxy_fault": 1}
        assert proxy.watcher.seen("closed") == [("closed", 2, Cause.PROXY_FAULT)]
    fault = next(record for record in caplog.records if record.levelno == logging.ERROR)
    assert fault.exc_info
    assert fault.keys == {"connection": 2}


async def test_a_fault_before_the_first_byte_leaves_no_broker_connection_behind(broker, monkeypatch):
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)

        def opened(facts: Any, talk: Any) -> None:
            raise RuntimeError("what nobody thought of")

        monkeypatch.setattr(proxy.watcher, "opened", opened)
        client = await proxy.client()
        await client.hears_the_end()
        assert await closed(proxy) == {"proxy_fault": 1}


async def test_a_fault_of_one_task_while_the_others_are_cancelled_ends_nothing_else(
    broker, withheld, monkeypatch, autojump_clock
):
    async def faulty(relay: Relay) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise RuntimeError("on the way out")

    monkeypatch.setattr(Relay, "_requests", faulty)
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await trio.sleep(1)
        proxy.stop()
        await proxy.finished.wait()
        assert proxy.code == 1
        assert proxy.closes() == {"proxy_fault": 1}
        assert await client.stream.receive_some() == b""


async def test_a_recorder_that_fails_at_the_end_of_a_connection_ends_nothing_else(broker, monkeypatch):
    async with proxying(settings(broker.address)) as proxy:

        def closed_badly(connection: int, cause: Cause, at_ns: int) -> None:
            raise RuntimeError("what nobody thought of")

        monkeypatch.setattr(proxy.watcher, "closed", closed_badly)
        for number in (1, 2):
            client = await proxy.client()
            await ping(client)
            client.close()
            assert await closed(proxy, number) == {"proxy_fault": number}


class Acceptor:
    """A listener's socket that fails as often as it is told, and then accepts."""

    def __init__(self, sock: trio.socket.SocketType, failures: list[int]) -> None:
        self._sock, self.failures = sock, failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    async def accept(self) -> Any:
        if self.failures:
            await trio.lowlevel.checkpoint()
            number = self.failures.pop(0)
            raise OSError(number, "as told")
        return await self._sock.accept()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED, errno.EPROTO])
async def test_connections_that_cannot_be_accepted_do_not_end_the_proxy(
    number, broker, monkeypatch, autojump_clock, caplog
):
    acceptors = []
    real = trio.SocketListener

    def listener(sock: trio.socket.SocketType) -> trio.SocketListener:
        made = real(sock)
        made.socket = Acceptor(sock, [number] * 20)
        acceptors.append(made.socket)
        return made

    monkeypatch.setattr(trio, "SocketListener", listener)
    async with proxying(settings(broker.address)) as proxy:
        await trio.sleep(10)
        assert acceptors[0].failures == []
        client = await proxy.client()
        await client.say(PING)
        assert await client.stream.receive_some() == PONG
    said = [record for record in caplog.records if "can't be accepted" in record.message]
    listeners = 2
    assert len(said) == (0 if number == errno.ECONNABORTED else listeners)


async def test_a_client_that_has_gone_before_it_was_accepted_harms_nobody(broker):
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        for _ in range(5):
            gone = socket.create_connection(tuple(socket_address(proxy)))
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            gone.close()
        await ping(await proxy.client())


def socket_address(proxy: Running) -> tuple[str, int]:
    return proxy.listening.host, proxy.listening.port


async def test_an_answer_reaches_a_slow_client_though_its_broker_closes_and_it_sends_on(broker):
    size = 2 * 1024 * 1024
    done = trio.Event()

    async def answer_and_close(key: int, version: int, correlation_id: int) -> bytes | None:
        if done.is_set():
            return None
        done.set()
        return response(correlation_id, bytes(size))

    broker.answer = answer_and_close
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await client.say(PING, PING)
        first = await client.hear(1000)
        await closed(proxy)
        await client.say(PING)
        assert first + await client.hear(size + 8 - 1000) == response(1, bytes(size))
        client.close()


# settings that turn out wrong


def test_a_busy_listen_port_is_a_bad_setting_and_the_recording_is_closed():
    watcher = Watcher()
    with bind(Address(HOST, 0)) as sock:
        busy = Address(*sock.getsockname())
        with pytest.raises(BadSetting, match=r"--listen 127.* can't be had \(Address already in use\); right would be"):
            net.run(whole(settings(NOWHERE, listen=busy)), watcher)
    assert watcher.events == [("close",)]


def test_a_busy_metrics_port_is_a_bad_setting():
    with bind(Address(HOST, 0)) as sock:
        busy = Address(*sock.getsockname())
        with pytest.raises(BadSetting, match=r"--metrics 127.* can't be had .*; right would be .* 127.0.0.1:9464"):
            net.run(whole(settings(NOWHERE), metrics=busy))


def test_a_node_that_cannot_be_listened_for_is_a_bad_setting():
    with pytest.raises(BadSetting, match=r"--node 1=192.0.2.1:9094 can't be listened on"):
        net.run(whole(settings(NOWHERE, named={1: Address("192.0.2.1", 9094)})))


def test_an_unreadable_state_file_is_a_bad_setting(tmp_path):
    (tmp_path / "nodes.json").write_text("not json")
    with pytest.raises(BadSetting, match=r"--state .* can't be read"):
        net.run(whole(settings(NOWHERE, state=tmp_path / "nodes.json")))


def test_what_is_no_setting_comes_out_as_it_is():
    def ready(listening: Address, metrics: Address | None) -> None:
        raise RuntimeError("nothing to do with settings")

    with pytest.raises(ExceptionGroup) as raised:
        net.run(whole(settings(NOWHERE)), None, None, ready)
    assert raised.group_contains(RuntimeError)


def test_a_run_ends_with_the_exit_code():
    assert net.run(whole(settings(NOWHERE)), None, None, stopped) == 0


def test_a_run_of_which_a_thread_still_hangs_is_left_with_its_exit_code(monkeypatch, hung_disk):
    left: list[int] = []
    monkeypatch.setattr(server, "exit_now", left.append)
    monkeypatch.setattr(stopping, "RECORDER_SECONDS", 0)
    assert net.run(whole(settings(NOWHERE)), hung_disk, None, stopped) == 1
    assert left == [1]


def stopped(*where: Any) -> None:
    signal.raise_signal(signal.SIGTERM)


async def test_flags_that_win_over_the_state_file_are_said(broker, caplog):
    with socket.socket() as free:
        free.bind((HOST, 0))
        named = Address(*free.getsockname())
    async with proxying(settings(broker.address, named={1: named}, remembered={1: 40123})) as proxy:
        assert proxy.cluster.nodes.advertised(1) == named
    assert "node 1 does not keep port 40123 of the state file" in caplog.text


@pytest.fixture
def few_files() -> Iterator[None]:
    """The usual limit on open files, or less."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_proxy_may_open_as_many_files_as_it_is_allowed(few_files):
    net.run(whole(settings(NOWHERE)), None, None, lambda *where: signal.raise_signal(signal.SIGTERM))
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limit == most


# the admin page


async def page(proxy: Running, path: str) -> tuple[int, str]:
    def get() -> tuple[int, str]:
        assert proxy.metrics is not None
        connection = http.client.HTTPConnection(proxy.metrics.host, proxy.metrics.port, timeout=PATIENCE)
        connection.request("GET", path)
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()

    return await trio.to_thread.run_sync(get)


async def test_metrics_count_what_passes(broker):
    async with proxying(settings(broker.address), metrics=Address(HOST, 0)) as proxy:
        client = await proxy.client()
        await ping(client)
        await proxy.nodes(1)
        await wait_all_tasks_blocked()
        status, text = await page(proxy, "/metrics")
    assert status == 200
    assert 'kafka_wiretap_exchanges_total{api="Heartbeat",cluster="main",version="3"} 1.0' in text
    assert 'kafka_wiretap_connections{cluster="main"} 1.0' in text
    assert f'upstream="{broker.address}",usual_port="yes"' in text


async def test_a_proxy_is_ready_once_it_has_reached_upstream(nursery):
    broker = Broker()
    address = await broker.start(nursery)
    broker.stop()
    await wait_all_tasks_blocked()
    async with proxying(settings(address), metrics=Address(HOST, 0)) as proxy:
        assert await page(proxy, "/readyz") == (503, f"no upstream broker could be reached ({address})\n")
        assert await page(proxy, "/livez") == (200, "alive\n")
        await broker.start(nursery, port=address.port)
        await ping(await proxy.client())
        assert await page(proxy, "/readyz") == (200, "ready\n")


async def test_the_admin_page_says_when_the_event_loop_is_stuck(broker):
    async with proxying(settings(broker.address), metrics=Address(HOST, 0)) as proxy:
        assert proxy.metrics is not None
        asked = socket.create_connection((proxy.metrics.host, proxy.metrics.port), PATIENCE)
        asked.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        # the loop waits for the page, and does nothing else
        answer = asked.makefile("rb").read()
        asked.close()
        assert b" 503 " in answer.splitlines()[0]
        assert b"event loop" in answer
        assert await page(proxy, "/livez") == (200, "alive\n")


async def test_systemd_is_told_how_the_proxy_is(broker, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "1000000000")
        async with proxying(settings(broker.address), reload=nothing_to_read) as proxy:
            heard = [await trio.to_thread.run_sync(manager.recv, 4096) for _ in range(2)]
            assert sorted(heard) == [b"READY=1", b"WATCHDOG=1"]
            signal.raise_signal(signal.SIGHUP)
            heard = [await trio.to_thread.run_sync(manager.recv, 4096) for _ in range(2)]
            assert [message.split(b"\n")[0] for message in heard] == [b"RELOADING=1", b"READY=1"]
            proxy.stop()
            await proxy.ends_with(0)
        assert manager.recv(4096) == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000"


def nothing_to_read() -> ReloadedSettings:
    raise BadSetting("there is no file")


async def test_a_capture_that_cannot_be_written_is_not_ready(broker):
    async with proxying(settings(broker.address), metrics=Address(HOST, 0)) as proxy:
        await ping(await proxy.client())
        proxy.watcher.failed = 1
        assert await page(proxy, "/readyz") == (503, "the capture can't be written\n")
        await ping(await proxy.client())


async def test_a_proxy_that_stops_is_not_ready(broker, withheld):
    async with proxying(settings(broker.address), metrics=Address(HOST, 0)) as proxy:
        client = await proxy.client()
        await client.say(PING)
        await asked(broker, HEARTBEAT)
        proxy.stop()
        await wait_all_tasks_blocked(0.01)
        assert await page(proxy, "/readyz") == (503, "stopping\n")
        withheld.set()
        await client.hears(PONG)
        client.close()
        await proxy.ends_with(0)


async def test_the_admin_page_may_be_served_everywhere(broker):
    async with proxying(settings(broker.address), metrics=Address("*", 0)) as proxy:
        proxy.metrics = Address(HOST, proxy.metrics.port)
        assert (await page(proxy, "/livez"))[0] == 200


def test_what_is_loaded_is_not_looked_through_for_garbage_again():
    server._freeze_loaded_objects()
    left = gc.get_freeze_count()
    gc.unfreeze()
    assert left > 10_000


def test_a_name_that_is_no_text_is_no_fault_and_what_else_python_cannot_raise_is(monkeypatch: pytest.MonkeyPatch):
    printed: list[Any] = []
    monkeypatch.setattr(sys, "__unraisablehook__", printed.append)
    no_text = UnicodeDecodeError("ascii", b"\xff", 0, 1, "ordinal not in range(128)")
    for error, about in ((no_text, b"\xff"), (no_text, "a codec"), (ZeroDivisionError(), b"\xff")):
        server._log_unraisable(SimpleNamespace(exc_value=error, object=about))
    assert (printed[0].exc_value, printed[0].object) == (no_text, "a codec")
    assert len(printed) == 2


async def test_a_broker_of_0_7_is_ready_without_a_question_and_no_node_is_listened_for(nursery):
    broker = Broker()
    await broker.start(nursery)
    frame = framed(b"\0\1" + bytes(6))
    async with proxying(settings(broker.address, dialect=Dialect.KAFKA_07)) as proxy:
        with trio.fail_after(PATIENCE):
            while not proxy.cluster.upstreams.reached:
                await wait_all_tasks_blocked(0.005)
        assert proxy.proxy._is_ready() == (True, "ready")
        assert broker.asked == []
        assert proxy.watcher.seen("node") == []
        client = await proxy.client()
        await client.say(frame)
        # this broker answers what it does not know with a pong, which is an answer by its place
        await client.hears(response(0, b"pong"))
        client.close()
        assert proxy.cluster.nodes.listeners() == []
        assert broker.frames == [frame[4:]]


@pytest.mark.parametrize("where", ["accepted", "towards_client"])
async def test_a_fault_in_a_connection_that_begins_ends_it_alone(where, broker, monkeypatch, caplog):
    async with proxying(settings(broker.address)) as proxy:
        with monkeypatch.context() as patch:
            patch.setattr(cluster, where, lambda *_: 1 // 0)
            unlucky = await proxy.client()
            with trio.fail_after(PATIENCE):
                while "fault in a connection that begins" not in caplog.text:
                    await wait_all_tasks_blocked(0.005)
        await unlucky.hears_the_end()
        client = await proxy.client()
        await ping(client)
        client.close()
    assert [record for record in caplog.records if record.exc_info]
