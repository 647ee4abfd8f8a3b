"""Tests of the Kafka clusters: start, stop and settings."""

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.brokers.mock import MockCluster
from tests.brokers.waiting import wait_for
from tests.clients.workloads import confluent
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real


@pytest.mark.long
def test_a_leader_goes_where_it_is_sent(kafka_three: KafkaCluster) -> None:
    topic = confluent.create_topic(kafka_three.bootstrap, "leader")
    for node in (2, 3, 1):
        kafka_three.move_leader(topic, 0, node)
        assert {kafka_three.metadata(n, topic).leaders[topic, 0] for n in kafka_three.nodes} == {node}


@pytest.mark.long
def test_a_leader_goes_where_it_had_no_replica(kafka_three: KafkaCluster) -> None:
    topic = confluent.create_topic(kafka_three.bootstrap, "leader", replicas=1)
    start = wait_for(lambda: kafka_three.leader(topic, 0), "the topic")
    kafka_three.move_leader(topic, 0, start % 3 + 1)
    assert kafka_three.leader(topic, 0) == start % 3 + 1


@pytest.mark.long
@pytest.mark.parametrize("kill", mostly_long([False, True], usual=1))
def test_a_node_goes_and_comes_back_with_its_address(kafka_three: KafkaCluster, kill: bool) -> None:
    before = kafka_three.metadata(1).brokers
    kafka_three.stop_node(3, kill=kill)
    assert kafka_three.metadata(1).brokers.keys() == {1, 2}
    kafka_three.start_node(3)
    assert kafka_three.metadata(1).brokers == before


@pytest.mark.long
def test_a_failing_tools_output_is_shown(kafka_one: KafkaCluster) -> None:
    with pytest.raises(AssertionError, match="does not exist"):
        kafka_one.console("kafka-topics", "--bootstrap-server", kafka_one.bootstrap, "--describe", "--topic", "no")


def test_the_mock_cluster_serves_clients(mock_three: MockCluster) -> None:
    confluent.produce(mock_three.bootstrap, "mock", [b"value"])
    assert confluent.consume(mock_three.bootstrap, "mock", 1) == [b"value"]
