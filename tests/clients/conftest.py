"""Provides a cluster by its number of nodes. A single node is little different from three, so its sweep is `long`."""

import pytest

from tests.brokers.kafka import KafkaCluster


@pytest.fixture(params=[pytest.param("kafka_one", marks=pytest.mark.long), "kafka_three"])
def cluster(request: pytest.FixtureRequest) -> KafkaCluster:
    found: KafkaCluster = request.getfixturevalue(request.param)
    return found
