"""Tests of replaying real clients to another real cluster: it then has the same records, groups and offsets.

The tests share a source and a target. Each test's topics, groups and transactions have names of their own, so the
target is fresh for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.moments import written
from recorder.replay.plan import Reason
from tests.brokers.kafka import KafkaCluster
from tests.brokers.zookeeper import ZookeeperCluster
from tests.clients.workloads import asyncio_client, confluent, exactly_once, java, kcat, python
from tests.clients.workloads.programs import share_group
from tests.recorder.replay.real import (
    Recording,
    check_as_recorded,
    check_logs,
    check_withheld,
    folders_of,
    record,
    replay,
)

pytestmark = pytest.mark.real

Work = Callable[[KafkaCluster, str], None]

# kind of work -> its recorder; kinds that need transactions v2 or newer groups are separate
EVERY: dict[str, Work] = {
    "every codec and acks": lambda cluster, bootstrap: confluent.produces_and_consumes(bootstrap),
    "transactions v2": java.keeps_its_transactions,
    "newer group": lambda cluster, bootstrap: confluent.rebalances_a_group(bootstrap, "consumer"),
}
OTHERS: dict[str, Work] = {
    "classic group": lambda cluster, bootstrap: confluent.rebalances_a_group(bootstrap, "classic"),
    "transactions v1": lambda cluster, bootstrap: confluent.keeps_its_transactions(bootstrap),
    "exactly-once copy": lambda cluster, bootstrap: exactly_once.confluent_copies(bootstrap),
    "java, every codec": java.produces_and_consumes,
    "java, exactly-once copies": exactly_once.java_copies,
    "kcat": lambda cluster, bootstrap: kcat.produces_and_consumes(bootstrap),
    "aiokafka, transactions": lambda cluster, bootstrap: asyncio_client.keeps_its_transactions(bootstrap),
    "kafka-python, transactions": lambda cluster, bootstrap: python.keeps_its_transactions(bootstrap),
}
ALL = EVERY | OTHERS
# those whose groups commit offsets in transactions
COPIES = ("exactly-once copy", "java, exactly-once copies")
# partitions that a share group's member reads, 20 records each
SHARED = 3


def shares(cluster: KafkaCluster, bootstrap: str) -> None:
    """One member of a share group reads partitions that other nodes lead, with a session for each node."""
    topic, group = confluent.create_topic(bootstrap, "sharing", SHARED), share_group(cluster, cluster.bootstrap)
    confluent.produce(bootstrap, topic, [b"%d" % number for number in range(20 * SHARED)], SHARED)
    ends = ["--max-messages", str(20 * SHARED), "--timeout-ms", "30000"]
    asked = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, *ends]
    seen = cluster.console("kafka-console-share-consumer", *asked).stdout.split()
    assert sorted(map(int, seen)) == [*range(20 * SHARED)]


SHARING: dict[str, Work] = {"share group": shares}
# what each release lacks of 4.3.1, by API, and the only reasons for which its requests may be withheld
WITHHELD = {
    "3.9.2": {
        # regular expressions of topics; a member that has not joined sends nothing else
        "ConsumerGroupHeartbeat": {Reason.LOST_FIELD, Reason.NO_GENERATION, Reason.NO_MEMBER},
        # fenced brokers
        "DescribeCluster": {Reason.LOST_FIELD},
    },
    "2.8.2": {
        "ConsumerGroupHeartbeat": {Reason.NO_VERSION, Reason.NO_GENERATION, Reason.NO_MEMBER},
        "DescribeCluster": {Reason.LOST_FIELD},
        "ListTransactions": {Reason.NO_VERSION},
        "DescribeTransactions": {Reason.NO_VERSION},
    },
}

Recorded = Callable[[KafkaCluster, str], Recording]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(1, folder=tmp_path_factory.mktemp("target") / "kafka") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target_3_9(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(1, folder=tmp_path_factory.mktemp("target") / "kafka", release="3.9.2") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target_2_8(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker of 2.8 with ZooKeeper, without which it has no transactions: its address and its folder."""
    folder = tmp_path_factory.mktemp("target") / "kafka"
    with ZookeeperCluster("2.8.2", folder=folder) as cluster:
        yield cluster.direct_bootstrap, folder / "data"


