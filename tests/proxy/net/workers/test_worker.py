from __future__ import annotations

import errno
import resource
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import ListenerTls
from proxy.conversation import Cause
from proxy.mapping.nodes import Node
from proxy.net.brokers.node_ports import bind
from proxy.net.workers.balance import ConnectionCounts
from proxy.net.workers.calls import Calls
from proxy.net.workers.channel import ChannelMessage, channel_pair
from proxy.net.workers.job import Job, dump_settings
from proxy.net.workers.worker import Worker
from proxy.schema.addresses import Address
from proxy.wire.keys import METADATA
from tests.proxy.net.cluster import ASK_METADATA, PING, Broker, ping
from tests.proxy.net.peers import HOST, PATIENCE, Peer
from tests.proxy.net.relays import Watcher, settings, whole
from tests.proxy.net.threads import no_threads
from tests.proxy.rewrite.responses import read

NUMBER, SLOT = 3, 1


def nodes(table: dict[str, list[str]]) -> dict[str, Any]:
    """The parent's message with its node table."""
    return {"do": "nodes", "cluster": "main", "table": table, "cluster_id": "an-id", "brokers": ["elsewhere.invalid:9"]}


class Parent:
    """A scripted parent: it notes what it receives, and answers queries."""

    def __init__(self, nursery: trio.Nursery, broker: Broker) -> None:
        channel, there = channel_pair()
        self.calls = Calls(channel, self._now, self._handle)
        self.heard: list[dict[str, Any]] = []
        self.may_answer = trio.Event()
        self.may_answer.set()
        self.wrong: OSError | None = None
        self.settings = whole(settings(broker.address), workers=2)
        self.watcher = Watcher()
        self.counts = ConnectionCounts.create(2)
        count = self.counts.of(SLOT)
        self.worker = Worker(Job(NUMBER, SLOT, self.settings), there, count, self.watcher)
        self.code: int | None = None
        self.ended = trio.Event()
        self._listeners: list[socket.socket] = []
        self._life = trio.CancelScope()
        nursery.start_soon(self._run)
        nursery.start_soon(self._run_worker)

    async def _run(self) -> None:
        with self._life:
            await self.calls.run()

    async def _run_worker(self) -> None:
        self.code = await self.worker.run()
        self.ended.set()

    def _now(self, message: ChannelMessage) -> bool:
        self.heard.append(message.payload)
        return message.payload["do"] in ("join", "counted", "request_discovery")

    async def _handle(self, message: ChannelMessage) -> dict[str, Any]:
        await self.may_answer.wait()
        if self.wrong is not None:
            raise self.wrong
        if message.payload["do"] == "discover":
            return {"answered": False}
        return {"advertised": [["proxy.invalid", node[0]] for node in message.payload["nodes"]], "current": True}

    def said(self, what: str) -> list[dict[str, Any]]:
        return [said for said in self.heard if said["do"] == what]

    async def hears(self, what: str) -> dict[str, Any]:
        with trio.fail_after(PATIENCE):
            while not self.said(what):
                await wait_all_tasks_blocked(0.005)
        return self.said(what)[-1]

    async def hand_over(self, node_id: int | None = None) -> Address:
        """Hands over a listener; returns once the worker accepts there."""
        await self.hears("join")
        sock = bind(Address(HOST, 0))
        self._listeners.append(sock)
        here = sock.getsockname()
        await self.calls.ask(
            {"do": "accept", "cluster": "main", "node": node_id, "advertised": ["advertised.invalid", 1]}, [sock]
        ).wait()
        return Address(*here)

    def end(self) -> None:
        self._life.cancel()
        self.close()

    def close_listeners(self) -> None:
        """Gives all listeners back, as the parent does."""
        for sock in self._listeners:
            sock.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self) -> None:
        for sock in self._listeners:
            sock.close()

    async def worker_ends_with(self, code: int) -> None:
        with trio.fail_after(PATIENCE):
            await self.ended.wait()
        assert self.code == code


@pytest.fixture
async def parent(nursery: trio.Nursery, broker: Broker) -> AsyncIterator[Parent]:
    parent = Parent(nursery, broker)
    yield parent
    parent.close()
    nursery.cancel_scope.cancel()


