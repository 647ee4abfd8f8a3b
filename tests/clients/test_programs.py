"""Tests of Kafka's performance and verifiable programs through the proxy. `harness.proxied` checks each."""

from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import proxied
from tests.clients.workloads import programs

pytestmark = pytest.mark.real


def test_what_is_measured_is_what_was_sent(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        programs.measure(kafka_three, proxy.bootstrap)


def test_what_was_acknowledged_is_read_by_each_kind_of_group(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        programs.verify(kafka_three, proxy.bootstrap)
