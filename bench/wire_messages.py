"""Twenty messages as a cluster of today sends them: what `bench.wire` measures, and good first bytes for a fuzzer.

The same bytes in every run: a `Random` seeded with the message's name makes ids and offsets, kafka-python writes the
record batches, and nothing asks for the time. Each version is one that Kafka 3.x and 4.x serve and that kio and
kafka-python know too; `at` has the same in an older one. Sizes are those of a middling cluster: 9 brokers, replication
3, tens of topics.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from kafka.record.memory_records import MemoryRecordsBuilder

from proxy import wire
from proxy.wire.apis import MessageKind
from proxy.wire.compile.layout import layout

# Where record timestamps begin, in ms.
FIRST_TIMESTAMP = 1_790_000_000_000
NO_ERROR = 0
UNCOMPRESSED = 0
NODES = range(1, 10)


@dataclass(frozen=True, slots=True)
class Message:
    """One of the twenty."""

    name: str
    kind: MessageKind
    key: int
    version: int
    values: Mapping[str, Any]

    @property
    def codec(self) -> wire.Codec:
        found = wire.codec(self.kind, self.key, self.version)
        assert found is not None
        return found

    @property
    def body(self) -> bytes:
        """The message without head and length."""
        known = {slot.name for slot in layout(self.codec.message, self.version)}
        return self.codec.encode({name: value for name, value in self.values.items() if name in known})

    def at(self, version: int) -> "Message":
        """The same message in another version."""
        return replace(self, version=version)


@cache
def messages() -> tuple[Message, ...]:
    """All of them, built once."""
    return tuple(Message(name, kind, key, version, make(Random(name))) for name, kind, key, version, make in _TWENTY)


def topic(number: int) -> str:
    return f"{('orders', 'payments', 'shipments', 'audit-log')[number % 4]}.eu-west.{number:03d}"


def metadata(random: Random) -> dict[str, Any]:
    """9 brokers, 49 topics with 25 partitions each, 3 replicas, all in sync but for one partition in fifty."""
    return {
        "throttle_time_ms": 0,
        "brokers": [broker(node) for node in NODES],
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk",
        "controller_id": 3,
        "topics": [
            {
                "error_code": NO_ERROR,
                "name": topic(number),
                "topic_id": random.randbytes(16),
                "is_internal": False,
                "partitions": [partition_metadata(random, index) for index in range(25)],
                "topic_authorized_operations": -(2**31),
            }
            for number in range(49)
        ],
    }


def broker(node: int) -> dict[str, Any]:
    zone = "abc"[node % 3]
    return {"node_id": node, "host": f"kafka-{node}.prod.example.com", "port": 9092, "rack": f"eu-west-1{zone}"}


def partition_metadata(random: Random, index: int) -> dict[str, Any]:
    replicas = random.sample(NODES, 3)
    return {
        "error_code": NO_ERROR,
        "partition_index": index,
        "leader_id": replicas[0],
        "leader_epoch": random.randrange(40),
        "replica_nodes": replicas,
        "isr_nodes": replicas[:2] if random.random() < 0.02 else replicas,
        "offline_replicas": [],
    }


def batch(random: Random, base_offset: int, count: int, value_size: int) -> bytes:
    """A record batch of magic 2: `count` records with a key of 8 bytes and a value of `value_size`."""
    builder = MemoryRecordsBuilder(2, UNCOMPRESSED, batch_size=1 << 20)
    for number in range(count):
        key, value = b"%08d" % random.randrange(10**8), random.randbytes(value_size)
        builder.append(FIRST_TIMESTAMP + number, key, value)
    builder.close()
    written = builder.buffer()
    return base_offset.to_bytes(8, "big") + bytes(written[8:])


def fetched(random: Random, topics: int, partitions: int, records: Callable[[int], bytes]) -> dict[str, Any]:
    """A FetchResponse; `records(base_offset)` are those of one partition."""
    return {
        "throttle_time_ms": 0,
        "error_code": NO_ERROR,
        "session_id": 1_234_567,
        "responses": [
            {
                "topic_id": random.randbytes(16),
                "partitions": [fetched_partition(random, index, records) for index in range(partitions)],
            }
            for _ in range(topics)
        ],
    }


def fetched_partition(random: Random, index: int, records: Callable[[int], bytes]) -> dict[str, Any]:
    offset = random.randrange(10**9)
    return {
        "partition_index": index,
        "error_code": NO_ERROR,
        "high_watermark": offset + 500,
        "last_stable_offset": offset + 500,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": records(offset),
    }


def big_fetch(random: Random) -> dict[str, Any]:
    """10 topics with 10 partitions, 8 kB of records each: 0.8 MB."""
    return fetched(random, 10, 10, lambda offset: batch(random, offset, 16, 490))


def small_fetch(random: Random) -> dict[str, Any]:
    """50 topics with 20 partitions, one record of 100 bytes in every fourth of them."""
    return fetched(random, 50, 20, lambda offset: b"" if offset % 4 else batch(random, offset, 1, 100))


def produce(random: Random) -> dict[str, Any]:
    """A producer's full request: 4 topics with 6 partitions, a batch of 10 records each."""
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [
            {
                "name": topic(number),
                "partition_data": [{"index": index, "records": batch(random, 0, 10, 100)} for index in range(6)],
            }
            for number in range(4)
        ],
    }


