"""Minimal requests and responses of each kind that the engine treats specially."""

from __future__ import annotations

from typing import Any

from proxy.wire.keys import FETCH, LIST_OFFSETS, PRODUCE
from proxy.wire.records import Record, write_batch
from tests.recorder.replay.simulation import Got

Values = dict[str, Any]
# versions that name topics and that brokers of every release have
PRODUCE_VERSION, FETCH_VERSION, LIST_VERSION = 9, 11, 5


def batch(*values: bytes, **other: Any) -> bytes:
    """Records of these values. `other`: further fields of the batch, such as its producer."""
    return write_batch([Record(number, 5, None, value) for number, value in enumerate(values)], **other)


def produce(index: int = 0, data: bytes | None = None, *, topic: str = "a", acks: int = -1) -> Values:
    partition = {"index": index, "records": batch(b"v") if data is None else data}
    topics = [{"name": topic, "partition_data": [partition]}]
    return {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": topics}


def produced(index: int = 0, base: int = 0, code: int = 0, *, topic: str = "a") -> Values:
    partition = {"index": index, "error_code": code, "base_offset": base}
    return {"responses": [{"name": topic, "partition_responses": [partition]}]}


def listed(index: int = 0) -> Values:
    """A ListOffsets: it reads one partition, and nothing else waits for it."""
    partition = {"partition_index": index, "timestamp": -1, "current_leader_epoch": -1}
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "a", "partitions": [partition]}]}


def list_answer(index: int = 0, offset: int = 7, code: int = 0, *, topic: str = "a") -> Values:
    partition = {"partition_index": index, "error_code": code, "timestamp": -1, "offset": offset}
    return {"topics": [{"name": topic, "partitions": [partition]}]}


def fetch(index: int = 0, offset: int = 0, *, wait_ms: int = 500) -> Values:
    partition = {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "a", "partitions": [partition]}]
    return {"replica_id": -1, "max_wait_ms": wait_ms, "min_bytes": 1, "session_epoch": -1, "topics": topics}


def fetched(index: int = 0, data: bytes = b"", code: int = 0) -> Values:
    partition = {"partition_index": index, "error_code": code, "high_watermark": 9, "records": data}
    return {"responses": [{"topic": "a", "partitions": [partition]}]}


def metadata(leader: int) -> dict[str, object]:
    """A Metadata response: this node leads all partitions."""
    brokers = [{"node_id": node, "host": f"n{node}", "port": 9092, "rack": None} for node in (1, 2)]
    partitions = [
        {"error_code": 0, "partition_index": index, "leader_id": leader, "replica_nodes": [1], "isr_nodes": [1]}
        for index in range(4)
    ]
    topic = {"error_code": 0, "name": "a", "topic_id": bytes(16), "partitions": partitions}
    return {"brokers": brokers, "cluster_id": "target", "controller_id": 1, "topics": [topic]}


def answered(got: Got) -> Values | None:
    """Returns a working broker's response to any of these."""
    if got.key == PRODUCE:
        (topic,) = got.values["topic_data"]
        if not got.values["acks"]:
            return None
        return produced(topic["partition_data"][0]["index"], topic=topic["name"])
    if got.key == LIST_OFFSETS:
        parts = [part["partition_index"] for topic in got.values["topics"] for part in topic["partitions"]]
        (index,) = parts
        return list_answer(index)
    if got.key == FETCH:
        return fetched(got.values["topics"][0]["partitions"][0]["partition"]) if got.values["topics"] else fetched()
    return {}
