from __future__ import annotations

import logging
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config import MappingKind
from proxy.config.cluster import ProxyProtocolVersion
from proxy.config.tls import ListenerTls
from proxy.conversation import Cause
from proxy.mapping.nodes import Node
from proxy.metrics.nodes import NodeRow
from proxy.net.brokers import upstreams as upstream_rules
from proxy.net.brokers.discovery import LeadsBackIndirectly, LoopProbe
from proxy.net.brokers.node_ports import bind
from proxy.net.brokers.nodes import Nodes
from proxy.net.brokers.upstreams import LONGEST_PAUSE, LOOP_CHECK_FROM, LOOP_TTL, Upstreams
from proxy.net.log_throttle import MAX_EVENTS
from proxy.net.sockets.race import HEAD_START
from proxy.net.sockets.streams import Stream
from proxy.net.state.file import SavedState
from proxy.schema.addresses import Address
from proxy.wire.dialects import Dialect
from proxy.wire.keys import API_VERSIONS, METADATA
from tests.proxy.net.cluster import Broker
from tests.proxy.net.peers import HOST, NOWHERE, deaf
from tests.proxy.net.relays import settings

# names of this machine that differ from 127.0.0.1 as text
SPELLINGS = pytest.mark.parametrize("host", ["localhost", "127.1", "0.0.0.0", "0", "::ffff:127.0.0.1"])
ONE_PORT = {
    "mapping": MappingKind.SNI,
    "advertise": "kafka-{node_id}.invalid:443",
    "bootstrap_name": "kafka.invalid",
    "tls": ListenerTls(Path("proxy.pem")),
}
SIDECAR = {"mapping": MappingKind.TEMPLATE, "advertise": "kafka-{node_id}:9092", "own_node": 3}


@pytest.fixture
def make(listeners):
    def make(*upstream: Address, **others: Any) -> tuple[Upstreams, Nodes]:
        chosen = settings(*upstream, **others)
        nodes = Nodes(chosen, listeners.serve, SavedState(), None)
        return Upstreams(chosen, nodes), nodes

    return make


async def connected(upstreams: Upstreams, node_id: int | None) -> str | Cause:
    """Returns the broker that a client is connected to, or the cause of failure."""
    found = await upstreams.connect(1, node_id, NodeRow())
    if isinstance(found, Stream):
        found.close()
        return found.peer
    return found


async def test_a_client_of_the_bootstrap_listener_reaches_the_first_server_that_is_there(make, broker):
    upstreams, _ = make(NOWHERE, broker.address)
    assert await connected(upstreams, None) == str(broker.address)
    assert upstreams.reached


async def test_a_node_is_down_since_its_first_dial_that_failed_and_up_again_after_one_that_succeeds(make, broker):
    upstreams, nodes = make(broker.address)
    await nodes.ensure([Node(1, NOWHERE.host, NOWHERE.port)])
    row = NodeRow()
    for _ in range(2):
        assert await upstreams.connect(1, 1, row) is Cause.UPSTREAM_DOWN
    failed = row.reach
    assert (failed.is_known, failed.is_up, row.dial_failures["refused"]) == (True, False, 2)
    assert failed.since < failed.failed
    await nodes.ensure([Node(1, broker.address.host, broker.address.port)])
    stream = await upstreams.connect(1, 1, row)
    assert isinstance(stream, Stream)
    stream.close()
    assert (row.reach.is_up, sum(row.dial_failures.values())) == (True, 2)
    assert row.reach.since > failed.failed


async def test_each_bootstrap_server_that_fails_counts_though_another_is_reached(make, broker):
    upstreams, _ = make(NOWHERE, broker.address)
    row = NodeRow()
    stream = await upstreams.connect(1, None, row)
    assert isinstance(stream, Stream)
    stream.close()
    assert (row.dial_failures["refused"], row.reach.is_up) == (1, True)


