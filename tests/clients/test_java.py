"""Tests of Kafka's own Java clients through the proxy, on real Kafka. `harness.proxied` checks each."""

from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import proxied
from tests.clients.workloads import java
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real


def test_every_codec_and_acks_passes(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        java.produces_and_consumes(kafka_three, proxy.bootstrap)


@pytest.mark.parametrize("protocol", mostly_long(["consumer", "classic"], usual=1))
def test_a_group_rebalances(kafka_three: KafkaCluster, tmp_path: Path, protocol: str) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        java.rebalances_a_group(kafka_three, proxy.bootstrap, protocol)


@pytest.mark.long
def test_transactions_are_kept(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        java.keeps_its_transactions(kafka_three, proxy.bootstrap)


@pytest.mark.long
def test_admin_calls_are_answered(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        java.administers(kafka_three, proxy.bootstrap)


@pytest.mark.long
def test_a_share_group_reads_everything(cluster: KafkaCluster, tmp_path: Path) -> None:
    with proxied(cluster, tmp_path) as proxy:
        java.shares_a_group(cluster, proxy.bootstrap)


@pytest.mark.long
def test_a_record_of_20_mb_passes(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        java.moves_a_large_record(kafka_three, proxy.bootstrap)
