"""Tests of what is known of nodes over a restart, and after another cluster has taken the place of the old one."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from proxy.mapping.nodes import Node
from proxy.net.brokers.nodes import Nodes
from proxy.net.log_throttle import MAX_EVENTS
from proxy.net.state import writer
from proxy.net.state.file import KnownNode, Owner, SavedState
from proxy.schema.addresses import Address
from tests.proxy.net.brokers.node_tables import ONE, THREE, TWO, free_base, kept, listen
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.relays import ANY, BROKER, Listeners, settings


async def restarted(nodes: Nodes, listeners: Listeners, state: Path, **others: Any) -> Nodes:
    """Makes the table again, as the proxy's next start does."""
    known = await kept(nodes, state)
    listeners.close()
    listeners.opened.clear()
    remembered = {number: node.port for number, node in known.nodes.items() if node.port is not None}
    return Nodes(settings(remembered=remembered, state=state, **others), listeners.serve, known, None)


@pytest.mark.parametrize("order", list(itertools.permutations([ONE, TWO, THREE])))
async def test_nodes_keep_their_ports_over_a_restart_in_any_order(order, make, listeners, tmp_path):
    state = tmp_path / "nodes.json"
    nodes = make(settings(state=state))
    await nodes.ensure([ONE, TWO, THREE])
    before = dict(listeners.ports)
    again = await restarted(nodes, listeners, state)
    for node in order:
        await again.ensure([node])
    assert listeners.ports == before


async def test_another_cluster_in_the_old_ones_place_keeps_its_ports_and_nothing_else(
    make, listeners, tmp_path, caplog
):
    state = tmp_path / "nodes.json"
    nodes = make(settings(state=state))
    await nodes.ensure([ONE, TWO], "first")
    ports = dict(listeners.ports)
    again = await restarted(nodes, listeners, state)
    await listen(again)
    assert again.upstream(2) == TWO.address
    moved = Node(1, "other-1.invalid", 9092)
    await again.ensure([moved], "second")
    assert listeners.ports == ports
    assert (again.upstream(1), again.upstream(2)) == (moved.address, None)
    known = {1: KnownNode(moved.address, ports[1]), 2: KnownNode(None, ports[2])}
    assert await kept(again, state) == SavedState(known, "second", Owner(ANY, (BROKER,)))
    (warning,) = [record for record in caplog.records if "another cluster" in record.message]
    assert warning.keys == {"cluster": "main", "was": "first", "now": "second"}


async def test_an_answer_with_the_known_cluster_id_or_none_needs_no_work(make, tmp_path, caplog):
    state = tmp_path / "nodes.json"
    nodes = make(settings(state=state))
    await nodes.ensure([ONE])
    await nodes.ensure([ONE], "first")
    assert not nodes.needs_ensure([ONE], "first")
    assert not nodes.needs_ensure([ONE])
    await nodes.ensure([ONE], "first")
    await nodes.ensure([ONE])
    assert nodes.upstream(1) == ONE.address
    assert (await kept(nodes, state)).cluster_id == "first"
    assert "another cluster" not in caplog.text


async def test_two_alternating_clusters_are_logged_once_each(make, caplog):
    nodes = make()
    for cluster_id in ["first", "second"] * 5:
        await nodes.ensure([ONE], cluster_id)
    assert caplog.text.count("another cluster") == 2


async def test_a_broker_that_makes_up_ever_new_clusters_fills_neither_the_log_nor_the_memory(make, caplog):
    nodes = make()
    for number in range(100):
        await nodes.ensure([ONE], f"cluster-{number}")
    assert caplog.text.count("another cluster") == MAX_EVENTS
    assert len(nodes._log_throttle._logged_at) == MAX_EVENTS


async def test_the_state_keeps_only_ports_that_no_flag_gives(make, tmp_path):
    state = tmp_path / "nodes.json"
    base = free_base()
    nodes = make(settings(base=base, state=state, named={2: Address(HOST, 0)}))
    await nodes.ensure([ONE, TWO])
    known = (await kept(nodes, state)).nodes
    assert known[1] == KnownNode(ONE.address)
    assert known[2].port == nodes.advertised(2).port


async def test_a_node_with_an_id_below_0_does_not_spoil_the_state(make, tmp_path):
    state = tmp_path / "nodes.json"
    nodes = make(settings(state=state))
    await nodes.ensure([Node(-1, "up", 9092), ONE])
    assert set((await kept(nodes, state)).nodes) == {1}


async def test_an_unwritable_state_is_logged_and_does_no_harm(make, caplog, tmp_path):
    (tmp_path / "file").touch()
    nodes = make(settings(state=tmp_path / "file" / "nodes.json"))
    await nodes.ensure([ONE])
    assert nodes.upstream(1) == ONE.address
    await nodes.close_state()
    assert "state file can't be written" in caplog.text


async def test_nodes_named_by_concurrent_responses_are_all_saved(make, tmp_path):
    state = tmp_path / "nodes.json"
    nodes = make(settings(state=state))
    async with trio.open_nursery() as nursery:
        for node in (ONE, TWO, THREE):
            nursery.start_soon(nodes.ensure, [node])
    assert set((await kept(nodes, state)).nodes) == {1, 2, 3}


async def test_a_hanging_disk_does_not_delay_a_new_node(make, tmp_path, monkeypatch):
    go_on, written = threading.Event(), []

    def hangs(path: Path, state: SavedState) -> None:
        assert go_on.wait(PATIENCE)
        written.append(set(state.nodes))

    monkeypatch.setattr(writer, "write_state", hangs)
    nodes = make(settings(state=tmp_path / "nodes.json"))
    with trio.fail_after(PATIENCE / 2):
        await nodes.ensure([ONE])
        await nodes.ensure([TWO])
        await nodes.ensure([Node(1, "moved.invalid", 9092)])
    assert nodes.upstream(1) == Address("moved.invalid", 9092)
    go_on.set()
    await nodes.close_state()
    assert written[-1] == {1, 2}
