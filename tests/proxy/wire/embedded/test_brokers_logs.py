"""Tests that all records of a real broker's internal topics are read as the broker's own tools read them.

The log files are read in the broker's folder, while groups, a share group and a transactional producer of this module
use it.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from proxy.wire import records
from proxy.wire.embedded import Embedded, LogRecord, decode_control, decode_record, expand_data
from proxy.wire.primitives import uuid_text
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.workloads import fresh

pytestmark = pytest.mark.real

COUNT, PARTITIONS = 30, 2
LOGS = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")


class Names(NamedTuple):
    topic: str
    classic: str
    modern: str
    java: str
    share: str
    transaction: str
    user: str


@pytest.fixture(scope="module")
def names(kafka_one: KafkaCluster) -> Iterator[Names]:
    """The names of this module's topics and groups, while the groups have members."""
    found = Names(*(fresh(name) for name in Names._fields))
    admin = AdminClient({"bootstrap.servers": kafka_one.bootstrap})
    admin.create_topics([NewTopic(found.topic, PARTITIONS)])[found.topic].result(60)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion(found.user, credential, b"password", b"the salt")
    admin.alter_user_scram_credentials([upsertion])[found.user].result(60)
    produce(kafka_one, found)
    share(kafka_one, found)
    consume_by_java(kafka_one, found)
    members = [
        member(kafka_one, found.topic, group) for group in ((found.classic, "classic"), (found.modern, "consumer"))
    ]
    yield found
    for one in members:
        one.close()


def produce(cluster: KafkaCluster, names: Names) -> None:
    """Produces in one transaction that is committed and one that is not."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": names.transaction})
    producer.init_transactions(60)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(COUNT):
            producer.produce(names.topic, f"{number}".encode(), partition=number % PARTITIONS)
        producer.flush(60)
        end(60)


def consume_by_java(cluster: KafkaCluster, names: Names) -> None:
    """Runs a group member that joins and leaves."""
    wanted = ["--topic", names.topic, "--group", names.java, "--max-messages", str(COUNT), "--from-beginning"]
    cluster.console("kafka-console-consumer", "--bootstrap-server", cluster.bootstrap, *wanted)


def share(cluster: KafkaCluster, names: Names) -> None:
    at = ["--bootstrap-server", cluster.bootstrap]
    config = ["--alter", "--entity-type", "groups", "--entity-name", names.share]
    cluster.console("kafka-configs", *at, *config, "--add-config", "share.auto.offset.reset=earliest")
    wanted = ["--topic", names.topic, "--group", names.share, "--max-messages", str(COUNT), "--timeout-ms", "45000"]
    cluster.console("kafka-console-share-consumer", *at, *wanted)


def member(cluster: KafkaCluster, topic: str, group: tuple[str, str]) -> Consumer:
    """Runs a member that has read and committed everything."""
    name, protocol = group
    settings = {"group.id": name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"bootstrap.servers": cluster.bootstrap, "enable.auto.commit": False})
    consumer.subscribe([topic])
    seen: list[Any] = []

    def has_read_all() -> bool:
        seen.append(consumer.poll(0.1))
        return sum(one is not None for one in seen) >= COUNT

    wait_for(has_read_all, "all records")
    consumer.commit(asynchronous=False)
    return consumer


def files(cluster: KafkaCluster, topic: str) -> Iterator[bytes]:
    for folder in sorted((cluster.nodes[1].folder / "data").glob(f"{topic}-*")):
        for file in sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")]):
            yield file.read_bytes()


def log_of(cluster: KafkaCluster, topic: str) -> list[LogRecord]:
    """Returns all records of an internal topic, also control records."""
    found = []
    for data in files(cluster, topic):
        for record in records.read(data):
            one = (
                decode_control(record.key, record.value)
                if record.control
                else decode_record(topic, record.key, record.value)
            )
            assert one is not None
            found.append(one)
    return found


def latest(log: list[LogRecord], name: str) -> dict[tuple[Any, ...], dict[str, Any] | None]:
    """Returns the last value of each key of that message, by the key's values."""
    found: dict[tuple[Any, ...], dict[str, Any] | None] = {}
    for record in log:
        if isinstance(record.key, Embedded) and record.key.name == name:
            value = record.value
            assert value is None or isinstance(value, Embedded)
            found[tuple(record.key.values.values())] = value.values if value else None
    return found


@pytest.mark.parametrize("topic", LOGS)
def test_every_record_is_known_to_its_last_byte(kafka_one: KafkaCluster, names: Names, topic: str) -> None:
    log = log_of(kafka_one, topic)
    assert log
    for record in log:
        for part in (record.key, record.value):
            assert part is None or (isinstance(part, Embedded) and part.rest == b""), record


def test_committed_offsets_are_those_that_the_tool_shows(kafka_one: KafkaCluster, names: Names) -> None:
    at = ["--bootstrap-server", kafka_one.bootstrap, "--describe"]
    groups = ["--group", names.classic, "--group", names.modern, "--group", names.java]
    shown = kafka_one.console("kafka-consumer-groups", *at, *groups).stdout
    told = {
        (group, topic, int(partition)): int(offset)
        for group, topic, partition, offset in re.findall(rf"(?m)^(\S+) +({names.topic}) +(\d+) +(\d+) ", shown)
    }
    log = latest(log_of(kafka_one, "__consumer_offsets"), "OffsetCommitKey")
    read = {key: value["offset"] for key, value in log.items() if value and key[1] == names.topic}
    assert len(told) == 3 * PARTITIONS
    assert read == told


