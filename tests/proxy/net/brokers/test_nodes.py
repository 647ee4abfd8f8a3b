from __future__ import annotations

import itertools
import logging
import socket
from dataclasses import replace

import pytest
import trio

from proxy.mapping.nodes import Node
from proxy.net.brokers.node_ports import bind
from proxy.net.brokers.nodes import Nodes
from proxy.net.state.file import KnownNode
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.proxy.net.brokers.node_tables import ONE, THREE, TWO, free_base, kept, listen, one_port
from tests.proxy.net.peers import HOST
from tests.proxy.net.relays import BROKER, listens, settings


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


@pytest.mark.parametrize("ours", ["brokers", "controllers"])
async def test_nodes_of_one_kind_are_not_taken_for_those_of_the_other_with_the_same_ids(ours, make):
    """A node may be both a broker and a controller, with an address for each."""
    nodes, is_controller = make(), ours == "controllers"
    await nodes.ensure([replace(ONE, is_controller=is_controller)])
    other = Node(1, "other-1.invalid", 9093, not is_controller)
    assert nodes.needs_ensure([other])
    with pytest.raises(OSError, match=rf"the response names \w+, and these listeners stand for {ours}; right would be"):
        await nodes.ensure([other])
    assert nodes.upstream(1) == ONE.address
    # an answer that names nodes of its sender's own kind
    await nodes.ensure([Node(1, "moved-1.invalid", 9092, None)])
    assert nodes.upstream(1) == Address("moved-1.invalid", 9092)


async def test_a_known_nodes_kind_is_learnt_before_another_kind_takes_its_place(make):
    nodes = make(known={1: KnownNode(ONE.address), 2: KnownNode(TWO.address)})
    await listen(nodes)
    assert nodes.needs_ensure([ONE])
    await nodes.ensure([ONE])
    with pytest.raises(OSError, match="the response names controllers"):
        await nodes.ensure([Node(2, "other-2.invalid", 9093, True)])


async def test_another_cluster_may_be_one_of_the_other_kind(make):
    nodes = make()
    await nodes.ensure([ONE], "first")
    await nodes.ensure([Node(1, "other-1.invalid", 9093, True)], "second")
    assert nodes.upstream(1) == Address("other-1.invalid", 9093)


@pytest.mark.parametrize("order", list(itertools.permutations([ONE, TWO, THREE])))
async def test_nodes_get_the_ports_of_their_range_in_any_order(order, make, listeners):
    base = free_base()
    nodes = make(settings(base=base))
    for node in order:
        await nodes.ensure([node])
    assert listeners.ports == {number: base + number for number in (1, 2, 3)}


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

    monkeypatch.setattr("proxy.net.brokers.node_ports.bind", first_those)
    nodes = make(settings(base=base))
    with bind(Address(HOST, base + 1)):
        await nodes.ensure([ONE])
    assert listeners.ports[1] not in range(base, base + 1000)
    await nodes.ensure([TWO, THREE])
    assert (listeners.ports[2], listeners.ports[3]) == (base + 2, base + 3)


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


async def test_a_sidecars_broker_that_advertises_the_proxy_is_the_one_it_was_started_for(make):
    base = free_base()
    nodes = make(settings(base=base, advertise="kafka.example.org"))
    await nodes.ensure([Node(1, "kafka.example.org", base + 1), Node(2, HOST, base + 2), THREE])
    assert nodes.upstream(1) == BROKER
    assert nodes.upstream(2) == BROKER
    assert nodes.upstream(3) == THREE.address


@pytest.mark.parametrize(
    ("host", "client"),
    [
        (HOST, HOST),
        ("localhost", HOST),
        ("*", HOST),
        pytest.param("::1", "::1", marks=pytest.mark.ipv6),
        pytest.param("::", HOST, marks=pytest.mark.ipv6),
    ],
)
def test_a_socket_listens_on_the_given_address(host, client):
    with bind(Address(host, 0)) as sock, socket.create_connection((client, sock.getsockname()[1]), timeout=60):
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
