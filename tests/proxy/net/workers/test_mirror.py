from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.mapping.nodes import Node
from proxy.net.workers.calls import Calls
from proxy.net.workers.channel import Channel, ChannelMessage, channel_pair
from proxy.net.workers.mirror import MirroredNodes, MirroredUpstreams
from proxy.schema.addresses import Address
from tests.proxy.net.relays import Watcher, settings

ONE, TWO = Node(1, "up-1.invalid", 9092), Node(2, "up-2.invalid", 9092)
MOVED = Node(1, "up-9.invalid", 9092)
TABLE = {"1": ["up-1.invalid:9092", "127.0.0.1:9094", "own.invalid:9094"], "2": ["", "127.0.0.1:9095", ""]}


class Parent:
    """A parent that notes queries, and answers as the test says."""

    def __init__(self, channel: Channel) -> None:
        self.asked: list[dict[str, Any]] = []
        self.current = True
        self.wrong: OSError | None = None
        self.may_answer = trio.Event()
        self.may_answer.set()
        self.calls = Calls(channel, lambda message: False, self._handle)

    async def _handle(self, message: ChannelMessage) -> dict[str, Any]:
        self.asked.append(message.payload)
        await self.may_answer.wait()
        if self.wrong is not None:
            raise self.wrong
        if message.payload["do"] == "ensure":
            advertised = [["proxy.invalid", 9092 + node[0]] for node in message.payload["nodes"]]
            return {"advertised": advertised, "current": self.current}
        return {"answered": True}


class Worker:
    def __init__(self, channel: Channel) -> None:
        self.watcher = Watcher()
        self.calls = Calls(channel, lambda message: True, self._heeds_nothing)
        self.mirror = MirroredNodes(settings(), self.calls, self.watcher)
        self.brokers = MirroredUpstreams(settings(), self.calls, self.mirror)

    async def _heeds_nothing(self, message: ChannelMessage) -> None:
        raise AssertionError


@pytest.fixture
async def two(nursery: trio.Nursery) -> AsyncIterator[tuple[Parent, Worker]]:
    here, there = channel_pair()
    parent, worker = Parent(here), Worker(Channel(there))
    nursery.start_soon(parent.calls.run)
    nursery.start_soon(worker.calls.run)
    yield parent, worker
    nursery.cancel_scope.cancel()


@pytest.fixture
def parent(two: tuple[Parent, Worker]) -> Parent:
    return two[0]


@pytest.fixture
def worker(two: tuple[Parent, Worker]) -> Worker:
    return two[1]


async def test_nodes_are_ensured_when_the_parent_answers(parent, worker, nursery):
    parent.may_answer = trio.Event()
    done = trio.Event()

    async def ensure() -> None:
        await worker.mirror.ensure([ONE, TWO], "an-id")
        done.set()

    nursery.start_soon(ensure)
    await wait_all_tasks_blocked(0.01)
    assert not done.is_set()
    parent.may_answer.set()
    await done.wait()
    assert worker.mirror.advertised(2) == Address("proxy.invalid", 9094)
    (asked,) = parent.asked
    assert asked["nodes"] == [[1, "up-1.invalid", 9092, False], [2, "up-2.invalid", 9092, False]]
    assert asked["cluster_id"] == "an-id"


@pytest.mark.parametrize("is_controller", [True, False, None])
async def test_the_parent_is_told_whether_nodes_are_brokers_or_controllers(is_controller, parent, worker):
    parent.may_answer.set()
    await worker.mirror.ensure([Node(1, "up-1.invalid", 9093, is_controller)])
    (asked,) = parent.asked
    assert Node(*asked["nodes"][0]).is_controller is is_controller


async def test_the_parent_is_not_asked_again_for_a_known_node(parent, worker):
    await worker.mirror.ensure([ONE, TWO], "an-id")
    await worker.mirror.ensure([TWO], "an-id")
    await worker.mirror.ensure([ONE])
    assert len(parent.asked) == 1


@pytest.mark.parametrize(
    ("node", "cluster_id"), [(MOVED, "an-id"), (TWO, "an-id"), (ONE, "another-id")], ids=["moved", "new", "intruder"]
)
async def test_the_parent_is_asked_about_a_new_node_or_cluster_id(node, cluster_id, parent, worker):
    await worker.mirror.ensure([ONE], "an-id")
    await worker.mirror.ensure([node], cluster_id)
    assert len(parent.asked) == 2


async def test_the_parent_is_asked_again_after_a_change_of_the_table(parent, worker):
    await worker.mirror.ensure([ONE])
    worker.mirror.replace_table(TABLE)
    await worker.mirror.ensure([ONE])
    assert len(parent.asked) == 2