async def test_a_node_that_is_not_known_was_not_dialled(make, broker):
    upstreams, _ = make(broker.address)
    row = NodeRow()
    assert await upstreams.connect(1, 7, row) is Cause.UNKNOWN_NODE
    assert not row.reach.is_known


async def test_a_bootstrap_server_that_is_gone_costs_a_moment_and_then_nothing(make, broker, autojump_clock):
    with deaf() as gone:
        upstreams, _ = make(Address(*gone), broker.address)
        began = trio.current_time()
        assert await connected(upstreams, None) == str(broker.address)
        assert trio.current_time() - began < 2 * HEAD_START
        for _ in range(10):
            assert await connected(upstreams, None) == str(broker.address)
            assert await upstreams.discover()
        assert trio.current_time() - began < 2 * HEAD_START


async def test_discovery_finds_the_reachable_server_for_clients_too(make, broker, autojump_clock):
    with deaf() as gone:
        upstreams, _ = make(Address(*gone), broker.address)
        assert await upstreams.discover()
        began = trio.current_time()
        assert await connected(upstreams, None) == str(broker.address)
        assert trio.current_time() - began < HEAD_START


async def test_bootstrap_servers_that_are_all_down_share_one_timeout(make, autojump_clock):
    with deaf() as one, deaf() as two, deaf() as three:
        upstreams, _ = make(*(Address(*gone) for gone in (one, two, three)), dial_seconds=10)
        began = trio.current_time()
        assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
        assert not upstreams.reached
        assert trio.current_time() - began < 10 + 3 * HEAD_START


async def test_a_lookup_of_a_brokers_address_counts_towards_the_dial_timeout(make, autojump_clock):
    class Hangs(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *asked: Any) -> Any:
            await trio.sleep_forever()

        async def getnameinfo(self, *asked: Any) -> Any:
            raise AssertionError

    trio.socket.set_custom_hostname_resolver(Hangs())
    with bind(Address(HOST, 0)) as sock:
        port = sock.getsockname()[1]
        upstreams, nodes = make(NOWHERE, dial_seconds=10)
        nodes.own_listeners.add(sock)
        await nodes.ensure([Node(1, "broker.invalid", port)])
        with trio.fail_after(11):
            assert await connected(upstreams, 1) is Cause.UPSTREAM_DOWN


async def test_the_next_bootstrap_server_is_asked_when_one_is_down_or_wants_a_login(make, broker, nursery):
    other = Broker()
    other.speaks = False
    upstreams, nodes = make(NOWHERE, await other.start(nursery), broker.address)
    assert await upstreams.discover()
    assert nodes.upstream(1) == broker.address
    assert upstreams.reached


async def test_a_controller_too_old_to_name_the_quorum_is_not_reached_and_said_to_be_one(make, broker, caplog):
    broker.describes_quorum = 0
    upstreams, _ = make(broker.address)
    assert not await upstreams.discover()
    assert not upstreams.reached
    assert "is a controller older than Kafka 3.7" in caplog.records[-1].keys["reason"]


async def test_servers_that_were_asked_in_vain_were_reached_where_one_of_them_was(make, broker, caplog):
    broker.speaks = False
    upstreams, _ = make(NOWHERE, broker.address)
    assert not await upstreams.discover()
    assert upstreams.reached
    assert "can't be reached" in caplog.records[-1].keys["reason"]
    assert "does it ask for a login" in caplog.records[-1].keys["reason"]
    broker.stop()
    await wait_all_tasks_blocked()
    assert not await upstreams.discover()
    assert not upstreams.reached


