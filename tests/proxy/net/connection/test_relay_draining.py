"""Tests of connections when the proxy stops, or after a long idle time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.net.connection.relay import Relay
from proxy.wire.keys import SASL_HANDSHAKE
from tests.proxy.conversation.script import produce
from tests.proxy.net.frames import (
    answer,
    ask,
    divert,
    ping,
    pong,
)
from tests.proxy.net.relays import Relaying, Watcher, relaying


class _Socket:
    """A socket with a scripted `recv`."""

    def __init__(self, sock: Any, recv: Any) -> None:
        self._sock, self.recv = sock, recv

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def hold_answers(talk: Relaying) -> trio.Event:
    """The relay takes responses from the broker, and sends them to the client when this is set."""
    leave, send = trio.Event(), talk.to_client.send

    async def held(pieces: Any) -> None:
        await leave.wait()
        await send(pieces)

    divert(talk.to_client, held)
    return leave


async def exchange(talk: Relaying, number: int) -> None:
    """A request and its response; after it no login can be under way."""
    await talk.client.say(ping(number))
    await talk.broker.hears(ping(number))
    await talk.broker.say(pong(number))
    await talk.client.hears(pong(number))


async def test_an_idle_connection_drains_at_once():
    async with relaying() as talk:
        await exchange(talk, 1)
        await wait_all_tasks_blocked()
        assert talk.relay.may_end_now
        talk.relay.drain()
        await talk.ends_with(Cause.DRAINED)


LEAVES = pytest.mark.parametrize(
    ("leave", "cause"),
    [(Relay.drain, Cause.DRAINED), (Relay.end_as_idle, Cause.IDLE), (Relay.end_as_aged, Cause.AGED)],
)


@LEAVES
async def test_a_request_that_comes_at_that_moment_is_answered_or_not_taken(leave: Any, cause: Cause, monkeypatch):
    async with relaying() as talk:
        await exchange(talk, 7)
        await wait_all_tasks_blocked(0.01)
        receive = talk.to_client._socket.recv

        def leaves_meanwhile(most: int) -> bytes:
            # between the kernel's event that bytes can be read, and the reading
            leave(talk.relay)
            return receive(most)

        monkeypatch.setattr(talk.to_client, "_socket", _Socket(talk.to_client._socket, leaves_meanwhile))
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(cause)


@pytest.mark.parametrize(("leave", "cause"), [(Relay.drain, Cause.DRAINED), (Relay.end_as_aged, Cause.AGED)])
async def test_draining_lets_answers_come_and_reads_no_more_requests(leave: Any, cause: Cause):
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await wait_all_tasks_blocked()
        leave(talk.relay)
        await wait_all_tasks_blocked()
        await talk.client.say(ping(2))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(cause)
        await talk.broker.hears_the_end()


async def test_an_old_connection_ends_after_its_login():
    async with relaying() as talk:
        login = ask(SASL_HANDSHAKE, 1, 1)
        await talk.client.say(login)
        await talk.broker.hears(login)
        await wait_all_tasks_blocked()
        talk.relay.end_as_aged()
        await wait_all_tasks_blocked()
        await talk.broker.say(answer(SASL_HANDSHAKE, 1, correlation_id=1))
        await talk.client.hears(answer(SASL_HANDSHAKE, 1, correlation_id=1))
        await exchange(talk, 2)
        assert not talk.finished.is_set()
        talk.relay.end_as_aged()
        await talk.ends_with(Cause.AGED)


async def test_an_old_connection_whose_request_never_ends_is_still_ended_as_idle():
    async with relaying() as talk:
        await exchange(talk, 1)
        await talk.client.say(ping(2)[:20])
        await talk.broker.hears(ping(2)[:20])
        await wait_all_tasks_blocked()
        talk.relay.end_as_aged()
        await wait_all_tasks_blocked()
        assert talk.relay.is_quiet
        talk.relay.end_as_idle()
        await talk.ends_with(Cause.IDLE)


@pytest.mark.parametrize(("leave", "cause"), [(Relay.drain, Cause.DRAINED), (Relay.end_as_aged, Cause.AGED)])
async def test_requests_without_responses_that_were_read_are_passed_on(leave: Any, cause: Cause, monkeypatch):
    unanswered = produce(8, 2, acks=0, tail=b"records") + produce(8, 3, acks=0, tail=b"records")
    async with relaying() as talk:
        await exchange(talk, 1)
        await wait_all_tasks_blocked(0.01)
        receive = talk.to_client._socket.recv

        def leaves_behind(most: int) -> bytes:
            read: bytes = receive(most)
            leave(talk.relay)
            return read

        monkeypatch.setattr(talk.to_client, "_socket", _Socket(talk.to_client._socket, leaves_behind))
        await talk.client.say(unanswered)
        await talk.broker.hears(unanswered)
        await talk.ends_with(cause)


async def test_draining_reads_on_to_the_end_of_a_frame():
    async with relaying() as talk:
        await talk.client.say(ping(1)[:20])
        await talk.broker.hears(ping(1)[:20])
        await wait_all_tasks_blocked()
        talk.relay.drain()
        await wait_all_tasks_blocked()
        assert not talk.relay.may_end_now
        await talk.client.say(ping(1)[20:])
        await talk.broker.hears(ping(1)[20:])
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)


async def test_draining_reads_on_to_the_end_of_a_head():
    async with relaying() as talk:
        await talk.client.say(ping(1)[:6])
        await wait_all_tasks_blocked(0.01)
        talk.relay.drain()
        await talk.client.say(ping(1)[6:])
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)


@pytest.mark.parametrize("said", [0, 2, 6, 20])
async def test_draining_stops_at_the_end_of_a_frame_though_the_client_keeps_sending(said: int):
    async with relaying() as talk:
        await talk.client.say(ping(7) + ping(1)[:said])
        await talk.broker.hears(ping(7))
        await wait_all_tasks_blocked(0.01)
        talk.relay.drain()
        await wait_all_tasks_blocked(0.01)
        await talk.client.say(ping(1)[said:] + ping(2)[:9])
        await talk.broker.say(pong(7))
        await talk.client.hears(pong(7))
        if said:
            await talk.broker.say(pong(1))
            await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)
        assert talk.talk.offsets[Direction.REQUEST] == len(ping(7) + (ping(1) if said else b""))


async def test_an_answer_that_a_slow_client_is_taking_is_not_cut_off_by_draining():
    async with relaying() as talk:
        leave = hold_answers(talk)
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
        assert not talk.talk.in_flight
        talk.relay.drain()
        await wait_all_tasks_blocked(0.01)
        assert not talk.relay.may_end_now
        assert not talk.finished.is_set()
        leave.set()
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.DRAINED)


async def test_an_answer_that_a_slow_client_is_taking_is_not_cut_off_by_its_bad_request():
    async with relaying() as talk:
        leave = hold_answers(talk)
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await wait_all_tasks_blocked(0.01)
        await talk.client.say(b"\xff\xff\xff\xff")
        await wait_all_tasks_blocked(0.01)
        assert not talk.finished.is_set()
        leave.set()
        await talk.client.hears(pong(1))
        await talk.ends_with(Cause.BAD_LENGTH)


async def test_a_connection_that_opens_while_the_proxy_stops_ends_at_once():
    async with relaying() as talk:
        talk.relay.drain()
        await talk.ends_with(Cause.DRAINED)


async def test_draining_waits_for_the_answers_of_a_client_that_sent_its_end_of_stream():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.client.finish()
        await talk.broker.hears(ping(1))
        await wait_all_tasks_blocked()
        talk.relay.drain()
        assert not talk.relay.may_end_now
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))


async def test_a_connection_cut_by_draining_has_the_cause_drain_deadline():
    async with relaying() as talk:
        await talk.client.say(ping(1))
        await talk.broker.hears(ping(1))
    assert talk.relay.cause is Cause.DRAIN_DEADLINE


async def test_a_fault_ends_the_connection_with_its_name():
    def fault(direction: Direction, chunk: bytes) -> None:
        raise RuntimeError("an observer's")

    async with relaying(Watcher(fault)) as talk:
        await talk.client.say(ping(1))
        with pytest.raises(ExceptionGroup) as raised:
            await talk.ends_with(Cause.PROXY_FAULT)
        assert raised.group_contains(RuntimeError, match="an observer's")
        assert talk.relay.cause is Cause.PROXY_FAULT
