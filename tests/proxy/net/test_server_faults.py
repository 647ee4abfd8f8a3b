"""Tests of faults of connections, clients and recorders: each ends no more than it must."""

from __future__ import annotations

import errno
import logging
import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.net import cluster, server
from proxy.net.connection.relay import Relay
from proxy.wire.keys import HEARTBEAT
from tests.proxy.conversation.script import request, response
from tests.proxy.net.cluster import PING, PONG, ping
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.proxies import Running, closed, proxying
from tests.proxy.net.relays import Watcher, settings


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


async def test_a_fault_before_the_first_request_leaves_no_broker_connection_behind(broker, monkeypatch):
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)

        def opened(facts: Any, talk: Any) -> None:
            raise RuntimeError("what nobody thought of")

        monkeypatch.setattr(proxy.watcher, "opened", opened)
        client = await proxy.client()
        await client.say(PING)
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
        await client.say(PING)
        await trio.sleep(1)
        proxy.stop()
        await proxy.finished.wait()
        assert proxy.code == 1
        assert proxy.closes() == {"proxy_fault": 1}
        assert await client.stream.receive_some() == b""


async def test_a_recorder_that_fails_at_the_end_of_a_connection_ends_nothing_else(broker, monkeypatch):
    async with proxying(settings(broker.address)) as proxy:

        def closed_badly(*closing: Any) -> None:
            raise RuntimeError("what nobody thought of")

        monkeypatch.setattr(proxy.watcher, "closed", closed_badly)
        for number in (1, 2):
            client = await proxy.client()
            await ping(client)
            client.close()
            assert await closed(proxy, number) == {"proxy_fault": number}


class Acceptor:
    """A listener's socket whose accept fails so often, and then works."""

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


@pytest.mark.real
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED, errno.EPROTO])
async def test_connections_that_cannot_be_accepted_do_not_end_the_proxy(
    number, broker, monkeypatch, autojump_clock, caplog
):
    acceptors: list[Acceptor] = []
    real = trio.SocketListener

    def listener(sock: trio.socket.SocketType) -> trio.SocketListener:
        made = real(sock)
        acceptors.append(Acceptor(sock, [number] * 20))
        monkeypatch.setattr(made, "socket", acceptors[-1])
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


async def test_a_client_that_left_before_it_was_accepted_does_no_harm(broker):
    async with proxying(settings(broker.address)) as proxy:
        await proxy.nodes(1)
        for _ in range(5):
            gone = socket.create_connection(socket_address(proxy))
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


def test_a_name_that_is_no_text_is_no_fault_and_what_else_python_cannot_raise_is(monkeypatch: pytest.MonkeyPatch):
    printed: list[Any] = []
    monkeypatch.setattr(sys, "__unraisablehook__", printed.append)
    no_text = UnicodeDecodeError("ascii", b"\xff", 0, 1, "ordinal not in range(128)")
    for error, about in ((no_text, b"\xff"), (no_text, "a codec"), (ZeroDivisionError(), b"\xff")):
        server._log_unraisable(SimpleNamespace(exc_value=error, object=about))
    assert (printed[0].exc_value, printed[0].object) == (no_text, "a codec")
    assert len(printed) == 2


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