async def test_an_address_that_leads_back_by_way_of_others_is_asked_again_and_dialled_by_no_client(
    make, nursery, monkeypatch, autojump_clock, caplog
):
    other = Broker()
    address = await other.start(nursery)
    upstreams, nodes = make(address)
    await nodes.ensure([Node(4, address.host, address.port)])
    asked = come_back(monkeypatch)
    for _ in range(3):
        assert not await upstreams.discover()
    assert asked == [address] * 3
    assert not upstreams.reached
    assert other.connections == 0
    for node_id in (None, 4):
        assert await connected(upstreams, node_id) is Cause.UPSTREAM_DOWN
    assert other.connections == 0
    assert caplog.text.count("upstream leads back") == 1
    # once the other servers lead to a broker again
    monkeypatch.undo()
    assert await upstreams.discover()
    for node_id in (None, 4):
        assert await connected(upstreams, node_id) == str(address)
    nursery.cancel_scope.cancel()


async def test_a_circle_is_looked_for_again_after_a_while(make, nursery, monkeypatch, autojump_clock):
    other = Broker()
    address = await other.start(nursery)
    upstreams, _ = make(address)
    come_back(monkeypatch)
    await upstreams.check_for_loop(str(address))
    assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
    await trio.sleep(LOOP_TTL)
    assert await connected(upstreams, None) == str(address)
    nursery.cancel_scope.cancel()


