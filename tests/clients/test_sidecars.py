"""Tests of a proxy beside each broker: each listens for one node, and tells clients the names of all.

Either clients dial addresses that lead to the proxies (a service, a balancer: here a tap) while brokers advertise their
own, or the brokers advertise the proxies.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

import recorder
from recorder.capture.reader import files
from tests.brokers import children
from tests.brokers.kafka import TAPPED_HOST, KafkaCluster
from tests.brokers.metadata import ask_metadata
from tests.brokers.ports import reserved_range
from tests.brokers.waiting import wait_for
from tests.clients.checks import check_facts, check_no_leak, check_transparent, is_own_question
from tests.clients.harness import PROGRAM, READY_SECONDS, STOP_SECONDS, compact
from tests.clients.streams import Conversation
from tests.clients.tap import Tap
from tests.clients.workloads import confluent, java
from tests.clients.workloads.steady import steady
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

ADVERTISED, LISTENED = "127.66.20.{}", "127.88.20.{}"
NODES = (1, 2, 3)
Workload = Callable[[KafkaCluster, str], None]


def with_librdkafka(cluster: KafkaCluster, bootstrap: str) -> None:
    confluent.produces_and_consumes(bootstrap)
    confluent.rebalances_a_group(bootstrap, "classic")


def with_java(cluster: KafkaCluster, bootstrap: str) -> None:
    java.produces_and_consumes(cluster, bootstrap)
    java.rebalances_a_group(cluster, bootstrap, "consumer")


@pytest.mark.parametrize("work", mostly_long([with_librdkafka, with_java], usual=1))
def test_clients_reach_every_node_by_the_name_that_its_proxy_is_known_by(
    kafka_three: KafkaCluster, tmp_path: Path, work: Workload
) -> None:
    hosts = [template.format(node) for template in (ADVERTISED, LISTENED) for node in NODES]
    with ExitStack() as stack:
        port = stack.enter_context(reserved_range(tuple(hosts), 1))
        told = {node: f"{ADVERTISED.format(node)}:{port}" for node in NODES}
        listeners = {node: f"{LISTENED.format(node)}:{port}" for node in NODES}
        tapped = {node: str(kafka_three.nodes[node].tapped) for node in NODES}
        far = stack.enter_context(Tap(kafka_three.tap_routes, tmp_path / "brokers"))
        stack.enter_context(sidecars(tmp_path, listeners, tapped, f"{ADVERTISED.format('{node_id}')}:{port}"))
        near = stack.enter_context(Tap({told[node]: listeners[node] for node in NODES}, tmp_path / "clients"))
        # any single node is enough to find the others
        for node in NODES:
            assert told_by(told[node]) == told
        work(kafka_three, told[2])
    clients, brokers = ([Conversation(one) for one in tap.connections()] for tap in (near, far))
    check_transparent(clients, brokers, {tapped[node]: told[node] for node in NODES})
    check_no_leak(clients)
    reached = Counter(one.dialled for one in brokers if not is_own_question(one))
    assert reached == Counter(tapped[node] for node in NODES for one in clients if one.dialled == told[node])
    assert reached.keys() == {*tapped.values()}
    check_one_capture(tmp_path / "capture")


def check_one_capture(folder: Path) -> None:
    """Asserts that the captures of all proxies, which lie in one folder, are whole and have facts that tell of all."""
    compact(folder)
    assert len({file.session for file in files(folder)}) == len(NODES)
    check_facts(folder)
    capture = recorder.open(folder)
    # a topic's id is told by one proxy's broker, and used by clients of the others
    named = {pair.head["node"] for pair in capture.exchanges("api in (Produce, Fetch) and topic ~ '*'")}
    assert named == {*NODES}


@pytest.mark.long
@pytest.mark.parametrize("work", mostly_long([with_librdkafka, with_java], usual=1))
def test_brokers_may_advertise_the_proxies_themselves(
    kafka_three: KafkaCluster, tmp_path: Path, work: Workload
) -> None:
    told = {node: str(kafka_three.nodes[node].tapped) for node in NODES}
    bound = {node: str(kafka_three.nodes[node].behind_tapped) for node in NODES}
    with sidecars(tmp_path, told, bound, f"{TAPPED_HOST.format('{node_id}')}:{kafka_three.nodes[1].tapped.port}"):
        for node in NODES:
            assert told_by(told[node]) == told
        work(kafka_three, told[3])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "kill -9"])
def test_partitions_move_and_proxies_start_again_where_brokers_advertise_them(
    kafka_three: KafkaCluster, tmp_path: Path, kill: bool
) -> None:
    told = {node: str(kafka_three.nodes[node].tapped) for node in NODES}
    bound = {node: str(kafka_three.nodes[node].behind_tapped) for node in NODES}
    advertise = f"{TAPPED_HOST.format('{node_id}')}:{kafka_three.nodes[1].tapped.port}"
    with (
        sidecars(tmp_path, told, bound, advertise) as proxies,
        steady(kafka_three, ",".join(told.values()), tmp_path) as work,
    ):
        kafka_three.reassign(work.topic, {0: [2, 3, 1], 1: [3, 1, 2], 2: [1, 2, 3]})
        work.wait_for_more()
        for node in NODES:
            proxies.restart(node, kill=kill)
            work.wait_for_more()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_proxies_roll_in_broker_by_broker_and_out_again_where_each_takes_its_brokers_address(
    kafka_three: KafkaCluster, tmp_path: Path
) -> None:
    """As docs/kubernetes.md has it. A tap in a proxy's place stands for the broker that listens there itself."""
    told = {node: str(kafka_three.nodes[node].tapped) for node in NODES}
    bound = {node: str(kafka_three.nodes[node].behind_tapped) for node in NODES}
    advertise = f"{TAPPED_HOST.format('{node_id}')}:{kafka_three.nodes[1].tapped.port}"
    proxies = Sidecars(tmp_path, told, bound, advertise)
    with ExitStack() as stack:
        uncovered = {node: stack.enter_context(ExitStack()) for node in NODES}
        for node in NODES:
            uncovered[node].enter_context(Tap({told[node]: bound[node]}, tmp_path / f"{node} before"))
        stack.callback(proxies.stop)
        work = stack.enter_context(steady(kafka_three, ",".join(told.values()), tmp_path))
        for node in reversed(NODES):
            uncovered[node].close()
            proxies.start(node)
            work.wait_for_more()
            assert told_by(told[node]) == told
        for node in NODES:
            proxies.leave(node)
            uncovered[node].enter_context(Tap({told[node]: bound[node]}, tmp_path / f"{node} after"))
            work.wait_for_more()


