from __future__ import annotations

import itertools
import logging
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from proxy.config import ClusterSettings, MappingKind
from proxy.config.tls import ListenerTls
from proxy.mapping.nodes import Node
from proxy.net.brokers.nodes import Nodes, bind
from proxy.net.log_throttle import MAX_EVENTS
from proxy.net.state import writer
from proxy.net.state.file import KnownNode, Owner, SavedState, read_state
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.relays import ANY, BROKER, Listeners, Watcher, listens, settings

ONE, TWO, THREE = (Node(number, f"up-{number}.invalid", 9092) for number in (1, 2, 3))
Make = Callable[..., Nodes]


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def make(listeners: Listeners, watcher: Watcher) -> Make:
    def make(chosen: ClusterSettings | None = None, known: dict[int, KnownNode] | None = None) -> Nodes:
        return Nodes(chosen or settings(), listeners.serve, SavedState(known or {}), watcher)

    return make


async def restarted(nodes: Nodes, listeners: Listeners, state: Path, **others: Any) -> Nodes:
    """Makes the table again, as the proxy's next start does."""
    known = await kept(nodes, state)
    listeners.close()
    listeners.opened.clear()
    remembered = {number: node.port for number, node in known.nodes.items() if node.port is not None}
    return Nodes(settings(remembered=remembered, state=state, **others), listeners.serve, known, None)


async def listen(nodes: Nodes) -> None:
    """Listens as at the start."""
    nodes.listen_for_named()
    await nodes.listen_for_known(nodes.known)


async def kept(nodes: Nodes, state: Path) -> SavedState:
    """Returns the state that the next start finds."""
    await nodes.close_state()
    return read_state(state)


def free_base(count: int = 8) -> int:
    """Returns the first of so many consecutive free ports."""
    for base in range(20_000, 60_000, 97):
        try:
            for port in range(base, base + count):
                bind(Address(HOST, port)).close()
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


async def test_a_node_is_listened_for_once_it_is_ensured(make, listeners):
    nodes = make()
    await nodes.ensure([ONE, TWO])
    for number in (1, 2):
        assert nodes.advertised(number) == Address(HOST, listeners.ports[number])
        assert listens(listeners.ports[number])
    assert nodes.upstream(1) == ONE.address


async def test_a_node_seen_again_changes_nothing(make, watcher):
    nodes = make()
    await nodes.ensure([ONE])
    await nodes.ensure([ONE])
    assert len(watcher.seen("node")) == 1


async def test_a_node_that_moved_keeps_its_listener_and_is_dialled_where_it_is_now(make, listeners, watcher):
    nodes = make()
    await nodes.ensure([ONE])
    before = nodes.advertised(1)
    await nodes.ensure([Node(1, "elsewhere.invalid", 9093)])
    assert nodes.advertised(1) == before
    assert nodes.upstream(1) == Address("elsewhere.invalid", 9093)
    assert [event[2] for event in watcher.seen("node")] == ["up-1.invalid:9092", "elsewhere.invalid:9093"]


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


@pytest.mark.parametrize("order", list(itertools.permutations([ONE, TWO, THREE])))
async def test_nodes_get_the_ports_of_their_range_in_any_order(order, make, listeners):
    base = free_base()
    nodes = make(settings(base=base))
    for node in order:
        await nodes.ensure([node])
    assert listeners.ports == {number: base + number for number in (1, 2, 3)}


async def test_the_state_keeps_only_ports_that_no_flag_gives(make, tmp_path):
    state = tmp_path / "nodes.json"
    base = free_base()
    nodes = make(settings(base=base, state=state, named={2: Address(HOST, 0)}))
    await nodes.ensure([ONE, TWO])
    known = (await kept(nodes, state)).nodes
    assert known[1] == KnownNode(ONE.address)
    assert known[2].port == nodes.advertised(2).port


async def test_known_nodes_are_listened_for_and_advertised_at_the_start(make, listeners, watcher):
    nodes = make(settings(named={5: Address(HOST, 0)}), {1: KnownNode(ONE.address)})
    await listen(nodes)
    assert set(listeners.ports) == {1, 5}
    assert [event[1:3] for event in watcher.seen("node")] == [(5, "unknown"), (1, "up-1.invalid:9092")]
    assert nodes.upstream(5) is None
    assert nodes.has_known_broker


async def test_a_named_nodes_broker_is_unknown_until_metadata_names_it(make):
    nodes = make(settings(named={5: Address(HOST, 0)}))
    await listen(nodes)
    assert not nodes.has_known_broker


async def test_a_usual_port_that_is_taken_gives_way_to_another_named_in_log_and_metric(make, caplog):
    base = free_base()
    with bind(Address(HOST, base + 1)):
        nodes = make(settings(base=base))
        await nodes.ensure([ONE])
    assert nodes.advertised(1).port != base + 1
    (row,) = nodes.listeners()
    assert not row.usual_port
    assert row.listener == str(nodes.advertised(1))
    warning = next(record for record in caplog.records if "usual port" in record.message)
    assert warning.levelno == logging.WARNING
    assert warning.keys == {"cluster": "main", "node": 1, "usual": base + 1, "port": nodes.advertised(1).port}


