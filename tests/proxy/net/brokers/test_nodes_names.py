"""Tests of names made of node ids: some nodes are this proxy's, the others belong to other proxies."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.config import ClusterSettings, MappingKind
from proxy.mapping.nodes import Node
from proxy.net.brokers.node_ports import bind
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.net.brokers.node_tables import ONE, THREE, TWO, free_base, grown, kept, listen, one_port
from tests.proxy.net.peers import HOST
from tests.proxy.net.relays import BROKER, settings


def named(**others: Any) -> ClusterSettings:
    return settings(mapping=MappingKind.TEMPLATE, advertise="kafka-{node_id}.example.org:9092", **others)


async def test_no_listener_is_opened_for_another_proxys_node_and_its_name_is_advertised(make, listeners, watcher):
    nodes = make(named(own_node=1))
    await nodes.ensure([TWO, THREE])
    assert not listeners.opened
    assert nodes.advertised(2) == Address("kafka-2.example.org", 9092)
    assert [row.node_id for row in nodes.listeners()] == []
    assert not watcher.seen("node")


async def test_the_bootstrap_listener_stands_for_the_own_node(make, listeners, watcher):
    nodes = make(named(own_node=1))
    with bind(Address(HOST, 0)) as sock:
        nodes.add_bootstrap(sock, Address(HOST, 9092))
    await listen(nodes)
    await nodes.ensure([ONE, TWO])
    assert not listeners.opened
    assert [(row.node_id, row.upstream, row.listener) for row in nodes.listeners()] == [
        (1, str(BROKER), f"{HOST}:9092")
    ]
    assert watcher.seen("node") == [("node", 1, str(BROKER), f"{HOST}:9092")]
    assert nodes.advertised(1) == Address("kafka-1.example.org", 9092)


async def test_the_own_nodes_broker_is_the_upstream_whatever_metadata_says(make):
    nodes = make(named(own_node=1))
    with bind(Address(HOST, 0)) as sock:
        nodes.add_bootstrap(sock, Address(HOST, 9092))
    await nodes.ensure([Node(1, "elsewhere.invalid", 1)])
    assert nodes.upstream(1) == BROKER


async def test_a_named_node_is_listened_for_beside_the_own_one(make, listeners):
    base = free_base()
    nodes = make(named(own_node=1, named={2: Address(HOST, base)}))
    await listen(nodes)
    await nodes.ensure([TWO])
    assert listeners.ports == {2: base}
    assert nodes.advertised(2) == Address("kafka-2.example.org", 9092)
    assert nodes.upstream(2) == TWO.address


async def test_a_named_nodes_port_that_is_taken_is_a_bad_setting_as_its_name_leads_to_no_other(make):
    with bind(Address(HOST, 0)) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(BadSetting, match=f"--node 2={HOST}:{port} can't be listened on"):
            make(named(named={2: Address(HOST, port)})).listen_for_named()


async def test_a_node_whose_id_has_no_name_cannot_be_advertised(make):
    nodes = make(settings(mapping=MappingKind.TEMPLATE, advertise="127.0.0.{node_id}:9092", own_node=1))
    await nodes.ensure([Node(256, "up.invalid", 9092)])
    with pytest.raises(OSError, match="node 256 has no place in"):
        nodes.advertised(256)


async def test_known_nodes_of_other_proxies_stay_theirs_over_a_restart(make, listeners, tmp_path):
    state = tmp_path / "nodes.json"
    nodes = make(named(own_node=1, state=state))
    await nodes.ensure([ONE, TWO])
    again = make(named(own_node=1, state=state), dict((await kept(nodes, state)).nodes))
    await listen(again)
    assert not listeners.opened
    assert again.upstream(2) == TWO.address


async def test_a_broker_that_advertises_a_name_of_the_template_is_not_dialled_by_it(make):
    nodes = make(named(own_node=1))
    with bind(Address(HOST, 0)) as sock:
        nodes.add_bootstrap(sock, Address(HOST, 9093))
        assert Address("kafka-1.example.org", 9092) in nodes.own_listeners


async def test_a_node_that_has_no_name_is_not_listened_for_with_one_port_for_all(make):
    nodes = make(one_port())
    with pytest.raises(OSError, match="node -7 has no place"):
        await nodes.ensure([Node(-7, "up.invalid", 9092)])
    assert nodes.listeners() == []
    await grown(nodes, one_port())


async def test_with_one_port_for_all_nodes_none_is_opened_and_each_has_its_name(make, listeners, watcher, tmp_path):
    state = tmp_path / "nodes.json"
    chosen = one_port(state=state)
    nodes = make(chosen)
    with bind(Address(HOST, 0)) as sock:
        nodes.add_bootstrap(sock, Address(HOST, 9092))
    await nodes.ensure([ONE, TWO])
    assert not listeners.opened
    assert nodes.advertised(2) == Address("kafka-2.example.org", 443)
    assert nodes.upstream(2) == TWO.address
    assert [(row.node_id, row.listener) for row in nodes.listeners()] == [(1, f"{HOST}:9092"), (2, f"{HOST}:9092")]
    assert [event[1:] for event in watcher.seen("node")] == [
        (1, str(ONE.address), f"{HOST}:9092"),
        (2, str(TWO.address), f"{HOST}:9092"),
    ]
    for own in ("kafka.example.org", "kafka-1.example.org", "kafka-2.example.org"):
        assert Address(own, 443) in nodes.own_listeners
    again = make(chosen, dict((await kept(nodes, state)).nodes))
    await listen(again)
    assert [row.node_id for row in again.listeners()] == [1, 2]