def told_by(address: str) -> dict[int, str]:
    """Returns node id -> address, as the proxy there names it."""
    host, _, port = address.partition(":")
    return {node: f"{host}:{port}" for node, (host, port) in ask_metadata(host, int(port)).brokers.items()}


class Sidecars:
    """A proxy for each node: its listener, and its broker. All must end without an error."""

    def __init__(self, folder: Path, listeners: dict[int, str], brokers: dict[int, str], advertise: str) -> None:
        self._folder = folder
        self._proxies: dict[int, Popen[Any]] = {}
        for node, listener in listeners.items():
            (folder / f"{node}.toml").write_text(
                f'[clusters.main]\nupstream = ["{brokers[node]}"]\nlisten = "{listener}"\nmapping = "template"\n'
                f'advertise = "{advertise}"\nown_node = {node}\nstate = "{folder}/{node}.json"\n'
                f'[capture]\nfolder = "{folder}/capture"\nkeep.free = 0\n'
            )

    def start(self, *nodes: int) -> None:
        before = {node: self._starts(node) for node in nodes}
        for node in nodes:
            command = [*PROGRAM, "proxy", "--config", str(self._folder / f"{node}.toml")]
            self._proxies[node] = children.spawn(command, output=self._folder / f"{node}.log")
        for node in nodes:
            wait_for(
                partial(self._has_started, node, before[node]),
                f"the proxy of node {node} to listen",
                seconds=READY_SECONDS,
            )

    def restart(self, node: int, *, kill: bool) -> None:
        if kill:
            self._proxies[node].kill()
            self._proxies[node].wait()
        else:
            self.leave(node)
        self.start(node)

    def leave(self, node: int) -> None:
        assert self._stop(node) == 0, self._log(node)[-3000:]

    def stop(self) -> None:
        codes = {node: self._stop(node) for node in self._proxies}
        logs = "".join(map(self._log, self._proxies))
        assert codes == dict.fromkeys(self._proxies, 0), logs[-3000:]
        assert "Traceback" not in logs, logs[-5000:]

    def _stop(self, node: int) -> int:
        return children.stop(self._proxies[node], seconds=STOP_SECONDS)

    def _log(self, node: int) -> str:
        log = self._folder / f"{node}.log"
        return log.read_text() if log.exists() else ""

    def _has_started(self, node: int, before: int) -> bool:
        return self._starts(node) > before

    def _starts(self, node: int) -> int:
        return self._log(node).count("listening on")


@contextmanager
def sidecars(folder: Path, listeners: dict[int, str], brokers: dict[int, str], advertise: str) -> Iterator[Sidecars]:
    running = Sidecars(folder, listeners, brokers, advertise)
    try:
        running.start(*listeners)
        yield running
    finally:
        running.stop()