async def connected(where: Address) -> Peer:
    return Peer(await trio.open_tcp_stream(where.host, where.port))


async def test_a_worker_serves_clients_of_the_parents_listeners(parent):
    client = await connected(await parent.hand_over())
    await ping(client)
    (opened,) = parent.watcher.seen("opened")
    assert opened[1].connection == 3_000_000_000_001
    assert opened[1].node is None


async def test_nothing_is_accepted_before_the_parent_hands_a_listener_over(parent, broker):
    await parent.hears("join")
    assert not broker.connections


async def test_a_nodes_clients_reach_the_nodes_broker(parent, broker):
    where = await parent.hand_over(7)
    parent.calls.tell(nodes({"7": [str(broker.address), str(where), ""]}))
    await ping(await connected(where))
    assert parent.watcher.seen("node") == [("node", 7, str(broker.address), str(where))]


async def test_a_listener_that_the_parent_has_given_back_is_closed_and_its_connections_go_on(parent, broker, caplog):
    where = await parent.hand_over(7)
    parent.calls.tell(nodes({"7": [str(broker.address), str(where), ""]}))
    client = await connected(where)
    await ping(client)
    parent.close_listeners()
    await parent.calls.ask({"do": "close", "cluster": "main", "nodes": [7, 8]}).wait()
    with pytest.raises(OSError, match="connect"):
        await connected(where)
    # the port is free in all processes
    with bind(where):
        await ping(client)
    assert not caplog.records


async def test_a_listener_that_ended_before_the_order_came_is_closed_without_a_word(parent, caplog):
    where = await parent.hand_over(7)
    parent.close_listeners()
    await wait_all_tasks_blocked(0.02)
    await parent.calls.ask({"do": "close", "cluster": "main", "nodes": [7]}).wait()
    bind(where).close()
    assert not caplog.records


async def test_a_worker_reports_which_nodes_its_answers_name_and_its_clients_use(parent, broker):
    broker.nodes = [Node(7, "secret.invalid", 9092), Node(8, "secret.invalid", 9093)]
    where = await parent.hand_over(3)
    parent.calls.tell(nodes({"3": [str(broker.address), str(where), ""]}))
    client = await connected(where)
    await client.say(ASK_METADATA)
    await client.hear_frame()
    before = len(parent.said("counted"))
    await parent.calls.ask({"do": "doubt", "cluster": "main", "nodes": [3, 7]}).wait()
    # before the answer
    reports = [said["nodes"]["main"] for said in parent.said("counted")]
    assert len(reports) > before
    assert {7, 8} <= {node_id for report in reports for node_id in report["named"]}
    assert any(report["has_list"] for report in reports)
    assert reports[-1]["connected"] == [3]
    await client.say(ASK_METADATA)
    await client.hear_frame()
    assert len(parent.said("ensure")) == 2


async def test_a_worker_reports_what_the_cluster_can_be_known_by(parent, broker):
    where = await parent.hand_over(7)
    parent.calls.tell(nodes({"7": [f"localhost:{broker.address.port}", str(where), ""]}))
    await ping(await connected(where))
    told = parent.watcher.identities
    assert told["main", "ids"] == ["an-id"]
    # the address that was reached, and the broker of a node without a listener
    assert {f"{HOST}:{broker.address.port}", "elsewhere.invalid:9"} <= {*told["main", "upstreams"]}
    assert {str(where), "advertised.invalid:1"} <= {*told["main", "listeners"]}


async def test_an_unknown_node_is_looked_up(parent):
    client = await connected(await parent.hand_over(7))
    await client.say(PING)
    await client.hears_the_end()
    assert len(parent.said("discover")) == 1


async def test_a_worker_never_dials_an_advertised_address(parent, broker):
    await parent.hand_over()
    where = await parent.hand_over(7)
    parent.calls.tell(nodes({"7": ["advertised.invalid:1", str(where), ""]}))
    # a sidecar's own node: its broker is the one in the proxy's settings
    await ping(await connected(where))


