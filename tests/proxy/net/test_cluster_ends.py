"""Tests of connections that are refused, or end: each for its cause."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.net.brokers.upstreams import Upstreams
from proxy.net.change import commit
from proxy.net.connection.causes import LINGER_AT_CLIENT
from proxy.schema.addresses import Address
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT, SASL_HANDSHAKE
from tests.proxy.conversation.script import produce, request, response
from tests.proxy.net.cluster import PING, PONG, Broker, ping
from tests.proxy.net.peers import HOST, PATIENCE, Peer
from tests.proxy.net.proxies import ended, proxying
from tests.proxy.net.relays import settings


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
        Cause.AGED,
        Cause.UNKNOWN_NAME,
        Cause.LEADS_BACK,
        Cause.DRAINED,
        Cause.PROXY_FAULT,
    } == LINGER_AT_CLIENT


@pytest.mark.parametrize("where", ["a cluster's", "everybody's", "an address'"])
async def test_connections_above_the_limit_are_closed_at_once_and_let_in_when_there_is_room(where, broker, caplog):
    limits = {"a cluster's": "connection_limit", "an address'": "address_limit"}
    of_cluster: dict[str, Any] = {limits[where]: 2} if where in limits else {}
    others: dict[str, Any] = {} if where in limits else {"connection_limit": 2}
    async with proxying(settings(broker.address, **of_cluster), **others) as proxy:
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


@asynccontextmanager
async def polling_beside_one_that_ends(broker: Broker, cause: Cause, **limit: float) -> AsyncIterator[tuple[Any, Peer]]:
    """A proxy, and a client whose long poll was answered once another client's connection had ended for this cause."""
    may_answer = trio.Event()

    async def answer(key: int, version: int, correlation_id: int) -> bytes:
        if correlation_id == 2:
            await may_answer.wait()
        return response(correlation_id, b"pong")

    broker.answer = answer
    limits: dict[str, Any] = {**limit}
    async with proxying(settings(broker.address, **limits)) as proxy:
        polling, other = await proxy.client(), await proxy.client()
        await polling.say(request(HEARTBEAT, 3, 2))
        await ping(other)
        await other.hears_the_end()
        other.close()
        await ended(proxy, cause)
        may_answer.set()
        await polling.hears(response(2, b"pong"))
        yield proxy, polling


async def test_an_idle_connection_is_ended_and_one_that_waits_for_an_answer_is_not(broker: Broker, autojump_clock):
    async with polling_beside_one_that_ends(broker, Cause.IDLE, idle_seconds=20):
        pass


async def test_an_old_connection_ends_once_its_long_poll_is_answered(broker: Broker, autojump_clock):
    async with polling_beside_one_that_ends(broker, Cause.AGED, age_seconds=20) as (proxy, polling):
        await polling.hears_the_end()
        polling.close()
        await ended(proxy, Cause.AGED, Cause.AGED)


async def test_an_age_that_is_set_while_connections_are_open_ends_them(broker: Broker):
    async with proxying(settings(broker.address)) as proxy:
        client = await proxy.client()
        await ping(client)
        assert commit(await proxy.cluster.changes_to(settings(broker.address, age_seconds=0.08), None))
        await client.hears_the_end()
        client.close()
        await ended(proxy, Cause.AGED)


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
            asked = PING + b"".join(produce(number, 2, acks=0, tail=bytes(1000)) for number in range(14))
            await client.say(asked)
            broker = Peer((await trio.to_thread.run_sync(listener.accept))[0])
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


async def test_bytes_behind_a_response_out_of_turn_are_counted_where_the_connection_is_closed(monkeypatch):
    monkeypatch.setattr(Upstreams, "keep_discovering", lambda self: trio.sleep_forever())
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        async with proxying(settings(Address(*listener.getsockname()))) as proxy:
            client = await proxy.client()
            await client.say(PING)
            broker = Peer((await trio.to_thread.run_sync(listener.accept))[0])
            await broker.hears(PING)
            await broker.say(response(99, b"pong"))
            await broker.hears_the_end()
            await broker.say(b"12345")
            broker.close()
            client.close()
            await ended(proxy, Cause.UNEXPECTED_RESPONSE)
        assert [decision.get("unread_bytes") for decision in proxy.watcher.decisions] == [5]
        assert proxy.watcher.bytes[Direction.RESPONSE] == response(99, b"pong")