def come_back(monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """From now on every query comes back. Returns the addresses of queries."""
    asked: list[Address] = []

    async def comes_back(dial: Any, question: LoopProbe) -> None:
        asked.extend(one for one in dial.args if isinstance(one, Address))
        raise LeadsBackIndirectly("it leads back to this proxy")

    monkeypatch.setattr(upstream_rules, "ask_for_nodes", comes_back)
    return asked


async def test_an_address_is_asked_whether_it_leads_back_each_time_its_connections_have_doubled(make, broker):
    upstreams, _ = make(broker.address)
    one, other = "a.invalid:9092", "b.invalid:9092"
    crowds = [number for number in range(1, 10 * LOOP_CHECK_FROM) if upstreams.count_opened(one)]
    assert crowds == [LOOP_CHECK_FROM, 2 * LOOP_CHECK_FROM, 4 * LOOP_CHECK_FROM, 8 * LOOP_CHECK_FROM]
    assert not any(upstreams.count_opened(other) for _ in range(LOOP_CHECK_FROM - 1))
    assert upstreams.count_opened(other)
    upstreams.count_closed(other)
    assert not upstreams.count_opened(other)
    for _ in range(LOOP_CHECK_FROM):
        upstreams.count_closed(other)
    assert [upstreams.count_opened(other) for _ in range(LOOP_CHECK_FROM)].index(True) == LOOP_CHECK_FROM - 1


async def test_no_answer_to_the_discovery_query_ends_the_proxy(make, broker, monkeypatch, caplog):
    async def fault(*arguments: object) -> None:
        raise KeyError("api_keys")

    upstreams, _ = make(broker.address)
    monkeypatch.setattr(upstream_rules, "ask_for_nodes", fault)
    await upstreams.check_for_loop(str(broker.address))
    assert caplog.records[-1].exc_info
    monkeypatch.undo()
    broker.speaks = False
    await upstreams.check_for_loop(str(broker.address))
    assert await connected(upstreams, None) == str(broker.address)


async def test_a_broker_of_0_7_is_never_checked_for_a_loop(make, broker):
    upstreams, _ = make(broker.address, dialect=Dialect.KAFKA_07)
    assert not any(upstreams.count_opened("broker.invalid:9092") for _ in range(10 * LOOP_CHECK_FROM))


async def test_an_unreachable_broker_is_the_cause_upstream_down(make):
    upstreams, _ = make(NOWHERE)
    assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
    assert not upstreams.reached


async def test_a_client_of_a_node_reaches_the_nodes_broker(make, broker):
    upstreams, nodes = make(NOWHERE)
    await nodes.ensure([Node(4, broker.address.host, broker.address.port)])
    assert await connected(upstreams, 4) == str(broker.address)


async def test_the_own_nodes_brokers_are_the_bootstrap_servers_without_discovery(make, broker):
    broker.is_reticent = True
    upstreams, _ = make(NOWHERE, broker.address, **SIDECAR)
    assert await connected(upstreams, 3) == str(broker.address)
    assert await connected(upstreams, 4) is Cause.UNKNOWN_NODE


async def test_an_own_node_without_its_broker_makes_the_cluster_unreachable(make):
    upstreams, _ = make(NOWHERE, **SIDECAR)
    upstreams.reached = True
    assert await connected(upstreams, 3) is Cause.UPSTREAM_DOWN
    assert not upstreams.reached


async def test_a_node_that_is_down_does_not_make_the_cluster_unreachable(make, broker):
    upstreams, nodes = make(broker.address)
    await nodes.ensure([Node(4, HOST, 1)])
    await connected(upstreams, None)
    assert await connected(upstreams, 4) is Cause.UPSTREAM_DOWN
    assert upstreams.reached


async def test_a_node_that_moved_is_reached_where_it_is_now(make, broker, nursery):
    other = Broker()
    await other.start(nursery)
    upstreams, nodes = make(NOWHERE)
    await nodes.ensure([Node(4, broker.address.host, broker.address.port)])
    await connected(upstreams, 4)
    await nodes.ensure([Node(4, other.address.host, other.address.port)])
    assert await connected(upstreams, 4) == str(other.address)


async def test_an_unknown_node_is_looked_up_once(make, broker):
    upstreams, _ = make(broker.address)
    assert await connected(upstreams, 9) is Cause.UNKNOWN_NODE
    assert [key for key, _ in broker.asked].count(METADATA) == 1


async def test_clients_that_think_of_nodes_do_not_make_the_proxy_ask_and_ask(make, broker, monkeypatch):
    monkeypatch.setattr(upstream_rules, "CLIENT_QUERY_SECONDS", 3600.0)
    upstreams, _ = make(broker.address)
    for node_id in range(50, 80):
        assert await connected(upstreams, node_id) is Cause.UNKNOWN_NODE
    assert [key for key, _ in broker.asked].count(METADATA) == 1
    monkeypatch.setattr(upstream_rules, "CLIENT_QUERY_SECONDS", 0.0)
    assert await connected(upstreams, 50) is Cause.UNKNOWN_NODE
    assert [key for key, _ in broker.asked].count(METADATA) == 2


async def test_an_unknown_node_that_the_cluster_tells_is_reached(make, broker):
    upstreams, _ = make(broker.address)
    assert await connected(upstreams, 1) == str(broker.address)


async def test_connections_that_wait_for_a_node_share_one_answer(make, broker, nursery):
    upstreams, _ = make(broker.address)
    outcomes = []

    async def client() -> None:
        outcomes.append(await connected(upstreams, 9))

    async with trio.open_nursery() as clients:
        for _ in range(5):
            clients.start_soon(client)
    assert outcomes == [Cause.UNKNOWN_NODE] * 5
    assert [key for key, _ in broker.asked].count(METADATA) == 1


def connections_to(sock: socket.socket) -> int:
    """Returns how many connections have arrived since the last call; nothing was sent on any of them."""
    sock.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            with sock.accept()[0] as arrived:
                assert arrived.recv(1) == b""
            count += 1
    return count


async def test_a_name_of_the_proxys_own_is_never_dialled(make):
    with bind(Address(HOST, 0)) as sock:
        here = Address("proxy.invalid", sock.getsockname()[1])
        upstreams, nodes = make(here)
        nodes.own_listeners.add(sock, here)
        assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
        assert not await upstreams.discover()
        assert connections_to(sock) == 0


@SPELLINGS
async def test_an_upstream_that_leads_back_is_found_out_with_one_connection(make, host, autojump_clock, caplog):
    with bind(Address(HOST, 0)) as sock:
        upstreams, nodes = make(Address(host, sock.getsockname()[1]), send_proxy=ProxyProtocolVersion.TWO)
        nodes.own_listeners.add(sock)
        for _ in range(3):
            assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
            assert not await upstreams.discover()
        assert not upstreams.reached
        assert connections_to(sock) == 1
        (down,) = [record for record in caplog.records if record.message == "upstream is down"]
        assert "leads back to this proxy" in str(down.keys["reason"])
        # the name may lead elsewhere by now
        await trio.sleep(LOOP_TTL)
        assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
        assert connections_to(sock) == 1


@SPELLINGS
async def test_a_broker_that_advertises_the_proxy_by_any_name_is_the_upstream(make, listeners, broker, host):
    upstreams, nodes = make(broker.address)
    await nodes.ensure([Node(1, "up.invalid", 9092)])
    await nodes.ensure([Node(2, host, listeners.ports[1])])
    for _ in range(3):
        assert await connected(upstreams, 2) == str(broker.address)
    assert connections_to(listeners.opened[1].socket._sock) == 1


@pytest.mark.parametrize("mapping", [SIDECAR, ONE_PORT], ids=["template", "sni"])
async def test_with_names_for_nodes_too_what_leads_back_is_found_out(make, broker, mapping):
    with bind(Address(HOST, 0)) as sock:
        port = sock.getsockname()[1]
        upstreams, nodes = make(Address("0.0.0.0", port), **mapping)
        nodes.add_bootstrap(sock, Address(HOST, port))
        await nodes.ensure([Node(4, "0", port)])
        for node_id in (None, 3, 4) * 2:
            assert await connected(upstreams, node_id) in (Cause.UPSTREAM_DOWN, Cause.UNKNOWN_NODE)
        # each spelling is queried once
        assert connections_to(sock) == 2


async def test_a_broker_on_the_proxys_port_at_another_address_is_dialled(make):
    with bind(Address(HOST, 0)) as sock, bind(Address("127.0.0.2", sock.getsockname()[1])) as other:
        upstreams, nodes = make(Address(*other.getsockname()))
        nodes.own_listeners.add(sock)
        assert await connected(upstreams, None) == "{}:{}".format(*other.getsockname())


async def test_the_broker_of_a_sidecar_is_reached_though_it_calls_itself_by_another_name_of_the_proxy(make, broker):
    upstreams, nodes = make(broker.address)
    await nodes.ensure([Node(1, HOST, 9)])
    port = nodes.advertised(1).port
    await nodes.ensure([Node(1, "localhost", port)])
    assert nodes.upstream(1) == Address("localhost", port)
    assert await connected(upstreams, 1) == str(broker.address)


async def test_a_broker_that_goes_down_or_comes_back_is_logged_once(make, nursery, caplog):
    caplog.set_level(logging.INFO)
    broker = Broker()
    address = await broker.start(nursery)
    upstreams, _ = make(address)
    broker.stop()
    await wait_all_tasks_blocked()
    for _ in range(3):
        assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
    await broker.start(nursery, port=address.port)
    for _ in range(3):
        assert await connected(upstreams, None) == str(address)
    said = [record.message for record in caplog.records]
    assert said == ["upstream is down", "connection without upstream", "upstream is back"]


async def test_a_flood_of_clients_that_want_nodes_that_there_are_not_is_no_flood_of_the_log(make, broker, caplog):
    caplog.set_level(logging.INFO)
    upstreams, _ = make(broker.address)
    for node_id in (77, 77, *range(100, 200)):
        assert await connected(upstreams, node_id) is Cause.UNKNOWN_NODE
    said = [record.keys["node"] for record in caplog.records if record.message == "node is not known"]
    assert said == [77, *range(100, 99 + MAX_EVENTS)]


async def test_discovery_is_repeated_until_a_server_answers(make, nursery, autojump_clock, caplog):
    broker = Broker()
    address = await broker.start(nursery)
    broker.is_reticent = True
    upstreams, nodes = make(address)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(100)
    assert upstreams.reached
    assert not nodes.has_known_broker
    asked = broker.asked.count((API_VERSIONS, 0))
    assert 5 < asked < 12
    broker.is_reticent = False
    await trio.sleep(100)
    assert nodes.upstream(1) == address
    assert broker.asked.count((API_VERSIONS, 0)) <= asked + 2
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    nursery.cancel_scope.cancel()


async def test_brokers_that_never_tell_are_not_asked_once_clients_answers_did(make, nursery, autojump_clock):
    broker = Broker()
    address = await broker.start(nursery)
    broker.is_reticent = True
    upstreams, nodes = make(address)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(10)
    await nodes.ensure([Node(1, HOST, 9)])
    await trio.sleep(100)
    asked = broker.connections
    await trio.sleep(1000)
    assert broker.connections == asked
    nursery.cancel_scope.cancel()


async def test_brokers_that_end_each_connection_are_asked_on_as_they_may_start(make, nursery, autojump_clock):
    broker = Broker()
    address = await broker.start(nursery)
    broker.speaks = False
    upstreams, nodes = make(address)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(100)
    broker.speaks = True
    await trio.sleep(LONGEST_PAUSE + 1)
    assert nodes.upstream(1) == address
    nursery.cancel_scope.cancel()


async def test_brokers_that_end_each_connection_are_asked_less_often_where_nodes_are_known(
    make, nursery, autojump_clock
):
    broker = Broker()
    address = await broker.start(nursery)
    upstreams, nodes = make(address)
    await nodes.ensure([Node(7, HOST, 9)])
    broker.speaks = False
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(300)
    asked = broker.connections
    await trio.sleep(300)
    assert 4 * 2 <= broker.connections - asked <= 6 * 2
    broker.speaks = True
    await trio.sleep(61)
    assert nodes.upstream(1) == address
    nursery.cancel_scope.cancel()


@pytest.mark.real
async def test_a_cluster_that_names_no_broker_yet_is_asked_again_soon(make, nursery, autojump_clock):
    broker = Broker(nodes=[])
    address = await broker.start(nursery)
    upstreams, nodes = make(address)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(1000)
    assert upstreams.reached
    broker.nodes = None
    await trio.sleep(LONGEST_PAUSE + 1)
    assert nodes.upstream(1) == address
    asked = broker.connections
    await trio.sleep(100)
    assert broker.connections == asked
    nursery.cancel_scope.cancel()


async def test_a_cluster_that_names_no_broker_is_asked_again_though_nodes_are_known(make, nursery, autojump_clock):
    broker = Broker(nodes=[])
    address = await broker.start(nursery)
    upstreams, nodes = make(address)
    await nodes.ensure([Node(7, HOST, 9)])
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(100)
    assert nodes.upstream(1) is None
    broker.nodes = None
    await trio.sleep(LONGEST_PAUSE + 1)
    assert nodes.upstream(1) == address
    nursery.cancel_scope.cancel()


@pytest.mark.real
async def test_a_cluster_that_comes_back_after_long_is_found_soon(make, nursery, autojump_clock):
    broker = Broker()
    address = await broker.start(nursery)
    broker.stop()
    upstreams, nodes = make(address)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(1000)
    await broker.start(nursery, port=address.port)
    await trio.sleep(LONGEST_PAUSE + 1)
    assert nodes.upstream(1) == address
    nursery.cancel_scope.cancel()


@pytest.mark.real
async def test_the_proxy_asks_itself_when_no_client_has_and_never_brokers_that_want_a_login(
    make, nursery, autojump_clock
):
    broker = Broker()
    address = await broker.start(nursery)
    upstreams, nodes = make(address, forget_node_seconds=12 * 60)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(10.5 * 60)
    assert 9 <= broker.connections <= 11
    for _ in range(20):
        nodes.note([1], is_list=True)
        await trio.sleep(30)
    asked = broker.connections
    for _ in range(20):
        nodes.note([1], is_list=True)
        await trio.sleep(30)
    assert broker.connections == asked
    broker.is_reticent = True
    await trio.sleep(600)
    asked = broker.connections
    await trio.sleep(6000)
    assert broker.connections == asked
    nursery.cancel_scope.cancel()


@pytest.mark.real
async def test_a_question_without_an_answer_forgets_no_node(make, nursery, autojump_clock):
    broker = Broker()
    address = await broker.start(nursery)
    upstreams, nodes = make(address, forget_node_seconds=12)
    await nodes.ensure([Node(7, HOST, 9)])
    nursery.start_soon(upstreams.keep_discovering)
    nursery.start_soon(nodes.keep_giving_back)
    await trio.sleep(5.5)
    broker.nodes = []
    await trio.sleep(100)
    assert nodes.known == [1, 7]
    broker.nodes = None
    await trio.sleep(10)
    assert nodes.known == [1, 7]
    await trio.sleep(10)
    assert nodes.known == [1]
    nursery.cancel_scope.cancel()


async def test_discovery_is_repeated_when_a_broker_can_not_be_reached(make, nursery, autojump_clock):
    broker = Broker()
    address = await broker.start(nursery)
    broker.nodes = [Node(4, HOST, 1)]
    upstreams, _ = make(address)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(10)
    broker.nodes = [Node(4, address.host, address.port)]
    assert await connected(upstreams, 4) is Cause.UPSTREAM_DOWN
    await trio.sleep(10)
    assert await connected(upstreams, 4) == str(address)
    nursery.cancel_scope.cancel()


async def test_an_unexpected_answer_ends_nothing(make, broker, monkeypatch, caplog):
    async def fault(*arguments: object) -> None:
        raise KeyError("api_keys")

    monkeypatch.setattr("proxy.net.brokers.upstreams.ask_for_nodes", fault)
    upstreams, _ = make(broker.address)
    assert not await upstreams.discover()
    assert caplog.records[0].exc_info


async def test_without_a_free_port_for_a_node_the_question_has_no_answer(make, broker, monkeypatch, caplog):
    def no_port(address: Address) -> None:
        raise OSError(98, "Address already in use")

    upstreams, _ = make(broker.address)
    monkeypatch.setattr("proxy.net.brokers.node_ports.bind", no_port)
    assert not await upstreams.discover()
    assert "no listener can be had" in caplog.records[-1].keys["reason"]


async def test_a_broker_of_0_7_gets_a_connection_and_no_request(make, broker):
    upstreams, nodes = make(broker.address, dialect=Dialect.KAFKA_07)
    assert await upstreams.discover()
    assert (upstreams.reached, nodes.has_known_broker, nodes.listeners()) == (True, False, [])
    assert await connected(upstreams, None) == str(broker.address)
    assert broker.asked == []


async def test_a_broker_of_0_7_that_is_gone_is_looked_for_until_it_is_back(make, nursery, caplog, autojump_clock):
    caplog.set_level(logging.INFO)
    broker = Broker()
    address = await broker.start(nursery)
    upstreams, _ = make(address, dialect=Dialect.KAFKA_07)
    nursery.start_soon(upstreams.keep_discovering)
    await trio.sleep(10)
    assert (upstreams.reached, broker.connections) == (True, 1)
    broker.stop()
    await trio.sleep(1)
    assert not await upstreams.discover()
    assert not upstreams.reached
    assert await connected(upstreams, None) is Cause.UPSTREAM_DOWN
    await trio.sleep(100)
    assert not upstreams.reached
    await broker.start(nursery, port=address.port)
    await trio.sleep(100)
    assert (upstreams.reached, broker.connections) == (True, 2)
    said = [record.message for record in caplog.records]
    assert said == ["upstream is down", "connection without upstream", "upstream is back"]
    nursery.cancel_scope.cancel()
