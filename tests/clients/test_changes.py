"""Tests of changes that clients don't notice: five of them write and read while brokers or the proxy change.

`workloads.steady` checks that no record is lost or doubled. `harness` and `checks` check that no byte is changed, no
broker's address shown, and everything captured. Each node keeps its port.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.wire import apis
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE
from tests.clients.checks import captured_connections
from tests.clients.harness import Proxied, proxied
from tests.clients.streams import Conversation
from tests.clients.workloads.steady import Steady, steady

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

# exchanges in flight when the proxy stops are answered within this time, even on a busy machine
PATIENT = ["--drain", str(PATIENCE)]

WORKERS = pytest.mark.parametrize(
    "workers", [1, pytest.param(2, marks=pytest.mark.long)], ids=["one process", "two workers"]
)


@WORKERS
def test_partitions_move_to_other_brokers(kafka_three: KafkaCluster, tmp_path: Path, workers: int) -> None:
    with (
        proxied(kafka_three, tmp_path, options=["--workers", str(workers)]) as proxy,
        steady(kafka_three, proxy.bootstrap, tmp_path) as work,
    ):
        for replicas in ({0: [2, 3], 1: [3, 1], 2: [1, 2]}, {0: [3, 1], 1: [1, 2], 2: [2, 3]}):
            kafka_three.reassign(work.topic, replicas)
            work.wait_for_more()
    assert_all_worked(proxy, workers)


@pytest.mark.parametrize("kill", [pytest.param(False, marks=pytest.mark.long), True], ids=["SIGTERM", "kill -9"])
@WORKERS
def test_the_proxy_starts_again(kafka_three: KafkaCluster, tmp_path: Path, kill: bool, workers: int) -> None:
    options = [*PATIENT, "--workers", str(workers)]
    with (
        proxied(kafka_three, tmp_path, named=False, options=options) as proxy,
        steady(kafka_three, proxy.bootstrap, tmp_path) as work,
    ):
        proxy.restart(kill=kill)
        work.wait_for_more()


@pytest.fixture(scope="module")
def kafka_moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A cluster whose brokers change their addresses."""
    with KafkaCluster(3, folder=tmp_path_factory.mktemp("kafka") / "moving") as cluster:
        yield cluster


@WORKERS
def test_a_broker_is_killed_and_comes_back_with_another_port(
    kafka_moving: KafkaCluster, tmp_path: Path, workers: int
) -> None:
    before = str(kafka_moving.nodes[2].tapped)
    with (
        proxied(kafka_moving, tmp_path, disturbed=True, options=["--workers", str(workers)]) as proxy,
        steady(kafka_moving, proxy.bootstrap, tmp_path) as work,
    ):
        kill_node_2(kafka_moving, proxy)
        work.wait_for_more()
        move_node_2(kafka_moving, proxy)
        lead_with_node_2(kafka_moving, work)
        work.wait_for_more()
    assert_node_2_was_used_at(before, str(kafka_moving.nodes[2].tapped), proxy)
    assert_all_worked(proxy, workers)


@pytest.mark.long
@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "kill -9"])
def test_a_broker_moves_while_the_proxy_is_away(kafka_moving: KafkaCluster, tmp_path: Path, kill: bool) -> None:
    """The state file then has the broker's old address."""
    before = str(kafka_moving.nodes[2].tapped)
    with (
        proxied(kafka_moving, tmp_path, named=False, options=PATIENT) as proxy,
        steady(kafka_moving, proxy.bootstrap, tmp_path) as work,
    ):
        lead_with_node_2(kafka_moving, work)
        with proxy.down(kill=kill):
            kill_node_2(kafka_moving, proxy)
            move_node_2(kafka_moving, proxy)
            lead_with_node_2(kafka_moving, work)
        work.wait_for_more()
    assert_node_2_was_used_at(before, str(kafka_moving.nodes[2].tapped), proxy)


def kill_node_2(cluster: KafkaCluster, proxy: Proxied) -> None:
    proxy.follow_brokers(2)
    cluster.stop_node(2, kill=True)


def move_node_2(cluster: KafkaCluster, proxy: Proxied) -> None:
    cluster.nodes[2].move()
    proxy.follow_brokers()
    cluster.start_node(2)


def lead_with_node_2(cluster: KafkaCluster, work: Steady) -> None:
    cluster.reassign(work.topic, {0: [2, 3, 1], 1: [2, 3, 1], 2: [2, 1, 3]})


def assert_node_2_was_used_at(before: str, after: str, proxy: Proxied) -> None:
    """Asserts that clients used the node's own port, as each conversation shows."""
    _, far = proxy.conversations()
    assert before != after
    for address in (before, after):
        assert {"Produce", "Fetch"} <= apis_asked(far, address)


def assert_all_worked(proxy: Proxied, workers: int) -> None:
    """Asserts that each worker has a session with clients' connections."""
    sessions = Counter(session for session, _ in captured_connections(proxy.capture))
    assert len(sessions) == workers
    assert min(sessions.values()) > 1


def apis_asked(far: list[Conversation], address: str) -> set[str | None]:
    """Returns the APIs of the requests to the broker at that address."""
    keys = {request.head[0] for talk in far if talk.dialled == address for request in talk.requests}
    return {apis.api_name(key) for key in keys}
