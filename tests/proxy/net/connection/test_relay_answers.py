"""Tests of the proxy's own responses, each in its order."""

from __future__ import annotations

import pytest
from trio.testing import wait_all_tasks_blocked

from proxy.net.connection.relay import MAX_OWN_ANSWERS
from proxy.net.sockets.streams import RECEIVE_SIZE
from proxy.rewrite import api_versions
from proxy.units import MIB
from proxy.wire.keys import API_VERSIONS
from tests.proxy.conversation import script
from tests.proxy.conversation.script import request
from tests.proxy.net.frames import NEWER, SMALL, api_versions_newer, ping, pong, said_until_stuck, take_now
from tests.proxy.net.relays import relaying


async def test_api_versions_newer_than_known_is_answered_with_error_35():
    async with relaying() as talk:
        await talk.client.say(api_versions_newer(5))
        await talk.client.hears(api_versions.unsupported(5))
        await talk.client.say(ping(6))
        await talk.broker.hears(ping(6))
    assert talk.watcher.seen("answered") == [("answered", 5, api_versions.unsupported(5))]
    assert talk.traffic.rows["ApiVersions", "other"].by_proxy == 1


async def test_a_request_is_answered_though_the_next_one_of_its_id_has_only_begun():
    async with relaying() as talk:
        await talk.client.say(api_versions_newer(5), api_versions_newer(5)[:-1])
        await talk.client.hears(api_versions.unsupported(5))
        await talk.client.say(api_versions_newer(5)[-1:])
        await talk.client.hears(api_versions.unsupported(5))


async def test_the_proxys_answer_waits_for_its_turn():
    async with relaying() as talk:
        await talk.client.say(ping(1), api_versions_newer(2), ping(3), api_versions_newer(4))
        await talk.broker.hears(ping(1), ping(3))
        await wait_all_tasks_blocked(0.01)
        with pytest.raises(BlockingIOError):
            take_now(talk.client)
        await talk.broker.say(pong(1)[:7])
        await wait_all_tasks_blocked(0.01)
        await talk.broker.say(pong(1)[7:])
        await talk.client.hears(pong(1), api_versions.unsupported(2))
        await talk.broker.say(pong(3))
        await talk.client.hears(pong(3), api_versions.unsupported(4))


async def test_a_request_that_the_proxy_answers_reaches_the_broker_in_no_piece():
    async with relaying() as talk:
        whole = request(API_VERSIONS, NEWER, 5, bytes(100))
        for piece in (whole[:13], whole[13:40], whole[40:] + ping(6)):
            await talk.client.say(piece)
            await wait_all_tasks_blocked(0.01)
        await talk.client.hears(api_versions.unsupported(5))
        await talk.broker.hears(ping(6))


async def test_an_answer_of_the_proxy_is_owed_before_the_end_of_stream():
    async with relaying() as talk:
        await talk.client.say(ping(1), api_versions_newer(2))
        await talk.client.finish()
        await talk.broker.hears(ping(1))
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1), api_versions.unsupported(2))
        await talk.broker.hears_the_end()


async def test_a_client_that_asks_the_proxy_and_never_reads_is_read_no_more():
    frame = api_versions_newer(5)
    async with relaying(buffers=SMALL) as talk:
        taken = await said_until_stuck(talk.client, frame * (8 * MIB // len(frame)))
        assert taken < 4 * MIB
        assert MAX_OWN_ANSWERS < talk.relay._own_answers <= RECEIVE_SIZE // len(frame) + MAX_OWN_ANSWERS


@pytest.fixture
def few_in_flight(monkeypatch):
    for module in ("proxy.conversation.conversation", "proxy.net.connection.relay"):
        monkeypatch.setattr(f"{module}.MAX_IN_FLIGHT", 10)


async def test_a_client_that_is_owed_too_many_answers_is_read_no_more_until_some_have_come(few_in_flight):
    asked = [ping(number) for number in range(20)]
    async with relaying() as talk:
        await talk.client.say(*asked)
        await talk.broker.hears(*asked)
        await talk.client.say(ping(20))
        await wait_all_tasks_blocked(0.01)
        assert len(talk.talk.in_flight) == 20
        await talk.broker.say(*(pong(number) for number in range(15)))
        await talk.broker.hears(ping(20))


async def test_requests_that_may_never_be_answered_are_abandoned_beyond_a_limit(few_in_flight):
    async with relaying() as talk:
        for number in range(40):
            frame = request(script.VENDOR, 0, number)
            await talk.client.say(frame)
            await talk.broker.hears(frame)
            assert len(talk.talk.in_flight) <= 11
        await talk.client.say(ping(40))
        await talk.broker.hears(ping(40))
        # the broker answers the opaque request after all, and then the known one
        await talk.broker.say(pong(7), pong(40))
        await talk.client.hears(pong(7), pong(40))
    row = talk.traffic.rows["other", "other"]
    assert (row.unanswered, row.one_way, row.exchanges) == (11, 29, 0)


async def test_the_proxys_answer_has_its_turn_when_what_is_before_it_is_abandoned(few_in_flight):
    async with relaying() as talk:
        await talk.client.say(request(script.VENDOR, 0, 1), api_versions_newer(2))
        await talk.broker.hears(request(script.VENDOR, 0, 1))
        await talk.client.say(*(request(script.VENDOR, 0, number) for number in range(3, 13)))
        await talk.client.hears(api_versions.unsupported(2))
