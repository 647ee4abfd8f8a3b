from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.mapping.nodes import Node
from proxy.net.brokers.discovery import (
    ANSWER_SECONDS,
    LONGEST_ANSWER,
    DiscoveredNodes,
    LeadsBackIndirectly,
    LoopProbe,
    NamesNoNodes,
    NotAnswered,
    ask_for_nodes,
)
from proxy.net.sockets.streams import PeerLost, Stream, dial
from proxy.rewrite.api_versions import reduce
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.framing import framed
from proxy.wire.headers import RequestHead
from proxy.wire.keys import API_VERSIONS, DESCRIBE_CLUSTER, METADATA
from tests.proxy.net.cluster import Broker
from tests.proxy.net.peers import HOST, NOWHERE, PATIENCE, Peer

NODES = (Node(1, "up-1.invalid", 9092), Node(2, "up-2.invalid", 9093))
QUESTION = LoopProbe(7, "main")
OURS = QUESTION.correlation_id.to_bytes(4, "big")


def request_of(frame: bytes) -> tuple[RequestHead, dict[str, Any]]:
    decoded = catalog.decode_request(frame)
    assert isinstance(decoded, tuple)
    return decoded


def offered(versions: dict[int, tuple[int, int]], error: int = 0, version: int = 0) -> bytes:
    """Returns a response to ApiVersions: the oldest and the newest version of each API."""
    keys = [{"api_key": key, "min_version": least, "max_version": most} for key, (least, most) in versions.items()]
    body = {"error_code": error, "api_keys": keys}
    return framed(catalog.encode_response(API_VERSIONS, version, QUESTION.correlation_id, body))


def answered(body: dict[str, Any], version: int = 0) -> bytes:
    """Returns a response to Metadata."""
    return framed(catalog.encode_response(METADATA, version, QUESTION.correlation_id, body))


async def dialled(address: Address) -> Stream:
    return await dial(address, 10)


async def serving(nursery: trio.Nursery, speak: Callable[[trio.SocketStream], Awaitable[None]]) -> Address:
    """Serves connections by `speak`. Returns where."""
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    nursery.start_soon(trio.serve_listeners, speak, [listener])
    return Address(*listener.socket.getsockname())


async def asked(address: Address, dial: Callable[[Address], Awaitable[Stream]] = dialled) -> DiscoveredNodes:
    return await ask_for_nodes(partial(dial, address), QUESTION)


async def test_a_broker_tells_the_nodes_of_its_cluster(nursery):
    broker = Broker(NODES)
    address = await broker.start(nursery)
    streams = []

    async def kept(address: Address) -> Stream:
        streams.append(await dialled(address))
        return streams[0]

    assert (await asked(address, dial=kept)).nodes == NODES
    with trio.fail_after(PATIENCE):
        while broker.open:
            await wait_all_tasks_blocked(0.005)
    nursery.cancel_scope.cancel()


async def test_the_discovery_query_names_no_topics_and_creates_none(nursery):
    broker = Broker(NODES)
    await asked(await broker.start(nursery))
    assert broker.asked == [(API_VERSIONS, 0), (METADATA, 12)]
    head, question = request_of(broker.frames[1])
    assert head.client_id == "kafka-wiretap"
    assert question["topics"] == []
    assert question["allow_auto_topic_creation"] is False
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("newest", [0, 1, 3, 4, 8, 9, 13, 99])
async def test_the_discovery_query_has_the_newest_version_that_both_sides_know(newest, nursery):
    broker = Broker(NODES, newest_metadata=newest)
    assert (await asked(await broker.start(nursery))).nodes == NODES
    assert broker.asked[1] == (METADATA, min(newest, apis.versions(METADATA)[-1]))
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("newest", [1, 2, 99])
async def test_a_controller_is_asked_for_the_controllers(newest, nursery):
    broker = Broker(NODES)
    broker.describes_quorum, broker.cluster_id = newest, "A" * 22
    found = await asked(await broker.start(nursery))
    assert found == DiscoveredNodes(NODES, "A" * 22)
    assert [node.is_controller for node in found.nodes] == [True, True]
    assert broker.asked == [(API_VERSIONS, 0), (DESCRIBE_CLUSTER, min(newest, apis.versions(DESCRIBE_CLUSTER)[-1]))]
    assert request_of(broker.frames[1])[1]["endpoint_type"] == 2
    nursery.cancel_scope.cancel()


async def test_a_controller_that_refuses_to_name_the_others_has_given_no_answer(nursery):
    broker = Broker([])
    broker.describes_quorum, broker.error_code = 1, 31
    with pytest.raises(NotAnswered, match="answers DescribeCluster with the error CLUSTER_AUTHORIZATION_FAILED"):
        await asked(await broker.start(nursery))
    nursery.cancel_scope.cancel()


