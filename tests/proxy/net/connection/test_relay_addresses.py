"""Tests of rewriting addresses in relayed responses."""

from __future__ import annotations

import random
from typing import Any

import pytest
from trio.testing import wait_all_tasks_blocked

from proxy.conversation import Cause, Direction
from proxy.mapping.nodes import Node
from proxy.rewrite import api_versions
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, FETCH, METADATA, PRODUCE
from tests.proxy.conversation import script
from tests.proxy.conversation.script import request
from tests.proxy.net.frames import answer, api_versions_newer, ask, ping, pong, take_now
from tests.proxy.net.relays import UPSTREAM, Relaying, listens, relaying
from tests.proxy.rewrite.responses import CARRYING, CORRELATION_ID, labelled, read, replaced_slowly, values

NODE = Node(7, UPSTREAM, 9092)


def seven_in_metadata(talk: Relaying, frame: bytes, version: int = 12) -> None:
    (broker,) = read(METADATA, version, frame)["brokers"]
    assert (broker["node_id"], broker["host"], broker["port"]) == (7, "127.0.0.1", talk.listeners.ports[7])


@pytest.mark.parametrize("case", CARRYING, ids=labelled)
async def test_brokers_in_an_answer_are_replaced_by_listeners_that_are_open_by_then(case):
    key, version = case
    async with relaying() as talk:
        await talk.client.say(ask(key, version))
        await talk.broker.hears(ask(key, version))
        original = answer(key, version, values(key, version, [NODE]))
        await talk.broker.say(original)
        # the port is open before the response's first byte arrives
        await talk.client.hear(1)
        assert listens(talk.listeners.ports[7])
        rest = await talk.client.hear(3)
        frame = await talk.client.hear(int.from_bytes(b"\0" + rest, "big"))
    assert UPSTREAM.encode() not in frame
    told = {7: Address("127.0.0.1", talk.listeners.ports[7])}
    assert read(key, version, frame) == replaced_slowly(read(key, version, original[4:]), told)
    assert talk.watcher.seen("node") == [("node", 7, f"{UPSTREAM}:9092", f"127.0.0.1:{talk.listeners.ports[7]}")]


async def test_a_rewritten_answer_stays_in_its_place_among_plain_ones():
    async with relaying() as talk:
        await talk.client.say(ping(1), ask(METADATA, 12), ping(3), api_versions_newer(4), ping(5))
        await talk.broker.hears(ping(1), ask(METADATA, 12), ping(3), ping(5))
        await talk.broker.say(pong(1), answer(METADATA, 12, values(METADATA, 12, [NODE])), pong(3), pong(5))
        await talk.client.hears(pong(1))
        seven_in_metadata(talk, await talk.client.hear_frame())
        await talk.client.hears(pong(3), api_versions.unsupported(4), pong(5))


async def test_an_answer_with_brokers_leaves_whole_however_it_arrives():
    frame = answer(METADATA, 12, values(METADATA, 12, [NODE]))
    async with relaying() as talk:
        await talk.client.say(ask(METADATA, 12))
        await talk.broker.hear_frame()
        for byte in frame[:-1]:
            await talk.broker.say(bytes([byte]))
            await wait_all_tasks_blocked()
        with pytest.raises(BlockingIOError):
            take_now(talk.client)
        await talk.broker.say(frame[-1:])
        seven_in_metadata(talk, await talk.client.hear_frame())
    assert talk.watcher.bytes[Direction.RESPONSE] == frame


async def test_api_versions_is_reduced_to_what_can_be_passed_on():
    offers = {"api_keys": [{"api_key": METADATA, "min_version": 0, "max_version": 99}]}
    async with relaying() as talk:
        await talk.client.say(ask(API_VERSIONS, 3))
        await talk.broker.hear_frame()
        await talk.broker.say(answer(API_VERSIONS, 3, offers))
        (offer,) = read(API_VERSIONS, 3, await talk.client.hear_frame())["api_keys"]
    assert offer["max_version"] == apis.versions(METADATA)[-1]


@pytest.mark.parametrize(("hide", "told"), [(False, [METADATA, script.VENDOR]), (True, [METADATA])])
async def test_a_vendors_apis_are_hidden_where_that_is_wished(hide, told):
    offers = {"api_keys": [{"api_key": key, "max_version": 1} for key in (METADATA, script.VENDOR)]}
    strange = request(script.VENDOR, 7, 1, b"whatever")
    async with relaying(hide_unknown=hide) as talk:
        await talk.client.say(ask(API_VERSIONS, 3))
        await talk.broker.hear_frame()
        await talk.broker.say(answer(API_VERSIONS, 3, offers))
        assert [offer["api_key"] for offer in read(API_VERSIONS, 3, await talk.client.hear_frame())["api_keys"]] == told
        # the proxy does not hinder a client that sends it all the same
        await talk.client.say(strange)
        await talk.broker.hears(strange)
        await talk.broker.say(pong(1))
        await talk.client.hears(pong(1))


async def test_a_clients_check_that_it_meets_the_node_it_means_passes_untouched():
    # KIP-1242: the request names cluster and node, whose ids stay; error 129 means that it reached another one
    meant = {"client_software_name": "tests", "client_software_version": "1", "cluster_id": "A" * 22, "node_id": 7}
    asked = framed(catalog.encode_request(API_VERSIONS, 5, CORRELATION_ID, "tests", meant))
    another = answer(API_VERSIONS, 5, {"error_code": 129})
    async with relaying() as talk:
        await talk.client.say(asked)
        await talk.broker.hears(asked)
        await talk.broker.say(another)
        await talk.client.hears(another)