@pytest.fixture(scope="module")
def target_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(3, folder=tmp_path_factory.mktemp("target") / "kafka") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Returns the capture of a kind of work with a cluster, made once."""
    made: dict[tuple[int, str], Recording] = {}

    def of(cluster: KafkaCluster, kind: str) -> Recording:
        key = len(cluster.nodes), kind
        if key not in made:
            made[key] = record(cluster, tmp_path_factory.mktemp("recording"), (ALL | SHARING)[kind])
        return made[key]

    return of


@pytest.mark.parametrize("kind", [*EVERY, *(pytest.param(kind, marks=pytest.mark.long) for kind in OTHERS)])
def test_a_fresh_cluster_has_what_the_recorded_one_had(
    kafka_one: KafkaCluster, target: KafkaCluster, recorded: Recorded, tmp_path: Path, kind: str
) -> None:
    recording = recorded(kafka_one, kind)
    committed = [group for group in recording.groups.values() if group.offsets]
    assert committed or kind not in COPIES
    replayed = replay(recording, target.bootstrap, tmp_path, "--speed", "max")
    check_as_recorded(recording, replayed, target.bootstrap, folders_of(target))


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_a_recording_that_begins_in_the_middle_of_its_clients_life_is_as_recorded_on_a_fresh_cluster(
    kafka_one: KafkaCluster, target: KafkaCluster, tmp_path: Path, protocol: str
) -> None:
    """A consumer reads 30 records from before the recording, 10 of them of a transaction that ends in it."""
    moments: list[int] = []

    def lives_on(cluster: KafkaCluster, bootstrap: str) -> None:
        confluent.lives_on(bootstrap, protocol, lambda: moments.append(time.time_ns()))

    recording = record(kafka_one, tmp_path, lives_on)
    since = written(moments[0])
    replayed = replay(recording, target.bootstrap, tmp_path, "--speed", "max", "--since", since)
    check_withheld(replayed, {api: {Reason.FROM_BEFORE} for api in replayed.report["apis"]})
    before = {each["kind"]: each["count"] for each in replayed.report["before"]}
    assert before["records"] == 30, replayed.printed
    assert before["requests of members"], replayed.printed
    assert sum(each["equal"] for each in replayed.report["streams"]) >= 30, replayed.printed


@pytest.mark.long
@pytest.mark.parametrize("speed", ["max", "1"])
def test_a_group_of_a_member_from_before_and_a_newcomer_commits_what_it_had_committed(
    kafka_one: KafkaCluster, target: KafkaCluster, tmp_path: Path, speed: str
) -> None:
    """The members' timeouts are longer than what a replay at `max` waits: nobody waits for one."""
    moments: list[int] = []

    def welcomes(cluster: KafkaCluster, bootstrap: str) -> None:
        confluent.welcomes_a_newcomer(bootstrap, lambda: moments.append(time.time_ns()))

    recording = record(kafka_one, tmp_path, welcomes)
    asked = ["--speed", speed, "--since", written(moments[0])]
    replayed = replay(recording, target.bootstrap, tmp_path, *asked)
    check_withheld(replayed, {api: {Reason.FROM_BEFORE} for api in replayed.report["apis"]})
    check_as_recorded(recording, replayed, target.bootstrap, folders_of(target))
    assert not sum(each["lost"] for each in replayed.report["apis"].values()), replayed.printed


@pytest.mark.long
@pytest.mark.parametrize("kind", ALL)
def test_three_nodes_have_what_one_had(
    kafka_one: KafkaCluster, target_three: KafkaCluster, recorded: Recorded, tmp_path: Path, kind: str
) -> None:
    recording = recorded(kafka_one, kind)
    replayed = replay(recording, target_three.bootstrap, tmp_path, "--speed", "max")
    check_as_recorded(recording, replayed, target_three.bootstrap, folders_of(target_three))


@pytest.mark.long
@pytest.mark.parametrize("kind", ALL)
def test_one_target_node_replays_three_nodes_in_recorded_time(
    kafka_three: KafkaCluster, target: KafkaCluster, recorded: Recorded, tmp_path: Path, kind: str
) -> None:
    recording = recorded(kafka_three, kind)
    replayed = replay(recording, target.bootstrap, tmp_path)
    check_as_recorded(recording, replayed, target.bootstrap, folders_of(target))


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [["--speed", "1"], ["--speed", "max", "--prefix", "again-"]], ids=["recorded-time", "max"]
)
def test_one_target_node_gives_a_share_group_the_records_of_three(
    kafka_three: KafkaCluster, target: KafkaCluster, recorded: Recorded, tmp_path: Path, options: list[str]
) -> None:
    """The member's sessions with several nodes become one session."""
    recording = recorded(kafka_three, "share group")
    replayed = replay(recording, target.bootstrap, tmp_path, *options)
    check_withheld(replayed, {})
    read = {each["partition"]: each["equal"] for each in replayed.report["streams"]}
    assert read == dict.fromkeys(range(SHARED), 20), replayed.printed


@pytest.mark.long
@pytest.mark.parametrize("kind", ALL)
def test_kafka_3_9_has_what_4_3_had(
    kafka_one: KafkaCluster, target_3_9: KafkaCluster, recorded: Recorded, tmp_path: Path, kind: str
) -> None:
    recording = recorded(kafka_one, kind)
    replayed = replay(recording, target_3_9.bootstrap, tmp_path, "--speed", "max", "--partial", "100")
    check_withheld(replayed, WITHHELD["3.9.2"])
    check_logs(recording, folders_of(target_3_9))


@pytest.mark.long
@pytest.mark.parametrize("kind", ALL)
def test_kafka_2_8_has_what_4_3_had(
    kafka_one: KafkaCluster, target_2_8: tuple[str, Path], recorded: Recorded, tmp_path: Path, kind: str
) -> None:
    bootstrap, folder = target_2_8
    recording = recorded(kafka_one, kind)
    replayed = replay(recording, bootstrap, tmp_path, "--speed", "max", "--partial", "100")
    check_withheld(replayed, WITHHELD["2.8.2"])
    check_logs(recording, [folder])
