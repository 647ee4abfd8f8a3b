"""Tests of stopping a proxy: open exchanges finish, hanging ones are abandoned, cut ones are logged."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy import net
from proxy.conversation import Cause
from proxy.mapping.nodes import Node
from proxy.net import server, stopping
from proxy.net.cluster import LINGER_SECONDS
from proxy.net.stopping import HURRIED_STOP_SECONDS, STOP_SECONDS
from proxy.wire.keys import HEARTBEAT, METADATA
from tests.proxy.conversation.script import response
from tests.proxy.net.cluster import ASK_METADATA, PING, PONG, asked, ping
from tests.proxy.net.peers import HOST, NOWHERE, PATIENCE
from tests.proxy.net.proxies import proxying, stopped
from tests.proxy.net.relays import Watcher, listens, settings, whole
from tests.proxy.rewrite.responses import read


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


async def test_exchanges_in_flight_finish_while_no_client_is_admitted(broker, withheld):
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


async def test_exchanges_beyond_the_drain_deadline_are_cut(broker, withheld, autojump_clock):
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


async def test_a_second_signal_ends_the_wait_and_the_cut_connections_are_logged(broker, withheld, caplog):
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
    """A terminal and a service manager may send them together."""
    async with proxying(settings(broker.address)) as proxy:
        proxy.stop()
        proxy.stop()
        await proxy.ends_with(0)
    assert proxy.watcher.events[-1] == ("close",)


@pytest.fixture
def hung_disk() -> Iterator[Watcher]:
    """A recorder that never ends, with unwritten entries."""
    released = threading.Event()

    class Hung(Watcher):
        def close(self) -> None:
            released.wait()

    watcher = Hung()
    watcher.unwritten = 4711
    yield watcher
    released.set()


async def test_a_recorder_that_hangs_at_the_end_is_abandoned_and_its_losses_are_logged(
    broker, hung_disk, caplog, jumping_clock
):
    async with proxying(settings(broker.address), watcher=hung_disk) as proxy:
        began = trio.current_time()
        proxy.stop()
        await proxy.finished.wait()
        assert proxy.code == 1
        assert proxy.proxy.recorder_hangs
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


async def test_the_last_resort_knows_how_long_each_stop_may_take(broker, withheld, monkeypatch):
    said: list[float] = []
    async with proxying(settings(broker.address), drain_seconds=100) as proxy:
        monkeypatch.setattr(proxy.proxy, "last_resort", SimpleNamespace(end_within=said.append))
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


async def test_a_node_found_while_the_proxy_stops_does_no_harm(broker):
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

    async def look_after(command: list[str], on_end: Callable[[], None], given: bytes) -> None:
        events.append(command)
        on_end()
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


@pytest.mark.real
def test_a_run_of_which_a_thread_still_hangs_is_left_with_its_exit_code(monkeypatch, hung_disk):
    left: list[int] = []
    monkeypatch.setattr(server, "exit_now", left.append)
    monkeypatch.setattr(stopping, "RECORDER_SECONDS", 0)
    assert net.run(net.Proxy(whole(settings(NOWHERE)), hung_disk, None, stopped)) == 1
    assert left == [1]


async def test_a_recording_with_gaps_ends_with_another_exit_code_and_says_what_is_lost(broker, caplog):
    async with proxying(settings(broker.address)) as proxy:
        proxy.watcher.losses = {"gaps": 2, "bytes": 1702}
        proxy.stop()
        await proxy.ends_with(1)
    (line,) = [record for record in caplog.records if record.getMessage() == "traffic was not recorded"]
    assert line.levelname == "WARNING"
