"""Tests of exactly-once copies through the proxy: transactions that commit, abort, are cut off and begun again."""

from pathlib import Path

import pytest

from proxy.wire.keys import END_TXN, TXN_OFFSET_COMMIT
from tests.brokers.kafka import KafkaCluster
from tests.clients.checks import decoded_request
from tests.clients.harness import Proxied, proxied
from tests.clients.workloads import exactly_once

pytestmark = pytest.mark.real


@pytest.mark.long
def test_copies_of_java_programs_have_each_record_once(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        exactly_once.java_copies(kafka_three, proxy.bootstrap)
    check_ended_both_ways(proxy)


def test_a_copy_of_librdkafka_has_each_record_once(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path) as proxy:
        exactly_once.confluent_copies(proxy.bootstrap)
    check_ended_both_ways(proxy)


def check_ended_both_ways(proxy: Proxied) -> None:
    """Asserts that some transactions were committed, several were aborted, and that they had offsets."""
    requests = [one for talk in proxy.conversations()[1] for one in talk.requests]
    assert any(one.head[0] == TXN_OFFSET_COMMIT for one in requests)
    ended = [decoded_request(one)["committed"] for one in requests if one.head[0] == END_TXN]
    assert ended.count(True) > 3
    assert ended.count(False) > 3
