"""Tests of a proxy before KRaft controllers: Kafka's own tools with --bootstrap-controller never go round it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.harness import PROGRAM, STOP_SECONDS

pytestmark = pytest.mark.real

LISTENED = "127.88.21.1"
# a row of the table that the tool prints: id, host, port
ENDPOINT = re.compile(r"^(\d+)\s+(\S+)\s+(\d+)\s", re.MULTILINE)


@contextmanager
def proxied(folder: Path, **upstreams: str) -> Iterator[dict[str, str]]:
    """A proxy with these clusters, within a block: cluster -> bootstrap listener; "metrics" -> the admin page."""
    settings, log = folder / "wiretap.toml", folder / "proxy.log"
    clusters = (
        f'[clusters.{name}]\nupstream = "{upstream}"\nlisten = "{LISTENED}:0"\n' for name, upstream in upstreams.items()
    )
    settings.write_text(f'metrics = "127.0.0.1:0"\n{"".join(clusters)}')
    proxy = children.spawn([*PROGRAM, "proxy", "--config", str(settings)], output=log, cwd=folder)
    try:
        wait_for(
            lambda: "metrics on" in log.read_text(),
            "the proxy",
            hopeless=lambda: log.read_text() if proxy.poll() else None,
        )
        found = re.findall(r"listening on (\S+)", log.read_text())
        (metrics,) = re.findall(r"metrics on (\S+)/metrics", log.read_text())
        yield dict(zip(upstreams, found, strict=True)) | {"metrics": metrics}
    finally:
        assert children.stop(proxy, seconds=STOP_SECONDS) == 0, log.read_text()


def nodes_told(kafka: KafkaCluster, option: str, address: str) -> dict[int, tuple[str, int]]:
    """The nodes that a tool learns at an address: node id -> host and port."""
    printed = kafka.console("kafka-cluster", "list-endpoints", option, address).stdout
    return {int(number): (host, int(port)) for number, host, port in ENDPOINT.findall(printed)}


def exchanges(metrics: str, api: str) -> float:
    """How many exchanges of an API have passed the proxy."""
    page = urlopen(f"{metrics}/metrics", timeout=PATIENCE).read().decode()
    counted = re.findall(rf'^kafka_wiretap_exchanges_total{{.*api="{api}".*}} (\S+)$', page, re.MULTILINE)
    return sum(map(float, counted))


def is_ready(metrics: str) -> bool:
    return bool(urlopen(f"{metrics}/readyz", timeout=PATIENCE).status == 200)


def test_tools_of_controllers_and_of_brokers_each_stay_with_the_listeners_of_their_kind(
    kafka_three: KafkaCluster, tmp_path: Path
) -> None:
    """Combined mode: each node id is a broker and a controller, on ports of its own."""
    quorum = ",".join(str(node.quorum) for node in kafka_three.nodes.values())
    with proxied(tmp_path, brokers=kafka_three.bootstrap, controllers=quorum) as proxy:
        brokers = nodes_told(kafka_three, "--bootstrap-server", proxy["brokers"])
        controllers = nodes_told(kafka_three, "--bootstrap-controller", proxy["controllers"])
        assert brokers.keys() == controllers.keys() == kafka_three.nodes.keys()
        assert {host for host, _ in (*brokers.values(), *controllers.values())} == {LISTENED}
        assert not {*brokers.values()} & {*controllers.values()}
        # what changes something is sent to the active controller, whichever of the nodes it is
        where = ("--bootstrap-controller", proxy["controllers"], "--entity-type", "brokers", "--entity-name", "1")
        kafka_three.console("kafka-configs", *where, "--alter", "--add-config", "log.cleaner.threads=1")
        wait_for(lambda: exchanges(proxy["metrics"], "IncrementalAlterConfigs") == 1, "the change to be counted")
        kafka_three.console("kafka-configs", *where, "--alter", "--delete-config", "log.cleaner.threads")
        assert is_ready(proxy["metrics"])
    log = (tmp_path / "proxy.log").read_text()
    assert "upstream is a controller" in log
    assert "login" not in log


@pytest.mark.long
@pytest.mark.parametrize(
    ("tool", "arguments", "api"),
    [
        ("kafka-metadata-quorum", ("describe", "--replication"), "DescribeQuorum"),
        ("kafka-metadata-quorum", ("describe", "--status"), "DescribeQuorum"),
        ("kafka-features", ("describe",), "ApiVersions"),
        ("kafka-cluster", ("cluster-id",), "DescribeCluster"),
        ("kafka-acls", ("--list",), "DescribeAcls"),
    ],
    ids=["replication", "status", "features", "cluster id", "ACLs"],
)
def test_each_tool_that_speaks_with_controllers_works_through_the_proxy(
    kafka_three: KafkaCluster, tmp_path: Path, tool: str, arguments: tuple[str, ...], api: str
) -> None:
    quorum = str(kafka_three.nodes[1].quorum)
    first = () if tool == "kafka-cluster" else ("--bootstrap-controller",)
    with proxied(tmp_path, controllers=quorum) as proxy:
        where = (*first, proxy["controllers"]) if first else ()
        last = () if first else ("--bootstrap-controller", proxy["controllers"])
        kafka_three.console(tool, *where, *arguments, *last)
        wait_for(lambda: exchanges(proxy["metrics"], api), "the question to be counted")


def test_an_isolated_quorum_is_stood_for_without_any_broker(tmp_path: Path) -> None:
    with (
        KafkaCluster(1, folder=tmp_path / "kafka", controllers_only=True) as kafka,
        proxied(tmp_path, controllers=str(kafka.nodes[1].quorum)) as proxy,
    ):
        told = nodes_told(kafka, "--bootstrap-controller", proxy["controllers"])
        assert {number: host for number, (host, _) in told.items()} == {1: LISTENED}
        kafka.console("kafka-metadata-quorum", "--bootstrap-controller", proxy["controllers"], "describe", "--status")
        wait_for(lambda: exchanges(proxy["metrics"], "DescribeQuorum"), "the question to be counted")
        assert is_ready(proxy["metrics"])
