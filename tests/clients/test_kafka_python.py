"""Tests of kafka-python through the proxy, on real Kafka. `harness.proxied` checks each."""

from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import proxied
from tests.clients.workloads import python

pytestmark = pytest.mark.real


def test_every_codec_and_acks_passes(cluster: KafkaCluster, tmp_path: Path) -> None:
    with proxied(cluster, tmp_path) as proxy:
        python.produces_and_consumes(proxy.bootstrap)


@pytest.mark.long
def test_a_group_rebalances(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        python.rebalances_a_group(proxy.bootstrap)


@pytest.mark.long
def test_transactions_are_kept(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        python.keeps_its_transactions(proxy.bootstrap)


@pytest.mark.long
def test_admin_calls_are_answered(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        python.administers(proxy.bootstrap)


@pytest.mark.long
def test_a_record_of_20_mb_passes(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        python.moves_a_large_record(proxy.bootstrap)
