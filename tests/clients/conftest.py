"""A cluster by its number of nodes."""

import pytest

from tests.brokers.kafka import KafkaCluster


@pytest.fixture(params=["kafka_one", "kafka_three"])
def cluster(request: pytest.FixtureRequest) -> KafkaCluster:
    return request.getfixturevalue(request.param)
