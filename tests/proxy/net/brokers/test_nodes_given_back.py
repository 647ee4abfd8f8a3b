"""Tests of nodes that no answer names any more: their listeners are given back, and their ports stay theirs."""

from __future__ import annotations

import logging
import resource
import socket

import pytest
import trio
from trio.testing import MockClock

from proxy.config import MappingKind
from proxy.mapping.nodes import Node
from proxy.net.brokers import node_ports
from proxy.net.brokers import nodes as node_rules
from proxy.net.brokers.node_ports import bind
from proxy.net.brokers.nodes import Nodes
from proxy.net.state.file import KnownNode, SavedState
from proxy.schema.addresses import Address
from tests.proxy.net.brokers.node_tables import ONE, THREE, TWO, free_base, kept, listen, one_port
from tests.proxy.net.peers import HOST
from tests.proxy.net.relays import listens, settings

# seconds after which a node is forgotten, in these tests
FORGOTTEN = 12


@pytest.fixture
def autojump_clock() -> MockClock:
    """Time jumps at once: nobody waits for a socket here."""
    return MockClock(autojump_threshold=0)


def short(**others):
    return settings(forget_node_seconds=FORGOTTEN, **others)


async def answers(nodes: Nodes, *named: Node, seconds: int = FORGOTTEN + 1) -> None:
    """Metadata names these nodes, each second."""
    for _ in range(seconds):
        nodes.note([node.node_id for node in named], is_list=True)
        await nodes.ensure(named)
        await trio.sleep(1)
    await nodes.give_back_unnamed()


async def test_a_node_that_answers_name_no_more_gives_its_listener_and_its_series_back(
    make, listeners, caplog, autojump_clock
):
    caplog.set_level(logging.INFO)
    nodes = make(short())
    forgotten: list[int] = []
    nodes.on_forgotten = forgotten.append
    await answers(nodes, ONE, TWO, seconds=1)
    port = listeners.ports[2]
    await answers(nodes, ONE, seconds=FORGOTTEN - 1)
    assert listens(port)
    assert (nodes.is_served(2), forgotten) == (True, [])
    await answers(nodes, ONE, seconds=1)
    assert (nodes.is_served(1), nodes.is_served(2), forgotten) == (True, False, [2])
    assert not listens(port)
    assert [row.node_id for row in nodes.listeners()] == [1]
    assert (nodes.upstream(2), nodes.known, nodes.room().taken) == (None, [1], 1)
    assert Address(HOST, port) not in nodes.own_listeners
    assert nodes.advertised(1) in nodes.own_listeners
    (said,) = [record for record in caplog.records if record.message == "node is named no more"]
    assert said.keys == {"cluster": "main", "node": 2, "given_back": Address(HOST, port)}


async def test_a_node_keeps_its_listener_while_anybody_is_connected_to_it(make, listeners, autojump_clock):
    nodes = make(short())
    await answers(nodes, ONE, TWO, seconds=1)
    for _ in range(2):
        nodes.count_opened(2)
    await answers(nodes, ONE, seconds=10 * FORGOTTEN)
    nodes.count_closed(2)
    await answers(nodes, ONE, seconds=1)
    assert set(listeners.ports) == {1, 2}
    nodes.count_closed(2)
    await answers(nodes, ONE, seconds=1)
    assert set(listeners.ports) == {1}


async def test_an_answer_of_any_api_keeps_a_node(make, listeners, autojump_clock):
    nodes = make(short())
    await answers(nodes, ONE, TWO, seconds=1)
    for _ in range(2 * FORGOTTEN):
        # FindCoordinator
        nodes.note([2], is_list=False)
        await answers(nodes, ONE, seconds=1)
    assert set(listeners.ports) == {1, 2}


async def test_no_node_is_forgotten_while_metadata_fails(make, listeners, autojump_clock):
    nodes = make(short())
    await answers(nodes, ONE, TWO, seconds=1)
    for _ in range(10):
        await trio.sleep(FORGOTTEN)
        # an empty list is no answer, nor is an answer about single nodes one about the others
        nodes.note([], is_list=True)
        nodes.note([1], is_list=False)
        await nodes.give_back_unnamed()
    assert set(listeners.ports) == {1, 2}


async def test_a_node_named_again_has_its_old_port_and_no_other_node_gets_it_meanwhile(
    make, listeners, monkeypatch, autojump_clock
):
    nodes = make(short())
    await answers(nodes, ONE, TWO, seconds=1)
    port = listeners.ports[2]
    await answers(nodes, ONE)
    picked = iter([port, 0])

    def that_first(address: Address) -> socket.socket:
        return bind(address if address.port else Address(address.host, next(picked, 0)))

    monkeypatch.setattr("proxy.net.brokers.node_ports.bind", that_first)
    await answers(nodes, ONE, THREE, seconds=1)
    assert listeners.ports[3] != port
    await answers(nodes, ONE, TWO, seconds=1)
    assert listeners.ports[2] == port


async def test_a_port_by_rule_is_given_back_and_had_again(make, listeners, autojump_clock):
    base = free_base()
    nodes = make(short(base=base))
    await answers(nodes, ONE, TWO, seconds=1)
    await answers(nodes, ONE)
    assert listeners.ports == {1: base + 1}
    await answers(nodes, TWO, seconds=1)
    assert listeners.ports == {1: base + 1, 2: base + 2}


async def restarted(nodes: Nodes, listeners, state) -> Nodes:
    saved = await kept(nodes, state)
    listeners.close()
    listeners.opened.clear()
    listeners.ports.clear()
    return Nodes(short(state=state, remembered=saved.ports), listeners.serve, saved, None)


