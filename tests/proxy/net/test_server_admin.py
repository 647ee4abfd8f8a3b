"""Tests of a running proxy's reports: metrics, readiness, the service manager."""

from __future__ import annotations

import http.client
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any

import trio
from trio.testing import wait_all_tasks_blocked

from proxy.mapping.nodes import Node
from proxy.net.children import Companion
from proxy.net.reloading import ReloadedSettings
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.wire.dialects import Dialect
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.script import response
from tests.proxy.net.cluster import ASK_METADATA, PING, PONG, Broker, asked, ping
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.proxies import Running, proxying
from tests.proxy.net.relays import settings


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
        # the loop is blocked until the page is read
        answer = asked.makefile("rb").read()
        asked.close()
        assert b" 503 " in answer.splitlines()[0]
        assert b"event loop" in answer
        assert await page(proxy, "/livez") == (200, "alive\n")


async def test_systemd_is_notified_of_the_proxys_state(broker, tmp_path, monkeypatch):
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


async def test_a_capture_that_is_not_shipped_is_said_and_the_proxy_stays_ready(broker, monkeypatch):
    events: list[Any] = []

    async def look_after(command: list[str], on_end: Callable[[], None], *, on_hang: None) -> None:
        events.append(command)
        on_end()
        await trio.sleep_forever()

    monkeypatch.setattr("proxy.net.server.look_after", look_after)
    numbers = {"ship_failing": 0.0, "ship_lag_bytes": 7.0}
    companion = Companion(["ship"], lambda: events.append("ended"), lambda: numbers)
    async with proxying(settings(broker.address), metrics=Address(HOST, 0), companions=[companion]) as proxy:
        await ping(await proxy.client())
        assert events == [["ship"], "ended"]
        assert await page(proxy, "/readyz") == (200, "ready\n")
        numbers["ship_failing"] = 1.0
        assert await page(proxy, "/readyz") == (200, "ready; the capture is not shipped\n")
        _, text = await page(proxy, "/metrics")
        assert "kafka_wiretap_recorder_ship_lag_bytes 7.0" in text


async def test_a_proxy_that_refuses_answers_as_there_are_too_many_nodes_is_not_ready(broker, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (20, 20))
    async with proxying(settings(broker.address), metrics=Address(HOST, 0)) as proxy:
        await proxy.nodes(1)
        broker.nodes = [Node(number, "up.invalid", 9092) for number in range(11)]
        for _ in range(2):
            client = await proxy.client()
            await client.say(ASK_METADATA)
            await client.hears_the_end()
            reason = "more nodes than 10, for half of the files that may be open"
            assert await page(proxy, "/readyz") == (503, f"answers that name nodes are refused ({reason})\n")
        _, text = await page(proxy, "/metrics")
        assert 'kafka_wiretap_node_listeners{cluster="main"} 1.0' in text
        assert 'kafka_wiretap_node_listeners_limit{cluster="main"} 10.0' in text
        broker.nodes = None
        client = await proxy.client()
        await client.say(ASK_METADATA)
        await client.hear_frame()
        assert await page(proxy, "/readyz") == (200, "ready\n")


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
        assert proxy.metrics is not None
        proxy.metrics = Address(HOST, proxy.metrics.port)
        assert (await page(proxy, "/livez"))[0] == 200


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
        # this broker answers unknown requests with a pong, which counts as a response by its order
        await client.hears(response(0, b"pong"))
        client.close()
        assert proxy.cluster.nodes.listeners() == []
        assert broker.frames == [frame[4:]]
