"""Tests of Kafka's performance and verifiable programs through the proxy. `harness.proxied` checks each."""

from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import proxied
from tests.clients.workloads import programs

pytestmark = pytest.mark.real


@pytest.mark.long
def test_performance_programs_receive_all_that_was_sent(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        programs.measure(kafka_three, proxy.bootstrap)


@pytest.mark.long
def test_verifiable_consumers_of_each_kind_of_group_read_all_acknowledged_records(
    kafka_three: KafkaCluster, tmp_path: Path
) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        programs.verify(kafka_three, proxy.bootstrap)