async def test_a_controller_too_old_to_name_the_others_is_said_to_be_one(nursery):
    broker = Broker()
    broker.describes_quorum = 0
    with pytest.raises(NamesNoNodes, match=r"is a controller older than Kafka 3\.7, which names no nodes"):
        await asked(await broker.start(nursery))
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("newest", "told"), [(0, None), (1, None), (2, "A" * 22), (13, "A" * 22)])
async def test_the_answer_has_the_cluster_id_from_version_2_on(newest, told, nursery):
    broker = Broker(NODES, newest_metadata=newest)
    broker.cluster_id = "A" * 22
    assert (await asked(await broker.start(nursery))).cluster_id == told
    nursery.cancel_scope.cancel()


async def test_a_broker_that_knows_no_versions_is_asked_in_the_first(nursery):
    broker = Broker(NODES)
    broker.is_old = True
    assert await asked(await broker.start(nursery)) == (NODES, None)
    assert broker.asked == [(API_VERSIONS, 0), (METADATA, 0)]
    with trio.fail_after(PATIENCE):
        while broker.open:
            await wait_all_tasks_blocked(0.005)
    nursery.cancel_scope.cancel()


NODE = {"brokers": [{"node_id": 1, "host": "up-1.invalid", "port": 9092}]}
V0, V1, V3 = ((API_VERSIONS, version) for version in (0, 1, 3))


@pytest.mark.parametrize(
    ("script", "asked_for"),
    [
        # each connection's answers, in order; the broker then ends the connection
        ([[offered({}, 35)], [answered(NODE)]], [V0, (METADATA, 0)]),
        ([[b"\0\0\0\x06" + OURS + b"\0\x23"], [answered(NODE)]], [V0, (METADATA, 0)]),
        ([[offered({}, -1)], [answered(NODE)]], [V0, (METADATA, 0)]),
        ([[offered({METADATA: (0, 8)})[:-3]], [answered(NODE)]], [V0, (METADATA, 0)]),
        ([[b"\0\0\0\x0a" + OURS + b"\0\0\0\0\0\x01"], [answered(NODE)]], [V0, (METADATA, 0)]),
        ([[offered({API_VERSIONS: (0, 0)}, 35)], [answered(NODE)]], [V0, (METADATA, 0)]),
        ([[offered({API_VERSIONS: (1, 4)}, 35), offered({METADATA: (4, 9)}, 0, 1), answered(NODE, 9)]],
         [V0, V1, (METADATA, 9)]),
        ([[offered({API_VERSIONS: (3, 4)}, 35), offered({METADATA: (4, 9)}, 0, 3), answered(NODE, 9)]],
         [V0, V3, (METADATA, 9)]),
        ([[offered({API_VERSIONS: (1, 4)}, 35), offered({}, 35)], [answered(NODE)]], [V0, V1, (METADATA, 0)]),
    ],
    ids=["refused", "refused, and cut", "fails", "cut", "unreadable", "refused for itself", "refused for v1",
         "refused for v3", "refused twice"],
)  # fmt: skip
async def test_a_broker_that_refuses_the_first_version_or_answers_in_part_is_asked_what_it_speaks(
    script, asked_for, nursery
):
    asked_in_fact: list[tuple[int, int]] = []
    connections = iter(script)

    async def speak(stream: trio.SocketStream) -> None:
        async with stream:
            for said in next(connections):
                head, _ = request_of((await stream.receive_some())[4:])
                asked_in_fact.append((head.api_key, head.api_version))
                await stream.send_all(said)

    assert (await asked(await serving(nursery, speak))).nodes == NODES[:1]
    assert asked_in_fact == asked_for
    nursery.cancel_scope.cancel()


async def test_a_broker_that_resets_the_connection_at_the_first_question_is_asked_as_an_old_one(nursery):
    connections = []

    async def speak(stream: trio.SocketStream) -> None:
        connections.append(stream)
        await stream.receive_some()
        if len(connections) == 1:
            Peer(stream).reset()
        else:
            await stream.send_all(answered(NODE))

    assert (await asked(await serving(nursery, speak))).nodes == NODES[:1]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("newest", "body", "reason"),
    [
        *((newest, {"brokers": []}, "named no node") for newest in (0, 1, 12, 13)),
        (13, {"brokers": [], "error_code": 129}, "REBOOTSTRAP_REQUIRED"),
        (13, NODE | {"error_code": 129}, "REBOOTSTRAP_REQUIRED"),
        (13, NODE | {"error_code": -1}, "UNKNOWN_SERVER_ERROR"),
    ],
)
async def test_an_answer_without_brokers_or_with_an_error_does_not_count(newest, body, reason, nursery):
    async def speak(stream: trio.SocketStream) -> None:
        for said in (offered({METADATA: (0, newest)}), answered(body, newest)):
            await stream.receive_some()
            await stream.send_all(said)

    with pytest.raises(NotAnswered, match=reason):
        await asked(await serving(nursery, speak))
    nursery.cancel_scope.cancel()