async def test_a_response_waits_for_the_parent_before_it_names_nodes(parent, broker):
    broker.nodes = [Node(7, "secret.invalid", 9092)]
    client = await connected(await parent.hand_over())
    parent.may_answer = trio.Event()
    await client.say(ASK_METADATA)
    asked = await parent.hears("ensure")
    assert asked["nodes"] == [[7, "secret.invalid", 9092, False]]
    await wait_all_tasks_blocked(0.02)
    with trio.move_on_after(0) as waited:
        await client.hear(1)
    assert waited.cancelled_caught
    parent.may_answer.set()
    answer = read(METADATA, 12, await client.hear_frame())
    assert [(one["host"], one["port"]) for one in answer["brokers"]] == [("proxy.invalid", 7)]


async def test_a_node_without_a_port_of_the_parent_ends_the_connection(parent, broker):
    broker.nodes = [Node(7, "secret.invalid", 9092)]
    parent.wrong = OSError(errno.EMFILE, "too many nodes")
    client = await connected(await parent.hand_over())
    await client.say(ASK_METADATA)
    await client.hears_the_end()
    with trio.fail_after(PATIENCE):
        while not parent.worker.clusters[0].traffic.closes[Cause.NOT_REWRITABLE]:
            await wait_all_tasks_blocked(0.005)


async def test_a_broker_that_is_down_is_reported_to_the_parent(parent, broker):
    where = await parent.hand_over(7)
    parent.calls.tell(nodes({"7": [f"{HOST}:1", str(where), ""]}))
    client = await connected(where)
    await client.say(PING)
    await client.hears_the_end()
    assert await parent.hears("request_discovery") == {"do": "request_discovery", "cluster": "main"}


async def test_a_worker_sends_its_counts_before_it_answers_the_call(parent):
    """So the parent adds the counts before it handles the answer."""
    await ping(await connected(await parent.hand_over()))
    parent.heard.clear()
    answer = await parent.calls.ask({"do": "count"}).wait()
    counted = parent.said("counted")[-1]
    assert counted["clusters"]["main"]["connections_opened"] == 1
    assert counted["recorder"] == {"failed": 0}
    assert "clusters" not in answer


@pytest.mark.real
async def test_other_workers_see_the_workers_number_of_connections(parent):
    counts = parent.counts._numbers
    await parent.hears("join")
    vacant = counts[SLOT]
    # nobody waits for a worker that has no listener yet
    assert vacant > 10**9
    where = await parent.hand_over()
    assert counts[SLOT] == 0
    clients = [await connected(where) for _ in range(2)]
    for client in clients:
        await ping(client)
    assert counts[SLOT] == 2
    clients[0].close()
    with trio.fail_after(PATIENCE):
        while counts[SLOT] != 1:
            await wait_all_tasks_blocked(0.005)
    parent.calls.tell({"do": "stop", "urgency": 1})
    await parent.ended.wait()
    assert counts[SLOT] == vacant


async def test_a_worker_sends_its_counts_unasked(parent):
    """So the counts of a killed worker are known, and the parent sees that it runs."""
    client = await connected(await parent.hand_over())
    await ping(client)
    await parent.hears("counted")
    with trio.fail_after(PATIENCE):
        while parent.said("counted")[-1]["clusters"]["main"]["connections_opened"] != 1:
            await wait_all_tasks_blocked(0.005)
    client.close()


async def test_a_recorder_whose_disk_hangs_does_not_silence_it(parent, monkeypatch):
    await parent.hears("join")
    await parent.calls.ask({"do": "count"}).wait()
    goes_on = threading.Event()
    monkeypatch.setattr("proxy.net.workers.worker.BEAT_SECONDS", 0.01)
    monkeypatch.setattr("proxy.net.workers.worker.COUNTERS_SECONDS", 0.01)
    monkeypatch.setattr(parent.watcher, "counters", lambda: {"failed": goes_on.wait()})
    heard = len(parent.said("counted"))
    try:
        with trio.fail_after(PATIENCE):
            # one may have been in flight
            while len(parent.said("counted")) < heard + 3:
                await wait_all_tasks_blocked(0.005)
    finally:
        goes_on.set()
    assert parent.said("counted")[-1]["recorder"] == {"failed": 0}