async def test_a_port_that_the_kernel_picked_is_no_other_nodes(make, listeners, monkeypatch):
    base = free_base()
    free = iter([base + 2, base + 3])

    def first_those(address: Address) -> socket.socket:
        return bind(address if address.port else Address(address.host, next(free, 0)))

    monkeypatch.setattr("proxy.net.brokers.nodes.bind", first_those)
    nodes = make(settings(base=base))
    with bind(Address(HOST, base + 1)):
        await nodes.ensure([ONE])
    assert listeners.ports[1] not in range(base, base + 1000)
    await nodes.ensure([TWO, THREE])
    assert (listeners.ports[2], listeners.ports[3]) == (base + 2, base + 3)


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


async def test_the_metric_shows_each_node_with_its_listener(make):
    nodes = make(settings(named={5: Address(HOST, 0)}))
    await listen(nodes)
    await nodes.ensure([ONE])
    assert {(row.node_id, row.upstream, row.usual_port) for row in nodes.listeners()} == {
        (1, "up-1.invalid:9092", True),
        (5, "unknown", True),
    }


class ScrapedWhenWritten(dict[int, Address]):
    """Reads the metric after each write, as a scrape in another thread may."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__()
        self._nodes = nodes
        self.scraped: list[list[int]] = []

    def __setitem__(self, node_id: int, listener: Address) -> None:
        super().__setitem__(node_id, listener)
        self.scraped.append([row.node_id for row in self._nodes.listeners()])


@pytest.mark.parametrize("chosen", [settings, lambda: one_port()], ids=["ports", "names"])
async def test_the_metric_is_whole_at_every_moment_of_a_new_listener(chosen, make):
    nodes = make(chosen())
    nodes._listening = ScrapedWhenWritten(nodes)
    await nodes.ensure([ONE, TWO])
    assert nodes._listening.scraped == [[1], [1, 2]]


async def test_clients_get_the_advertised_host_and_the_listeners_port(make, listeners):
    nodes = make(settings(listen=Address("0.0.0.0", 0), advertise="proxy.example.org"))
    await nodes.ensure([ONE])
    assert nodes.advertised(1) == Address("proxy.example.org", listeners.ports[1])


async def test_a_named_node_that_cannot_be_listened_for_is_a_bad_setting(make):
    nodes = make(settings(named={1: Address("192.0.2.1", 0)}))
    with pytest.raises(BadSetting, match=r"--node 1=192.0.2.1:0 can't be listened on \(.*\); right would be"):
        nodes.listen_for_named()


@pytest.mark.parametrize("node", [Node(1, "", 9092), Node(1, "up", -1), Node(1, "up", 70000), Node(1, "u p", 9092)])
async def test_a_node_without_an_address_that_can_be_is_listened_for_and_unknown(node, make, tmp_path):
    state = tmp_path / "nodes.json"
    nodes = make(settings(state=state))
    await nodes.ensure([node])
    assert nodes.advertised(1).host == HOST
    assert nodes.upstream(1) is None
    await nodes.ensure([node])
    assert (await kept(nodes, state)).nodes[1].upstream is None


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


async def test_others_have_their_turn_while_thousands_of_nodes_are_listened_for(make, nursery):
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    many = [Node(number, "up.invalid", 9092) for number in range(100)]
    nursery.start_soon(other)
    nodes = make(known={node.node_id: KnownNode(node.address) for node in many[:50]})
    await listen(nodes)
    assert turns > 40
    await nodes.ensure(many)
    assert turns > 80
    nursery.cancel_scope.cancel()


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


async def test_a_sidecars_broker_that_advertises_the_proxy_is_the_one_it_was_started_for(make):
    base = free_base()
    nodes = make(settings(base=base, advertise="kafka.example.org"))
    await nodes.ensure([Node(1, "kafka.example.org", base + 1), Node(2, HOST, base + 2), THREE])
    assert nodes.upstream(1) == BROKER
    assert nodes.upstream(2) == BROKER
    assert nodes.upstream(3) == THREE.address


# names made of node ids: some nodes are this proxy's, the others belong to other proxies


def named(**others: Any) -> ClusterSettings:
    return settings(mapping=MappingKind.TEMPLATE, advertise="kafka-{node_id}.example.org:9092", **others)


def one_port(**others: Any) -> ClusterSettings:
    return settings(
        mapping=MappingKind.SNI,
        advertise="kafka-{node_id}.example.org:443",
        bootstrap_name="kafka.example.org",
        tls=ListenerTls(Path("proxy.pem")),
        **others,
    )


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


@pytest.mark.parametrize(
    ("host", "client"), [(HOST, HOST), ("::1", "::1"), ("localhost", HOST), ("*", HOST), ("::", HOST)]
)
def test_a_socket_listens_on_the_given_address(host, client):
    with bind(Address(host, 0)) as sock, socket.create_connection((client, sock.getsockname()[1]), timeout=10):
        pass


def test_an_address_that_is_taken_cannot_be_had():
    with bind(Address(HOST, 0)) as sock, pytest.raises(OSError, match="in use"):
        bind(Address(HOST, sock.getsockname()[1]))


def test_a_port_is_free_again_as_soon_as_its_listener_has_closed():
    with bind(Address(HOST, 0)) as sock:
        port = sock.getsockname()[1]
        with socket.create_connection((HOST, port)):
            accepted, _ = sock.accept()
            accepted.close()
    bind(Address(HOST, port)).close()


async def grown(nodes: Nodes, chosen: ClusterSettings) -> None:
    """Applies settings with more nodes."""
    (await nodes.change_to(chosen.node_map)).apply()


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
