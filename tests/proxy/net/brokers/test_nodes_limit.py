"""Tests of how many nodes are listened for: half of the descriptors are for their listeners."""

from __future__ import annotations

import resource

import pytest
import trio

from proxy.config import MappingKind
from proxy.mapping.nodes import Node
from proxy.net.state.file import KnownNode
from proxy.schema.addresses import Address
from tests.proxy.net.brokers.node_tables import ONE, TWO, listen
from tests.proxy.net.relays import settings


async def test_nodes_without_number_are_refused_before_one_is_listened_for(make, listeners, monkeypatch):
    nodes = make()
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (9, 9))
    await nodes.ensure([ONE, TWO])
    await nodes.ensure([Node(number, "up.invalid", 9092) for number in range(1, 5)])
    more = [Node(number, "up.invalid", 9092) for number in range(4, 7)]
    with pytest.raises(OSError, match="more nodes than 4"):
        await nodes.ensure(more)
    assert sorted(listeners.ports) == [1, 2, 3, 4]
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    await nodes.ensure(more)
    assert sorted(listeners.ports) == [1, 2, 3, 4, 5, 6]


async def test_known_nodes_leave_room_for_named_ones_and_the_others_are_logged_and_not_listened_for(
    make, listeners, monkeypatch, caplog
):
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (9, 9))
    nodes = make(known={number: KnownNode(Address("up.invalid", 9092)) for number in range(1, 8)})
    await listen(nodes)
    assert sorted(listeners.ports) == [1, 2, 3]
    await nodes.ensure([Node(8, "up.invalid", 9092)])
    assert sorted(listeners.ports) == [1, 2, 3, 8]
    assert caplog.text.count("known nodes can't be listened for") == 1
    # they are once they are named and ports are available
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (100, 100))
    await nodes.ensure([Node(7, "up.invalid", 9092)])
    assert sorted(listeners.ports) == [1, 2, 3, 7, 8]


async def test_the_limit_of_nodes_counts_each_descriptor_of_a_handed_on_listener(make, listeners, monkeypatch):
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (24, 24))
    nodes = make()
    nodes.descriptors_per_listener = 3
    with pytest.raises(OSError, match="more nodes than 4"):
        await nodes.ensure([Node(number, "up.invalid", 9092) for number in range(5)])
    await nodes.ensure([Node(number, "up.invalid", 9092) for number in range(4)])


@pytest.fixture
def ten(monkeypatch):
    """Nodes may have ten listeners."""
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (20, 20))


def numbered(*numbers: int) -> list[Node]:
    return [Node(number, "up.invalid", 9092) for number in numbers]


async def test_nearing_the_limit_is_logged_once_and_again_after_it_was_left(make, ten, caplog, autojump_clock):
    nodes = make(settings(forget_node_seconds=12))
    await nodes.ensure(numbered(*range(8)))
    assert not caplog.records
    assert nodes.room() == (8, 10)
    await nodes.ensure(numbered(8, 9))
    (said,) = caplog.records
    assert "nearly as many listeners" in said.message
    assert said.keys == {"cluster": "main", "listeners": 9, "limit": 10}
    for _ in range(70):
        nodes.note(range(3), is_list=True)
        await trio.sleep(1)
    await nodes.give_back_unnamed()
    assert nodes.room() == (3, 10)
    await nodes.ensure(numbered(*range(20, 27)))
    assert caplog.text.count("nearly as many listeners") == 2


async def test_answers_fail_from_a_refused_one_on_until_one_is_not(make, ten, caplog):
    nodes = make()
    await nodes.ensure(numbered(*range(10)))
    assert nodes.failing == ""
    for _ in range(3):
        nodes.note(range(11), is_list=True)
        with pytest.raises(OSError, match="more nodes than 10"):
            await nodes.ensure(numbered(*range(11)))
        assert "more nodes than 10" in nodes.failing
        # another answer names one node alone
        nodes.note([3], is_list=False)
        assert nodes.failing
    assert caplog.text.count("an answer that names nodes is refused") == 1
    nodes.note(range(10), is_list=True)
    assert nodes.failing == ""


async def test_answers_fail_no_more_once_there_is_room(make, ten, autojump_clock):
    nodes = make(settings(forget_node_seconds=12))
    await nodes.ensure(numbered(*range(10)))
    for _ in range(14):
        # the cluster lists its nodes, though the answer is refused
        nodes.note(range(11, 14), is_list=True)
        with pytest.raises(OSError, match="more nodes than 10"):
            await nodes.ensure(numbered(*range(11, 14)))
        await trio.sleep(1)
    await nodes.give_back_unnamed()
    assert (nodes.failing, nodes.room().taken) == ("", 0)
    await nodes.ensure(numbered(*range(11, 14)))


async def test_a_node_that_has_no_name_makes_answers_fail(make):
    chosen = settings(mapping=MappingKind.TEMPLATE, advertise="127.0.0.{node_id}:9092", own_node=1)
    nodes = make(chosen)
    await nodes.ensure(numbered(256))
    with pytest.raises(OSError, match="no place"):
        nodes.advertised(256)
    assert "node 256 has no place" in nodes.failing


async def test_the_clusters_id_is_recorded_even_if_it_names_too_many_nodes(make, watcher, monkeypatch):
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (9, 9))
    nodes = make()
    with pytest.raises(OSError, match="more nodes than 4"):
        await nodes.ensure([Node(number, "up.invalid", 9092) for number in range(5)], "of many")
    assert watcher.identities[settings().name, "ids"] == ["of many"]