@pytest.mark.parametrize("number", [errno.ENOBUFS, errno.EINVAL])
async def test_a_client_that_could_not_be_accepted_after_all_takes_no_place(number, parent, monkeypatch):
    listener = await parent.hand_over()
    refused = []

    def refuse(sock: Any, peer: str, keepalive: float) -> Any:
        monkeypatch.undo()
        sock.close()
        refused.append(peer)
        raise OSError(number, "refused")

    monkeypatch.setattr("proxy.net.cluster.accepted", refuse)
    (await connected(listener)).close()
    client = await connected(listener)
    await ping(client)
    assert len(refused) == 1
    assert memoryview(parent.counts._memory).cast("q")[SLOT] == 1
    client.close()


async def test_a_worker_told_to_stop_sends_its_last_counts(parent):
    client = await connected(await parent.hand_over())
    await ping(client)
    parent.calls.tell({"do": "stop", "urgency": 1})
    await client.hears_the_end()
    client.close()
    await parent.worker_ends_with(0)
    with trio.fail_after(PATIENCE):
        while parent.said("counted")[-1]["clusters"]["main"]["closes"]["drained"] != 1:
            await wait_all_tasks_blocked(0.005)
    assert parent.watcher.seen("close")


async def test_a_worker_stops_when_its_parent_is_gone(parent, caplog):
    client = await connected(await parent.hand_over())
    await ping(client)
    parent.end()
    await client.hears_the_end()
    client.close()
    await parent.worker_ends_with(0)
    assert "is gone" in caplog.text


@pytest.fixture
def restored_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_worker_without_descriptors_for_a_listener_lets_its_connections_end(parent, restored_limit, caplog):
    client = await connected(await parent.hand_over())
    await ping(client)
    sock = bind(Address(HOST, 0))
    parent.calls.tell({"do": "accept", "cluster": "main", "node": 1, "advertised": ["a.invalid", 1]}, [sock])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with sock:
        # the standard streams alone: no descriptor of an earlier test may become free while none is to be had
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        with trio.fail_after(PATIENCE):
            while "is lost" not in caplog.text:
                await wait_all_tasks_blocked(0.005)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await client.hears_the_end()
    client.close()
    await parent.worker_ends_with(0)


async def test_a_worker_stops_by_sigterm(parent):
    await parent.hand_over()
    signal.raise_signal(signal.SIGTERM)
    await parent.worker_ends_with(0)


@pytest.mark.parametrize("first", ["stop", "signal"])
async def test_a_signal_and_the_parents_message_are_one_stop(first, parent, broker):
    broker.answer = never
    client = await connected(await parent.hand_over())
    await client.say(PING)
    with trio.fail_after(PATIENCE):
        while not broker.frames:
            await wait_all_tasks_blocked(0.005)
    if first == "signal":
        signal.raise_signal(signal.SIGTERM)
        await wait_all_tasks_blocked(0.02)
    parent.calls.tell({"do": "stop", "urgency": 1})
    await wait_all_tasks_blocked(0.02)
    assert not parent.ended.is_set()
    parent.calls.tell({"do": "stop", "urgency": 2})
    await parent.worker_ends_with(1)


async def test_a_listener_that_comes_during_a_stop_makes_no_other_worker_wait(parent, broker):
    broker.answer = never
    client = await connected(await parent.hand_over())
    await client.say(PING)
    with trio.fail_after(PATIENCE):
        while not broker.frames:
            await wait_all_tasks_blocked(0.005)
    parent.calls.tell({"do": "stop", "urgency": 1})
    with trio.fail_after(PATIENCE):
        while parent.counts._numbers[SLOT] < 10**9:
            await wait_all_tasks_blocked(0.005)
    await parent.hand_over(7)
    assert parent.counts._numbers[SLOT] > 10**9
    parent.calls.tell({"do": "stop", "urgency": 2})
    await parent.worker_ends_with(1)


async def never(key: int, version: int, correlation_id: int) -> bytes | None:
    await trio.sleep_forever()


