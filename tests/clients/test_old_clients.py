"""Tests of old and new clients before a broker of 2.8: which ones Kafka 4 will refuse (KIP-896).

Clients that send nothing older than Produce 3 and Fetch 4 need no upgrade, however old they are.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers.jars import VERSION
from tests.brokers.zookeeper import ZookeeperCluster
from tests.clients import kafka_python_1_4
from tests.clients.harness import PROGRAM, compact, proxied
from tests.clients.reports import report_of
from tests.clients.workloads import round_trip

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

RELEASE = "2.8.2"
# the client ids of Java clients of these releases
JAVA = {"0.10.2.2": "java-of-2017", "2.0.1": "java-of-2018", VERSION: "java-of-today"}
PINNED, PROBING = "python-pinned", "python-probing"
# the newest version of each; all other clients send nothing that Kafka 4 refuses
CUT = {("java-of-2017", "Produce", 2), ("java-of-2017", "Fetch", 3), (PINNED, "Produce", 2)}


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("old")
    with ZookeeperCluster(RELEASE, folder=folder / "kafka") as cluster:
        with proxied(cluster, folder) as proxy:
            for of, name in JAVA.items():
                config = folder / f"{name}.properties"
                config.write_text(f"client.id={name}\n")
                round_trip.kafka_clients(of, proxy.bootstrap, ["none"], config=config)
            kafka_python_1_4.round_trip(proxy.bootstrap, client_id=PINNED, api_version=[0, 10])
            kafka_python_1_4.round_trip(proxy.bootstrap, client_id=PROBING)
            round_trip.librdkafka(proxy.bootstrap, RELEASE, ["none"])
            round_trip.kafka_python(proxy.bootstrap, RELEASE, ["none"])
            round_trip.aiokafka(proxy.bootstrap, RELEASE, ["none"])
        compact(proxy.capture)
        yield proxy.capture


def test_the_table_of_clients_marks_those_that_kafka_4_refuses(capture: Path) -> None:
    command = [*PROGRAM, "analyze", str(capture), "--table", "clients", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    used = [json.loads(line) for line in done.stdout.splitlines()]
    cut = {(row["client_id"], row["api"], row["api_version"]) for row in used if row["fate"] == "cut"}
    assert cut >= CUT
    assert {name for name, _, _ in cut} == {name for name, _, _ in CUT}
    assert {row["fate"] for row in used} == {None, "cut"}
    newest = {(row["client_id"], row["api"], row["api_version"]) for row in used}
    assert newest >= {("java-of-2018", "Produce", 6), (PROBING, "Produce", 3), (PROBING, "Fetch", 4)}


def test_the_report_finds_exactly_the_clients_that_kafka_4_refuses(capture: Path) -> None:
    found = [one for one in report_of(capture, {}).findings.every if one.rule == "cut_off"]
    assert {one.subject for one in found} == {f"{name} at 127.0.0.1" for name, _, _ in CUT}
