"""Tests of `timeouts.age`: connections end again and again, and clients go on as if nothing had happened.

No transaction is aborted, no group rebalances, and each record is there once. The programs of `workloads.exactly_once`
and `workloads.steady` fail if a client sees anything else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy.conversation import Cause
from proxy.wire.keys import CONSUMER_GROUP_HEARTBEAT, JOIN_GROUP
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.checks import captured_connections, connections_that_ended, decoded_request
from tests.clients.harness import Proxied, proxied
from tests.clients.workloads import confluent, exactly_once, fresh
from tests.clients.workloads.steady import Java, Kcat, Librdkafka, steady

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

# shorter than any operator's: a client meets several ends within a test, and has done something before each
AGE = "2s"
# how many connections shall end by their age in a test of transactions; seconds that a busy machine may take for it
ENDS, PATIENCE = 10, 600
ENDED = "connection closed"


@contextmanager
def aging(cluster: KafkaCluster, folder: Path, *options: str) -> Iterator[Proxied]:
    """A proxy that ends connections by their age."""
    settings = folder / "wiretap.toml"
    settings.write_text(f'log.level = "debug"\n[clusters.main.timeouts]\nage = "{AGE}"\n')
    with proxied(cluster, folder, disturbed=True, options=["--config", str(settings), *options]) as proxy:
        yield proxy
    check_nothing_was_cut(proxy.capture)


def check_nothing_was_cut(capture: Path) -> None:
    """Asserts that each request which an old connection had taken was answered; none of these clients sends acks=0."""
    connections = captured_connections(capture)
    aged = connections_that_ended(capture, Cause.AGED)
    assert len(aged) >= ENDS
    for connection in aged & connections.keys():
        rows = connections[connection]
        asked, answered = ({row["exchange"] for row in rows if row["kind"] == kind} for kind in ("request", "response"))
        assert asked == answered, connection


def ends(proxy: Proxied) -> int:
    """How many connections have ended by their age."""
    return sum(ENDED in line and "cause=aged" in line for line in proxy.log.splitlines())


def test_transactions_of_java_are_neither_aborted_nor_doubled(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with aging(kafka_three, tmp_path) as proxy:

        def copied_often() -> bool:
            exactly_once.java_copies(kafka_three, proxy.bootstrap)
            return ends(proxy) > ENDS

        wait_for(copied_often, "connections to end")


def test_transactions_of_librdkafka_are_neither_aborted_nor_doubled(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with aging(kafka_three, tmp_path) as proxy:
        producer = exactly_once.transactional(proxy.bootstrap, fresh("aged"))
        topic = confluent.create_topic(proxy.bootstrap, "aged", exactly_once.PARTITIONS)
        committed: list[bytes] = []

        def committed_often() -> bool:
            producer.begin_transaction()
            for _ in range(5):
                committed.append(f"{len(committed)}".encode())
                producer.produce(topic, committed[-1], partition=0)
            producer.commit_transaction(PATIENCE)
            return ends(proxy) > ENDS

        wait_for(committed_often, "connections to end")
        exactly_once.check_copied(proxy.bootstrap, topic, [committed, []])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_groups_of_either_kind_do_not_rebalance(kafka_three: KafkaCluster, tmp_path: Path, workers: str) -> None:
    kinds = (Librdkafka, Java, Kcat)
    with (
        aging(kafka_three, tmp_path, "--workers", workers) as proxy,
        steady(kafka_three, proxy.bootstrap, tmp_path, kinds) as work,
    ):
        joined, before = joins(proxy), ends(proxy)
        wait_for(lambda: ends(proxy) > before + 100, "a hundred connections to end")
        work.wait_for_more()
        assert joins(proxy) == joined


def joins(proxy: Proxied) -> int:
    """How many requests have joined a group, as a new member or again."""
    requests = [one for talk in proxy.conversations()[0] for one in talk.requests]
    classic = sum(one.head[0] == JOIN_GROUP for one in requests)
    beats = [decoded_request(one) for one in requests if one.head[0] == CONSUMER_GROUP_HEARTBEAT]
    return classic + len([one for one in beats if one["member_epoch"] == 0])