# settings that are read again


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Returns the log settings that it got."""
    said: list[tuple[Any, ...]] = []
    monkeypatch.setattr("proxy.net.workers.worker.log_to_stderr", lambda *args, **keys: said.append((*args, keys)))
    return said


def changed(broker: Broker, do: str, number: int, *, seconds: float = 0, **others: Any) -> dict[str, Any]:
    new = whole(settings(broker.address, **others), workers=2, drain_seconds=seconds)
    return {"do": do, "settings": dump_settings(new, "what is kept"), "number": number}


async def joined(parent: Parent) -> Worker:
    await parent.hears("join")
    return parent.worker


async def test_a_worker_takes_over_prepared_settings_when_told(parent, broker, logs):
    worker = await joined(parent)
    assert (await parent.calls.ask(changed(broker, "prepare", 1)).wait())["wrong"] == []
    assert (logs, worker.settings.drain_seconds) == ([], 10)
    await parent.calls.ask(changed(broker, "settings", 1)).wait()
    assert (logs, worker.settings.drain_seconds) == ([("info", "text", {"worker": NUMBER})], 0)
    assert parent.watcher.seen("chosen") == [("chosen", "what is kept")]


async def test_settings_that_have_changed_hold_for_its_connections(parent, broker, logs):
    broker.answer = never
    client = await connected(await parent.hand_over())
    await parent.calls.ask(changed(broker, "settings", 1)).wait()
    await client.say(PING)
    with trio.fail_after(PATIENCE):
        while not broker.frames:
            await wait_all_tasks_blocked(0.005)
    parent.calls.tell({"do": "stop", "urgency": 1})
    # nothing is waited for any more
    await parent.worker_ends_with(1)


async def test_a_worker_refuses_settings_that_it_can_not_use_and_changes_nothing(parent, broker, logs, tmp_path):
    worker = await joined(parent)
    parent.worker.clusters[0]._settings = settings(broker.address, tls=ListenerTls(tmp_path / "before.pem"))
    refused = changed(broker, "prepare", 1, tls=ListenerTls(tmp_path / "none.pem"))
    (line,) = (await parent.calls.ask(refused).wait())["wrong"]
    assert line.startswith("clusters.main.tls.certificate = ")
    assert (logs, worker.settings.drain_seconds, parent.watcher.seen("chosen")) == ([], 10, [])
    assert not parent.ended.is_set()


async def test_settings_that_are_forgotten_are_prepared_anew(parent, broker, logs):
    await joined(parent)
    await parent.calls.ask(changed(broker, "prepare", 1)).wait()
    await parent.calls.ask({"do": "forget", "number": 1}).wait()
    assert parent.worker._prepared_changes == {}
    await parent.calls.ask(changed(broker, "settings", 1, seconds=3)).wait()
    assert parent.worker.settings.drain_seconds == 3


async def test_settings_that_others_have_overtaken_are_not_taken_over(parent, broker, logs):
    """They took long to prepare."""
    await joined(parent)
    await parent.calls.ask(changed(broker, "settings", 5, seconds=5)).wait()
    await parent.calls.ask(changed(broker, "settings", 4, seconds=4)).wait()
    assert parent.worker.settings.drain_seconds == 5


async def test_a_worker_that_can_not_use_the_others_settings_ends(parent, broker, logs, tmp_path, caplog):
    await joined(parent)
    parent.worker.clusters[0]._settings = settings(broker.address, tls=ListenerTls(tmp_path / "before.pem"))
    parent.calls.tell(changed(broker, "settings", 1, tls=ListenerTls(tmp_path / "none.pem")))
    await parent.worker_ends_with(0)
    assert "settings can't be taken over" in caplog.text


async def test_a_worker_that_fails_to_take_over_settings_ends(parent, broker, logs, caplog):
    await joined(parent)
    parent.watcher.selection_change = lambda recording: (lambda: 1 // 0, lambda: None)
    parent.calls.tell(changed(broker, "settings", 1))
    await parent.worker_ends_with(0)
    assert "settings can't be taken over" in caplog.text


async def test_a_worker_without_threads_sends_the_recorders_previous_counts(parent, monkeypatch):
    await parent.hears("join")
    await parent.calls.ask({"do": "count"}).wait()
    monkeypatch.setattr(parent.watcher, "counters", lambda: pytest.fail("asked without a thread"))
    with no_threads():
        heard = len(parent.said("counted"))
        await parent.calls.ask({"do": "count"}).wait()
    assert len(parent.said("counted")) > heard
    assert parent.said("counted")[-1]["recorder"] == {"failed": 0}