async def test_a_broker_that_tells_its_versions_and_not_its_nodes_is_not_asked_again(nursery):
    heard = []

    async def speak(stream: trio.SocketStream) -> None:
        heard.append(await stream.receive_some())
        await stream.send_all(offered({}))
        heard.append(await stream.receive_some())
        await stream.aclose()

    with pytest.raises(NotAnswered, match="does it ask for a login"):
        await asked(await serving(nursery, speak))
    assert len(heard) == 2
    nursery.cancel_scope.cancel()


async def test_a_broker_that_cannot_be_reached_was_not_asked():
    with pytest.raises(PeerLost, match=r"127.0.0.1:1 can't be reached") as lost:
        await asked(NOWHERE)
    assert not isinstance(lost.value, NotAnswered)


async def test_a_broker_that_wants_a_login_has_been_reached_and_gives_no_answer(nursery):
    broker = Broker()
    broker.speaks = False
    with pytest.raises(NotAnswered, match="does it ask for a login"):
        await asked(await broker.start(nursery))
    nursery.cancel_scope.cancel()


async def test_a_broker_that_resets_the_connection_has_been_reached_too(nursery):
    async def reset(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        Peer(stream).reset()

    with pytest.raises(NotAnswered, match="reset by peer"):
        await asked(await serving(nursery, reset))
    nursery.cancel_scope.cancel()


async def test_a_discovery_query_that_comes_back_does_not_count_as_unanswered(nursery):
    async def own(stream: trio.SocketStream) -> None:
        assert await stream.receive_some() == QUESTION.frame
        await stream.send_all(QUESTION.loop_answer)

    with pytest.raises(LeadsBackIndirectly, match="leads back to this proxy by way of others") as lost:
        await asked(await serving(nursery, own))
    assert not isinstance(lost.value, NotAnswered)
    nursery.cancel_scope.cancel()


def test_each_proxys_discovery_query_is_unique_and_the_same_in_all_its_processes():
    ours = LoopProbe(7, "main")
    assert (ours.frame, ours.loop_answer) == (QUESTION.frame, QUESTION.loop_answer)
    assert len({question.frame for question in (ours, LoopProbe(8, "main"), LoopProbe(7, "east"))}) == 3


def test_the_answer_to_a_returned_discovery_query_passes_other_proxies_unchanged():
    assert reduce(0, QUESTION.loop_answer[4:]) == QUESTION.loop_answer
    assert reduce(0, QUESTION.loop_answer[4:], hide_unknown=True) == QUESTION.loop_answer


async def test_a_broker_that_says_nothing_is_abandoned(nursery, autojump_clock):
    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    with pytest.raises(NotAnswered, match=f"did not answer in {ANSWER_SECONDS} s"):
        await asked(Address(*listener.socket.getsockname()))
    await listener.aclose()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x50", "is this a TLS port"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "none of Kafka's"),
        ((LONGEST_ANSWER + 1).to_bytes(4, "big"), "none of Kafka's"),
        (b"\xff\xff\xff\xff", "none of Kafka's"),
        (b"\0\0\0\x0a\0\0\0\0\0\0\0\0\0\x01", "answered another request"),
        (b"\0\0\0\x0a" + OURS + b"\0\0\0\1\0\0", "Metadata"),
    ],
    ids=["TLS alert", "HTTP", "too long", "negative length", "another's answer", "garbage"],
)
async def test_a_server_that_answers_something_else_gives_no_answer(said, reason, nursery):
    async def speak(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(said)

    with pytest.raises(NotAnswered, match=reason):
        await asked(await serving(nursery, speak))
    nursery.cancel_scope.cancel()


async def test_an_answer_may_come_byte_by_byte(nursery):
    whole = [
        offered({}),
        answered({"brokers": [{"node_id": 1, "host": "up-1.invalid", "port": 9092}]}),
    ]

    async def speak(stream: trio.SocketStream) -> None:
        for frame in whole:
            await stream.receive_some()
            for byte in frame:
                await stream.send_all(bytes([byte]))

    assert (await asked(await serving(nursery, speak))).nodes == NODES[:1]
    nursery.cancel_scope.cancel()