def member_id(random: Random, number: int) -> str:
    return f"consumer-billing-{number}-{random.getrandbits(128):032x}"


def join_group(random: Random) -> dict[str, Any]:
    """What the leader of a group of 60 members gets: each with a subscription (version 0) of three topics."""
    members = [member_id(random, number) for number in range(60)]
    subscription = b"\0\0" + b"\0\0\0\3" + b"".join(_text(topic(number)) for number in range(3)) + b"\xff\xff\xff\xff"
    return {
        "throttle_time_ms": 0,
        "error_code": NO_ERROR,
        "generation_id": 17,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": members[0],
        "skip_assignment": False,
        "member_id": members[0],
        "members": [{"member_id": one, "group_instance_id": None, "metadata": subscription} for one in members],
    }


def _text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def offset_fetch(random: Random) -> dict[str, Any]:
    """One group's offsets of 20 topics with 25 partitions."""
    topics = [
        {
            "name": topic(number),
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": random.randrange(10**9),
                    "committed_leader_epoch": 12,
                    "metadata": "",
                    "error_code": NO_ERROR,
                }
                for index in range(25)
            ],
        }
        for number in range(20)
    ]
    groups = [{"group_id": "billing", "topics": topics, "error_code": NO_ERROR}]
    # versions before 8 tell of one group, without its name
    return {"throttle_time_ms": 0, "groups": groups, "topics": topics, "error_code": NO_ERROR}


def offset_commit(random: Random) -> dict[str, Any]:
    """A consumer's commit of 8 topics with 12 partitions."""
    topics = [
        {
            "name": topic(number),
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": random.randrange(10**9),
                    "committed_leader_epoch": 12,
                    "committed_metadata": "",
                }
                for index in range(12)
            ],
        }
        for number in range(8)
    ]
    return {
        "group_id": "billing",
        "generation_id_or_member_epoch": 17,
        "member_id": member_id(random, 1),
        "group_instance_id": None,
        "topics": topics,
    }


def list_offsets(random: Random) -> dict[str, Any]:
    """The ends of 12 topics with 25 partitions."""
    return {
        "throttle_time_ms": 0,
        "topics": [
            {
                "name": topic(number),
                "partitions": [
                    {
                        "partition_index": index,
                        "error_code": NO_ERROR,
                        "timestamp": -1,
                        "offset": random.randrange(10**9),
                        "leader_epoch": 12,
                    }
                    for index in range(25)
                ],
            }
            for number in range(12)
        ],
    }


def describe_configs(random: Random) -> dict[str, Any]:
    """Four topics, 32 settings each, each with two synonyms and no documentation."""
    return {
        "throttle_time_ms": 0,
        "results": [
            {
                "error_code": NO_ERROR,
                "error_message": "",
                "resource_type": 2,
                "resource_name": topic(number),
                "configs": [config(random, index) for index in range(32)],
            }
            for number in range(4)
        ],
    }


def config(random: Random, index: int) -> dict[str, Any]:
    name, value = f"segment.setting.{index:02d}.ms", str(random.randrange(10**9))
    synonyms = [{"name": f"log.{name}", "value": value, "source": source} for source in (4, 5)]
    return {
        "name": name,
        "value": value,
        "read_only": False,
        "config_source": 5,
        "is_sensitive": False,
        "synonyms": synonyms,
        "config_type": 5,
        "documentation": None,
    }


def api_versions(random: Random) -> dict[str, Any]:
    """A broker of 4.x: 60 apis, three finalized features."""
    features = ("group.version", "metadata.version", "transaction.version")
    return {
        "error_code": NO_ERROR,
        "api_keys": [{"api_key": key, "min_version": 0, "max_version": random.randrange(1, 18)} for key in range(60)],
        "throttle_time_ms": 0,
        "supported_features": [{"name": name, "min_version": 0, "max_version": 2} for name in features],
        "finalized_features_epoch": 88,
        "finalized_features": [{"name": name, "max_version_level": 1, "min_version_level": 1} for name in features],
    }


def heartbeat(random: Random) -> dict[str, Any]:
    """The smallest of common requests."""
    return {
        "group_id": "billing",
        "generation_id": 17,
        "member_id": member_id(random, 1),
        "group_instance_id": None,
    }


