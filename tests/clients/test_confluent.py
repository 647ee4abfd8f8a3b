"""Tests of confluent-kafka (librdkafka) through the proxy, on real Kafka. `harness.proxied` checks each."""

from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import proxied
from tests.clients.workloads import confluent
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real


def test_every_codec_and_acks_passes(cluster: KafkaCluster, tmp_path: Path) -> None:
    with proxied(cluster, tmp_path) as proxy:
        confluent.produces_and_consumes(proxy.bootstrap)


@pytest.mark.parametrize("protocol", mostly_long(["consumer", "classic"], usual=1))
def test_a_group_rebalances(kafka_three: KafkaCluster, tmp_path: Path, protocol: str) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        confluent.rebalances_a_group(proxy.bootstrap, protocol)


def test_transactions_are_kept(cluster: KafkaCluster, tmp_path: Path) -> None:
    with proxied(cluster, tmp_path) as proxy:
        confluent.keeps_its_transactions(proxy.bootstrap)


def test_admin_calls_are_answered(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        confluent.administers(proxy.bootstrap)


def test_a_record_of_20_mb_passes(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        confluent.moves_a_large_record(proxy.bootstrap)


@pytest.mark.long
def test_200_topics_are_found_and_used(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        confluent.uses_many_topics(proxy.bootstrap)
