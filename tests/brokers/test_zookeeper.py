"""Tests of brokers with ZooKeeper: both are up within the block, and neither outlives it."""

from pathlib import Path

import psutil
import pytest

from tests.brokers.metadata import ask_metadata
from tests.brokers.zookeeper import ZookeeperCluster

pytestmark = pytest.mark.real


def running(folder: Path) -> set[str]:
    """The main classes of the JVMs whose arguments name this folder."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return {command[2] for command in commands if len(command) > 2 and str(folder) in command[1]}


@pytest.mark.long
def test_kafka_and_zookeeper_run_within_the_cluster_and_end_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with ZookeeperCluster("0.10.2.2", folder=folder) as cluster:
        assert running(folder) == {"kafka.Kafka", "org.apache.zookeeper.server.quorum.QuorumPeerMain"}
        node = cluster.nodes[1]
        told = ask_metadata(node.behind_tapped.host, node.behind_tapped.port).brokers
        assert told == {1: (node.tapped.host, node.tapped.port)}
        told = ask_metadata(node.direct.host, node.direct.port).brokers
        assert told == {1: (node.direct.host, node.direct.port)}
    assert not running(folder)
    assert not folder.exists()


@pytest.mark.long
def test_a_broker_that_does_not_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    cluster = ZookeeperCluster("0.8.2.2", folder=folder)
    cluster.advertised = "127.77.17.1:no-port"
    with pytest.raises(RuntimeError, match=r"(?s)broker ended with exit code .*no-port"), cluster:
        pass
    assert not running(folder)
    assert not folder.exists()


@pytest.mark.long
def test_a_failing_tools_output_is_shown(tmp_path: Path) -> None:
    with (
        ZookeeperCluster("0.8.2.2", folder=tmp_path / "cluster") as cluster,
        pytest.raises(AssertionError, match="REQUIRED: The topic id"),
    ):
        cluster.console("kafka-console-producer")