def create_topics(random: Random) -> dict[str, Any]:
    """30 topics, four of them with replicas assigned by hand, all with two settings."""
    return {
        "topics": [
            {
                "name": topic(number),
                "num_partitions": -1 if number < 4 else 25,
                "replication_factor": -1 if number < 4 else 3,
                "assignments": [
                    {"partition_index": index, "broker_ids": random.sample(NODES, 3)}
                    for index in range(6 if number < 4 else 0)
                ],
                "configs": [
                    {"name": "retention.ms", "value": "604800000"},
                    {"name": "cleanup.policy", "value": "delete"},
                ],
            }
            for number in range(30)
        ],
        "timeout_ms": 60_000,
        "validate_only": False,
    }


def fetch(random: Random) -> dict[str, Any]:
    """The first request of a consumer's fetch session: 4 topics with 25 partitions."""
    partitions = [
        {
            "partition": index,
            "current_leader_epoch": 12,
            "fetch_offset": random.randrange(10**9),
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        for index in range(25)
    ]
    names = [{"topic": topic(number), "topic_id": random.randbytes(16)} for number in range(4)]
    return {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": 0,
        "topics": [name | {"partitions": partitions} for name in names],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def produced(random: Random) -> dict[str, Any]:
    """The answer to `produce`."""
    return {
        "responses": [
            {
                "name": topic(number),
                "partition_responses": [
                    {
                        "index": index,
                        "error_code": NO_ERROR,
                        "base_offset": random.randrange(10**9),
                        "log_append_time_ms": -1,
                        "log_start_offset": 0,
                        "record_errors": [],
                        "error_message": None,
                    }
                    for index in range(6)
                ],
            }
            for number in range(4)
        ],
        "throttle_time_ms": 0,
    }


def metadata_request(random: Random) -> dict[str, Any]:
    """A producer's, for 4 topics."""
    return {
        "topics": [{"topic_id": bytes(16), "name": topic(number)} for number in range(4)],
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
    }


def coordinator(random: Random) -> dict[str, Any]:
    """Where one group is kept."""
    found = {"key": "billing", **broker(random.choice(NODES)), "error_code": NO_ERROR, "error_message": ""}
    del found["rack"]
    # versions before 4 tell of one group, without its name
    return {"throttle_time_ms": 0, "coordinators": [found], **found}


def sync_group(random: Random) -> dict[str, Any]:
    """The leader's of `join_group`: 60 members with a partition of three topics each."""
    assignment = b"\0\0" + b"\0\0\0\3" + b"".join(_text(topic(number)) + b"\0\0\0\1\0\0\0\7" for number in range(3))
    members = [member_id(random, number) for number in range(60)]
    return {
        "group_id": "billing",
        "generation_id": 17,
        "member_id": members[0],
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": one, "assignment": assignment + b"\xff\xff\xff\xff"} for one in members],
    }


def committed(random: Random) -> dict[str, Any]:
    """The answer to `offset_commit`."""
    partitions = [{"partition_index": index, "error_code": NO_ERROR} for index in range(12)]
    return {"throttle_time_ms": 0, "topics": [{"name": topic(number), "partitions": partitions} for number in range(8)]}


def alive(random: Random) -> dict[str, Any]:
    """The answer to `heartbeat`: the smallest of all."""
    return {"throttle_time_ms": 0, "error_code": NO_ERROR}


def list_offsets_request(random: Random) -> dict[str, Any]:
    """Asks for the ends of `list_offsets`."""
    partitions = [{"partition_index": index, "current_leader_epoch": 12, "timestamp": -1} for index in range(25)]
    topics = [{"name": topic(number), "partitions": partitions} for number in range(12)]
    return {"replica_id": -1, "isolation_level": 0, "topics": topics}


_TWENTY: tuple[tuple[str, MessageKind, int, int, Callable[[Random], dict[str, Any]]], ...] = (
    ("Metadata response", "response", 3, 12, metadata),
    ("Fetch response, 100 partitions", "response", 1, 16, big_fetch),
    ("Fetch response, 1000 partitions", "response", 1, 16, small_fetch),
    ("Produce request", "request", 0, 9, produce),
    ("JoinGroup response", "response", 11, 9, join_group),
    ("OffsetFetch response", "response", 9, 8, offset_fetch),
    ("OffsetCommit request", "request", 8, 8, offset_commit),
    ("ListOffsets response", "response", 2, 7, list_offsets),
    ("DescribeConfigs response", "response", 32, 4, describe_configs),
    ("ApiVersions response", "response", 18, 3, api_versions),
    ("Heartbeat request", "request", 12, 4, heartbeat),
    ("CreateTopics request", "request", 19, 7, create_topics),
    ("Fetch request", "request", 1, 16, fetch),
    ("Produce response", "response", 0, 9, produced),
    ("Metadata request", "request", 3, 12, metadata_request),
    ("FindCoordinator response", "response", 10, 4, coordinator),
    ("SyncGroup request", "request", 14, 5, sync_group),
    ("OffsetCommit response", "response", 8, 8, committed),
    ("Heartbeat response", "response", 12, 4, alive),
    ("ListOffsets request", "request", 2, 7, list_offsets_request),
)
