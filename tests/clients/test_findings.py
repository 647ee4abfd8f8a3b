"""What a report finds of real clients that do it wrong on real Kafka; of the same clients mended it finds nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from recorder.analysis.summary.whole import Summary, of_json
from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import PROGRAM, compact, proxied
from tests.clients.workloads.misuse import CLIENTS, THRESHOLDS, Client, create_topics, run

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]
# 30 s until an unknown topic counts, and ten windows of 5 s
SECONDS = 80


def reported(cluster: KafkaCluster, folder: Path, clients: list[Client]) -> Summary:
    """The report of these clients' traffic."""
    with proxied(cluster, folder) as proxy:
        create_topics(proxy.bootstrap)
        run(proxy.bootstrap, clients, SECONDS)
    compact(proxy.capture)
    own = folder / "own.toml"
    own.write_text("".join(f"{name} = {value}\n" for name, value in THRESHOLDS.items()))
    command = [*PROGRAM, "report", str(proxy.capture), "--format", "json", "--thresholds", str(own)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return of_json(done.stdout)


def test_each_client_that_does_it_wrong_is_found(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    found = reported(kafka_one, tmp_path, [wrong for _, wrong, _ in CLIENTS]).findings
    assert not found.unjudged.rows
    fired = {one.rule for one in found.found}
    assert {rule for rules, _, _ in CLIENTS for rule in rules} <= fired
    assert all(one.evidence for one in found.found)


def test_none_of_them_is_found_once_mended(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    found = reported(kafka_one, tmp_path, [mended for _, _, mended in CLIENTS]).findings
    assert not found.unjudged.rows
    assert [one.sentence for one in found.found] == []