async def test_an_answer_over_the_hold_limit_cannot_be_rewritten():
    async with relaying(hold_limit=20) as talk:
        await talk.client.say(ping(1), ask(METADATA, 12))
        await talk.broker.hears(ping(1), ask(METADATA, 12))
        await talk.broker.say(pong(1), answer(METADATA, 12, values(METADATA, 12, [NODE])))
        assert await talk.client.hear_all() == pong(1)
        await talk.ends_with(Cause.NOT_REWRITABLE)
    assert talk.traffic.rows["Heartbeat", "3"].exchanges == 1
    assert talk.traffic.rows["Metadata", "12"].unanswered == 1


async def test_an_unreadable_answer_and_the_bytes_after_it_are_not_passed_on():
    spoilt = answer(METADATA, 12, values(METADATA, 12, [NODE]))
    spoilt = framed(spoilt[4:-20])
    asked = (ping(1), ask(METADATA, 12), ping(3), api_versions_newer(4))
    async with relaying() as talk:
        await talk.client.say(*asked)
        await talk.broker.hears(*asked[:3])
        await talk.broker.say(pong(1), spoilt, pong(3))
        assert await talk.client.hear_all() == pong(1)
        await talk.ends_with(Cause.NOT_REWRITABLE)
    assert talk.traffic.rows["Heartbeat", "3"].exchanges == 1
    assert talk.traffic.rows["Heartbeat", "3"].unanswered == 1


async def test_without_a_listener_for_a_node_the_answer_cannot_be_rewritten(monkeypatch):
    def no_port(address: Any) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("proxy.net.brokers.node_ports.bind", no_port)
    async with relaying() as talk:
        await talk.client.say(ask(METADATA, 12))
        await talk.broker.hear_frame()
        await talk.broker.say(answer(METADATA, 12, values(METADATA, 12, [NODE])))
        assert await talk.client.hear_all() == b""
        await talk.ends_with(Cause.NOT_REWRITABLE)


async def test_a_large_fetch_answer_streams_and_names_no_broker_of_the_upstream():
    records = random.Random(0).randbytes(600 * 1024)
    body = values(FETCH, 16, [NODE]) | {"responses": [{"partitions": [{"records": records}]}]}
    whole = answer(FETCH, 16, body)
    async with relaying() as talk:
        await talk.client.say(ask(FETCH, 16))
        await talk.broker.hear_frame()
        await talk.broker.say(whole[: 400 * 1024])
        await talk.client.hears(whole[: 400 * 1024])
        await talk.broker.say(whole[400 * 1024 :])
        frame = whole[4 : 400 * 1024] + await talk.client.hear(len(whole) - 400 * 1024)
        assert listens(talk.listeners.ports[7])
    assert UPSTREAM.encode() not in frame
    decoded = read(FETCH, 16, frame)
    assert decoded["responses"][0]["partitions"][0]["records"] == records
    assert [node["port"] for node in decoded["node_endpoints"]] == [talk.listeners.ports[7]]


async def test_a_large_fetch_answer_with_a_tail_that_cannot_be_read_ends_before_the_tail():
    body = values(FETCH, 16, [NODE]) | {"responses": [{"partitions": [{"records": bytes(300 * 1024)}]}]}
    whole = answer(FETCH, 16, body)
    async with relaying() as talk:
        await talk.client.say(ask(FETCH, 16))
        await talk.broker.hear_frame()
        await talk.broker.say(framed(whole[4:-6]))
        heard = await talk.client.hear_all()
        await talk.ends_with(Cause.NOT_REWRITABLE)
    assert UPSTREAM.encode() not in heard
    assert len(heard) < len(whole)


async def test_an_answer_without_new_nodes_wakes_no_task():
    """Most responses to producers and consumers are of this kind."""
    named = answer(PRODUCE, 12, values(PRODUCE, 12, []))
    async with relaying() as talk:
        await wait_all_tasks_blocked()
        assert talk.relay._nursery is not None
        turns = {task: task._schedule_points for task in talk.relay._nursery.child_tasks}
        assert len(turns) == 2
        for _ in range(3):
            await talk.client.say(ask(PRODUCE, 12))
            await talk.broker.hears(ask(PRODUCE, 12))
            await talk.broker.say(named)
            await talk.client.hears(named)
        assert {task: task._schedule_points for task in talk.relay._nursery.child_tasks} == turns


async def test_a_known_node_is_not_waited_for():
    said = answer(METADATA, 12, values(METADATA, 12, [NODE]))
    async with relaying() as talk:
        for number in range(2):
            await wait_all_tasks_blocked()
            assert talk.relay._nursery is not None
            turns = [task._schedule_points for task in talk.relay._nursery.child_tasks]
            await talk.client.say(ask(METADATA, 12))
            await talk.broker.hears(ask(METADATA, 12))
            await talk.broker.say(said)
            size = int.from_bytes(await talk.client.hear(4), "big")
            seven_in_metadata(talk, await talk.client.hear(size))
            woken = [task._schedule_points for task in talk.relay._nursery.child_tasks] != turns
            assert woken == (number == 0)
