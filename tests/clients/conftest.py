"""A cluster by its number of nodes. One node differs little from three: that sweep is long."""

import pytest

from tests.brokers.kafka import KafkaCluster


@pytest.fixture(params=[pytest.param("kafka_one", marks=pytest.mark.long), "kafka_three"])
def cluster(request: pytest.FixtureRequest) -> KafkaCluster:
    return request.getfixturevalue(request.param)