async def test_an_answer_that_was_overtaken_is_not_kept(parent, worker):
    parent.current = False
    await worker.mirror.ensure([ONE])
    await worker.mirror.ensure([ONE])
    assert len(parent.asked) == 2


async def test_an_answer_that_comes_with_a_newer_table_is_not_kept(parent, worker, nursery):
    parent.may_answer = trio.Event()
    nursery.start_soon(worker.mirror.ensure, [ONE])
    await wait_all_tasks_blocked(0.01)
    worker.mirror.replace_table(TABLE)
    parent.may_answer.set()
    await wait_all_tasks_blocked(0.01)
    assert worker.mirror.needs_ensure([ONE])


async def test_a_node_without_a_free_port_is_an_error_of_the_parent(parent, worker):
    parent.wrong = OSError(errno.EMFILE, "too many nodes")
    with pytest.raises(OSError, match="too many nodes"):
        await worker.mirror.ensure([ONE])
    parent.wrong = None
    await worker.mirror.ensure([ONE])


async def test_a_worker_dials_brokers_at_the_parents_addresses(worker):
    assert not worker.mirror.has_known_broker
    worker.mirror.replace_table(TABLE)
    assert worker.mirror.has_known_broker
    assert worker.mirror.upstream(1) == Address("up-1.invalid", 9092)
    assert worker.mirror.upstream(2) is None
    assert worker.mirror.upstream(3) is None


async def test_the_advertised_addresses_are_own_listeners(worker):
    assert Address("own.invalid", 9094) not in worker.mirror.own_listeners
    worker.mirror.replace_table(TABLE)
    assert Address("own.invalid", 9094) in worker.mirror.own_listeners


async def test_found_and_moved_nodes_are_reported_to_the_observer_once(worker):
    for _ in range(2):
        worker.mirror.replace_table(TABLE)
    worker.mirror.replace_table(TABLE | {"1": ["up-9.invalid:9092", "127.0.0.1:9094", ""]})
    assert worker.watcher.seen("node") == [
        ("node", 1, "up-1.invalid:9092", "127.0.0.1:9094"),
        ("node", 2, "unknown", "127.0.0.1:9095"),
        ("node", 1, "up-9.invalid:9092", "127.0.0.1:9094"),
    ]


async def test_the_parent_discovers_the_brokers(parent, worker):
    assert await worker.brokers.discover()
    assert [said["do"] for said in parent.asked] == ["discover"]


async def test_discovery_without_the_parent_finds_nothing(parent, worker):
    parent.wrong = OSError(errno.EIO, "a fault")
    assert not await worker.brokers.discover()


async def test_an_unreachable_broker_makes_the_parent_repeat_discovery(parent, worker):
    worker.brokers.request_discovery()
    await wait_all_tasks_blocked(0.01)
    assert parent.asked == [{"do": "request_discovery", "cluster": "main"}]


async def test_nodes_that_answers_name_and_clients_use_are_reported_once(worker):
    worker.mirror.note([1, 2], is_list=True)
    worker.mirror.note([2, 7], is_list=False)
    worker.mirror.count_opened(1)
    worker.mirror.count_opened(None)
    report = worker.mirror.report()
    assert (sorted(report["named"]), report["has_list"], report["connected"]) == ([1, 2, 7], True, [1])
    assert worker.mirror.report() == {"named": [], "has_list": False, "connected": [1]}
    worker.mirror.count_closed(1)
    assert worker.mirror.report()["connected"] == []


async def test_the_parent_is_asked_again_about_a_node_that_it_may_give_back(parent, worker):
    await worker.mirror.ensure([ONE, TWO])
    worker.mirror.doubt([2])
    assert worker.mirror.needs_ensure([TWO])
    assert not worker.mirror.needs_ensure([ONE])


async def test_an_answer_that_comes_with_a_doubt_is_not_kept(parent, worker, nursery):
    parent.may_answer = trio.Event()
    nursery.start_soon(worker.mirror.ensure, [ONE])
    await wait_all_tasks_blocked(0.01)
    worker.mirror.doubt([1])
    parent.may_answer.set()
    await wait_all_tasks_blocked(0.01)
    assert worker.mirror.needs_ensure([ONE])


async def test_the_address_of_a_node_that_was_given_back_is_no_own_listener(worker):
    worker.mirror.replace_table(TABLE)
    worker.mirror.forget([1])
    assert Address("own.invalid", 9094) not in worker.mirror.own_listeners