async def test_a_port_given_back_is_kept_over_a_restart_without_a_listener(
    make, listeners, tmp_path, monkeypatch, autojump_clock
):
    state = tmp_path / "nodes.json"
    nodes = make(short(state=state))
    await answers(nodes, ONE, TWO, seconds=1)
    ports = dict(listeners.ports)
    await answers(nodes, ONE)
    again = await restarted(nodes, listeners, state)
    await listen(again)
    assert listeners.ports == {1: ports[1]}
    picked = iter([ports[2], 0])
    monkeypatch.setattr(
        "proxy.net.brokers.node_ports.bind",
        lambda address: bind(address if address.port else Address(address.host, next(picked, 0))),
    )
    await answers(again, ONE, THREE, seconds=1)
    assert listeners.ports[3] != ports[2]
    await answers(again, TWO, seconds=1)
    assert listeners.ports[2] == ports[2]


async def test_known_nodes_of_the_state_file_have_their_time_from_the_start_on(
    make, listeners, tmp_path, autojump_clock
):
    state = tmp_path / "nodes.json"
    nodes = make(short(state=state))
    await answers(nodes, ONE, TWO, seconds=1)
    again = await restarted(nodes, listeners, state)
    await listen(again)
    await answers(again, ONE, seconds=FORGOTTEN)
    assert set(listeners.ports) == {1, 2}
    await answers(again, ONE, seconds=1)
    assert set(listeners.ports) == {1}


async def test_nodes_that_come_and_go_for_ever_never_reach_the_limit(make, listeners, monkeypatch, autojump_clock):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (40, 40))
    nodes = make(short())
    for number in range(100):
        await answers(nodes, ONE, Node(100 + number, "pod.invalid", 9092), seconds=2)
    assert not nodes.failing
    assert len(listeners.ports) < 12


async def test_the_oldest_port_is_forgotten_first_where_too_many_are_remembered(
    make, listeners, tmp_path, monkeypatch, caplog, autojump_clock
):
    monkeypatch.setattr(node_ports, "MAX_REMEMBERED", 2)
    state = tmp_path / "nodes.json"
    nodes = make(short(state=state))
    await answers(nodes, ONE, TWO, THREE, seconds=1)
    ports = dict(listeners.ports)
    for named in ([TWO, ONE], [ONE], [Node(4, "up.invalid", 9092)]):
        await answers(nodes, *named)
    saved = await kept(nodes, state)
    assert [*saved.given_back.items()] == [(2, ports[2]), (1, ports[1])]
    (said,) = [record for record in caplog.records if "is forgotten" in record.message]
    assert said.keys == {"cluster": "main", "node": 3, "port": ports[3], "limit": 2}


@pytest.mark.parametrize(
    "mapping",
    [
        {"mapping": MappingKind.TEMPLATE, "advertise": "kafka-{node_id}.example.org:9092", "own_node": 1},
        {"named": {1: Address(HOST, 0)}},
    ],
    ids=["own", "named"],
)
async def test_a_node_that_the_settings_name_keeps_its_listener_for_ever(mapping, make, listeners, autojump_clock):
    nodes = make(short(**mapping))
    with bind(Address(HOST, 0)) as sock:
        nodes.add_bootstrap(sock, Address(HOST, 9092))
    await listen(nodes)
    await answers(nodes, ONE, TWO, seconds=1)
    await answers(nodes, TWO)
    assert {row.node_id for row in nodes.listeners()} >= {1}
    assert nodes.upstream(1) is not None


async def test_the_state_file_of_a_template_forgets_nodes_too(make, tmp_path, autojump_clock):
    state = tmp_path / "nodes.json"
    nodes = make(
        short(mapping=MappingKind.TEMPLATE, advertise="kafka-{node_id}:9092", own_node=1, state=state)
    )  # fmt: skip
    await answers(nodes, ONE, TWO, seconds=1)
    await answers(nodes, ONE, THREE)
    assert set((await kept(nodes, state)).nodes) == {1, 3}


async def test_with_one_port_for_all_a_nodes_series_and_name_go(make, autojump_clock):
    nodes = make(one_port(forget_node_seconds=FORGOTTEN))
    await answers(nodes, ONE, TWO, seconds=1)
    await answers(nodes, ONE)
    assert [row.node_id for row in nodes.listeners()] == [1]
    assert Address("kafka-2.example.org", 443) not in nodes.own_listeners
    assert Address("kafka-1.example.org", 443) in nodes.own_listeners


async def test_of_too_many_nodes_without_a_listener_those_named_longest_ago_are_forgotten(
    make, monkeypatch, autojump_clock
):
    monkeypatch.setattr(node_rules, "MAX_LISTENERLESS", 2)
    nodes = make(one_port())
    await answers(nodes, ONE, TWO, seconds=1)
    await answers(nodes, THREE, seconds=1)
    assert nodes.known == [2, 3]
    # but none that the answer itself names
    await answers(nodes, ONE, TWO, THREE, seconds=1)
    assert nodes.known == [1, 2, 3]


async def test_nodes_without_a_listener_take_no_place_of_one(make, monkeypatch, autojump_clock):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4, 4))
    many = [Node(number, "up.invalid", 9092) for number in range(2, 50)]
    for chosen in (one_port(), settings(mapping=MappingKind.TEMPLATE, advertise="kafka-{node_id}:9092", own_node=1)):
        await make(chosen).ensure(many)


async def test_a_node_known_without_a_listener_keeps_its_port_when_it_is_forgotten(
    make, listeners, tmp_path, autojump_clock
):
    state = tmp_path / "nodes.json"
    known = {1: KnownNode(ONE.address), 7: KnownNode(TWO.address, 40_123)}
    nodes = Nodes(short(state=state, remembered={7: 40_123}), listeners.serve, SavedState(known), None)
    await answers(nodes, ONE)
    assert (await kept(nodes, state)).given_back == {7: 40_123}
