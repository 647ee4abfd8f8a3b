"""Tests of how many nodes are listened for: half of the descriptors are for their listeners."""

from __future__ import annotations

import resource

import pytest

from proxy.mapping.nodes import Node
from proxy.net.state.file import KnownNode
from proxy.schema.addresses import Address
from tests.proxy.net.brokers.node_tables import ONE, TWO, listen


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


async def test_known_nodes_beyond_half_of_the_descriptors_are_logged_and_not_listened_for(
    make, listeners, monkeypatch, caplog
):
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (9, 9))
    nodes = make(known={number: KnownNode(Address("up.invalid", 9092)) for number in range(1, 8)})
    await listen(nodes)
    assert sorted(listeners.ports) == [1, 2, 3, 4]
    assert caplog.text.count("known nodes can't be listened for") == 1
    # they are once they are named and ports are available
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (100, 100))
    await nodes.ensure([Node(7, "up.invalid", 9092)])
    assert sorted(listeners.ports) == [1, 2, 3, 4, 7]


async def test_the_limit_of_nodes_counts_each_descriptor_of_a_handed_on_listener(make, listeners, monkeypatch):
    monkeypatch.setattr("proxy.net.brokers.nodes.resource.getrlimit", lambda which: (24, 24))
    nodes = make()
    nodes.descriptors_per_listener = 3
    with pytest.raises(OSError, match="more nodes than 4"):
        await nodes.ensure([Node(number, "up.invalid", 9092) for number in range(5)])
    await nodes.ensure([Node(number, "up.invalid", 9092) for number in range(4)])
