"""Tests of kcat through the proxy, on real Kafka. `harness.proxied` checks each."""

from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import proxied
from tests.clients.workloads import kcat

pytestmark = pytest.mark.real


@pytest.mark.long
def test_every_codec_and_acks_passes(cluster: KafkaCluster, tmp_path: Path) -> None:
    with proxied(cluster, tmp_path) as proxy:
        kcat.produces_and_consumes(proxy.bootstrap)


def test_the_listing_shows_the_proxy_in_place_of_every_broker(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        assert kcat.brokers(proxy.bootstrap) == {
            number: proxy.advertised[str(node.tapped)] for number, node in kafka_three.nodes.items()
        }
