"""Tests of nodes whose settings change while the proxy runs."""

from __future__ import annotations

import socket

import pytest

from proxy.mapping.nodes import Node
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.net.brokers.node_tables import ONE, grown, listen
from tests.proxy.net.peers import HOST
from tests.proxy.net.relays import listens, settings


async def test_a_listener_for_another_node_is_opened_while_it_runs(make, listeners, watcher):
    nodes = make(settings(named={1: Address(HOST, 0)}))
    await listen(nodes)
    await grown(nodes, settings(named={1: Address(HOST, 0), 7: Address(HOST, 0)}))
    assert listeners.opened.keys() == {1, 7}
    assert [event[1] for event in watcher.seen("node")] == [1, 7]
    await nodes.ensure([Node(7, "up-7.invalid", 9092)])
    assert nodes.advertised(7) == Address(HOST, listeners.ports[7])


async def test_a_node_that_has_a_listener_keeps_it(make, listeners):
    nodes = make()
    await nodes.ensure([ONE])
    before = nodes.advertised(1)
    await grown(nodes, settings(named={1: Address(HOST, 9)}))
    assert nodes.advertised(1) == before
    assert listeners.opened.keys() == {1}


async def test_a_newly_advertised_address_is_never_dialled(make):
    nodes = make()
    await nodes.ensure([ONE])
    told = Address("kafka-1.example.org", 443)
    await grown(nodes, settings(advertised={1: told}))
    assert nodes.advertised(1) == told
    assert told in nodes.own_listeners


async def test_a_listener_that_a_reload_can_not_open_is_reported_and_no_other_is_opened(make, listeners):
    nodes = make()
    named = {6: Address(HOST, 0), 7: Address("192.0.2.1", 9094)}
    with pytest.raises(BadSetting, match=r"--node 7=192.0.2.1:9094 can't be listened on"):
        await grown(nodes, settings(named=named))
    assert not listeners.opened
    assert nodes.listeners() == []


async def test_new_listeners_may_be_had_by_the_name_of_a_host_of_this_machine(make, listeners):
    nodes = make()
    await grown(nodes, settings(named={7: Address("localhost", 0)}))
    assert nodes.advertised(7) == Address("localhost", listeners.ports[7])


async def test_listeners_that_are_prepared_and_not_opened_are_closed_again(make, listeners):
    nodes = make()
    with socket.socket() as free:
        free.bind((HOST, 0))
        at = Address(*free.getsockname())
    change = await nodes.change_to(settings(named={7: at}).node_map)
    change.drop()
    assert not listens(at.port)
    assert not listeners.opened


async def test_a_node_that_turns_up_while_its_listener_is_prepared_keeps_the_one_that_it_got(make, listeners, caplog):
    nodes = make()
    change = await nodes.change_to(settings(named={1: Address(HOST, 0)}).node_map)
    await nodes.ensure([ONE])
    before = nodes.advertised(1)
    change.apply()
    assert nodes.advertised(1) == before
    assert "node keeps the listener that it got meanwhile" in caplog.text


async def test_places_that_are_taken_back_are_those_of_before_and_listeners_stay(make, listeners):
    nodes = make()
    told = Address("kafka-1.example.org", 443)
    await nodes.ensure([ONE])
    before = nodes.advertised(1)
    change = await nodes.change_to(settings(advertised={1: told}, named={7: Address(HOST, 0)}).node_map)
    change.apply()
    assert nodes.advertised(1) == told
    change.undo()
    change.drop()
    assert nodes.advertised(1) == before
    assert listens(listeners.ports[7])