def test_a_classic_groups_member_is_read_with_what_it_wants_and_has(kafka_one: KafkaCluster, names: Names) -> None:
    value = latest(log_of(kafka_one, "__consumer_offsets"), "GroupMetadataKey")[names.classic,]
    assert value
    assert value["protocol_type"] == "consumer"
    (shown,) = expand_data("GroupMetadataValue", value)["members"]
    assert shown["subscription"]["values"]["topics"] == [names.topic]
    (assigned,) = shown["assignment"]["values"]["assigned_partitions"]
    assert (assigned["topic"], sorted(assigned["partitions"])) == (names.topic, list(range(PARTITIONS)))
    described = kafka_one.console(
        "kafka-consumer-groups",
        "--bootstrap-server",
        kafka_one.bootstrap,
        "--describe",
        "--group",
        names.classic,
        "--members",
    ).stdout
    assert shown["member_id"] in described


def test_metadata_of_classic_group_members_is_decoded(kafka_one: KafkaCluster, names: Names) -> None:
    told: dict[str, set[str]] = {}
    for record in log_of(kafka_one, "__consumer_offsets"):
        if isinstance(record.value, Embedded) and record.value.name == "GroupMetadataValue":
            assert isinstance(record.key, Embedded)
            for shown in expand_data("GroupMetadataValue", record.value.values)["members"]:
                topics = told.setdefault(record.key.values["group"], set())
                topics.update(shown["subscription"]["values"]["topics"])
                assert not shown["assignment"] or shown["assignment"]["message"] == "ConsumerProtocolAssignment"
                assert all("rest" not in shown[name] for name in ("subscription", "assignment"))
    assert told[names.java] == told[names.classic] == {names.topic}


def test_a_modern_groups_members_and_assignments_are_read(kafka_one: KafkaCluster, names: Names) -> None:
    log = log_of(kafka_one, "__consumer_offsets")
    (member,) = (
        value for key, value in latest(log, "ConsumerGroupMemberMetadataKey").items() if key[0] == names.modern
    )
    assert member
    assert member["subscribed_topic_names"] == [names.topic]
    current = latest(log, "ConsumerGroupCurrentMemberAssignmentKey")
    (has,) = (value for key, value in current.items() if key[0] == names.modern)
    assert has
    (assigned,) = has["assigned_partitions"]
    assert sorted(assigned["partitions"]) == list(range(PARTITIONS))


def test_a_share_groups_state_is_read(kafka_one: KafkaCluster, names: Names) -> None:
    log = log_of(kafka_one, "__share_group_state")
    seen = {record.key.values["group_id"] for record in log if isinstance(record.key, Embedded)}
    assert names.share in seen


def test_a_transaction_is_read_as_the_tool_shows_it(kafka_one: KafkaCluster, names: Names) -> None:
    value = latest(log_of(kafka_one, "__transaction_state"), "TransactionLogKey")[names.transaction,]
    assert value
    asked = ["describe", "--transactional-id", names.transaction]
    shown = kafka_one.console("kafka-transactions", "--bootstrap-server", kafka_one.bootstrap, *asked).stdout
    head, line = (row.split() for row in shown.splitlines() if row.strip())
    told = dict(zip(head, line, strict=False))
    assert (str(value["producer_id"]), str(value["producer_epoch"])) == (told["ProducerId"], told["ProducerEpoch"])
    assert told["TransactionState"] == "CompleteCommit"
    # the state's number in Kafka's TransactionState
    assert value["transaction_status"] == 4


def test_control_records_of_a_topic_say_how_its_transactions_ended(kafka_one: KafkaCluster, names: Names) -> None:
    for data in files(kafka_one, names.topic):
        ends = [decode_control(one.key, one.value) for one in records.read(data) if one.control]
        assert [one.key.values for one in ends if isinstance(one.key, Embedded)] == [{"type": 0}, {"type": 1}]
        assert all(isinstance(one.value, Embedded) and one.value.name == "EndTxnMarker" for one in ends)


def test_topics_and_credentials_are_read_from_the_metadata(kafka_one: KafkaCluster, names: Names) -> None:
    log = [one.value for one in log_of(kafka_one, "__cluster_metadata") if isinstance(one.value, Embedded)]
    ids = {one.values["name"]: one.values["topic_id"] for one in log if one.name == "TopicRecord"}
    at = ["--bootstrap-server", kafka_one.bootstrap, "--describe", "--topic", names.topic]
    assert f"TopicId: {uuid_text(ids[names.topic])}" in kafka_one.console("kafka-topics", *at).stdout
    partitions = [one for one in log if one.name == "PartitionRecord" and one.values["topic_id"] == ids[names.topic]]
    assert sorted(one.values["partition_id"] for one in partitions) == list(range(PARTITIONS))
    users = {one.values["name"]: one.values for one in log if one.name == "UserScramCredentialRecord"}
    assert (users[names.user]["salt"], users[names.user]["iterations"]) == (b"the salt", 4096)
