"""Traffic with records of topics that have rules: what must not be kept of it, and what must."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proxy.wire import catalog, kafka07, keys, records
from proxy.wire.apis import versions
from proxy.wire.dialects import Dialect
from recorder.capture.record_rules import RecordRule
from tests.recorder.capture.traffic import Call, Talk, cut, framed

RULED, FREE, UNKNOWN = "payments-7", "orders", "nobody-told"
IDS = {RULED: bytes([7] * 16), FREE: bytes([9] * 16), UNKNOWN: bytes([5] * 16)}
RULES: dict[str, Any] = {"topic_records": {"payments-*": RecordRule.DROP}}
CODECS = [records.Compression.NONE, records.Compression.GZIP, records.Compression.ZSTD]


@dataclass
class Planted:
    """`hidden`: bytes that no disk may hold; `kept`: bytes of records without a rule, as they stand in frames."""

    rng: random.Random
    hidden: list[bytes] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)

    def text(self, topic: str) -> str:
        """A text that occurs nowhere else."""
        made = "".join(self.rng.choices("abcdefghijklmnopqrstuvwxyz", k=24))
        (self.kept if topic == FREE else self.hidden).append(made.encode())
        return made

    def batches(self, topic: str) -> bytes:
        """Some batches of a topic, or messages of an older format, compressed or not."""
        return b"".join(self._batch(topic) for _ in range(self.rng.randint(0, 3)))

    def _batch(self, topic: str) -> bytes:
        rng, magic = self.rng, self.rng.choice([0, 1, 2, 2, 2])
        found = [self._record(topic, at, magic) for at in range(rng.randint(1, 4))]
        codec = rng.choice(CODECS[:2] if magic < 2 else CODECS)
        if magic < 2:
            data = records.write_message_set(found, magic=magic, codec=codec)
        else:
            data = records.write_batch(found, codec=codec)
        for batch in records.batches(data):
            # compressed texts stand in no frame, but the ends of what they are compressed to do
            (self.kept if topic == FREE else self.hidden).append(data[batch.end - 20 : batch.end])
        return data

    def _record(self, topic: str, at: int, magic: int) -> records.Record:
        key, value = self.text(topic).encode(), self.text(topic).encode()
        if magic < 2:
            return records.Record(at, timestamp=5 if magic else -1, key=key, value=value)
        return records.Record(at, timestamp=1000 + at, key=key, value=value, headers=((self.text(topic), b"h"),))


def told_topics(version: int, correlation_id: int) -> Call:
    """An answer to Metadata that tells two of the topics' ids."""
    topics = [{"name": name, "topic_id": IDS[name], "partitions": []} for name in (RULED, FREE)]
    return _call(keys.METADATA, version, correlation_id, {"topics": None}, {"topics": topics})


def _call(key: int, version: int, correlation_id: int, asked: Any, told: Any) -> Call:
    request = catalog.encode_request(key, version, correlation_id, "app", asked)
    answer = None if told is None else framed(catalog.encode_response(key, version, correlation_id, told))
    return Call(key, version, correlation_id, "app", framed(request), answer)


def produce(planted: Planted, version: int, correlation_id: int) -> Call:
    rng = planted.rng
    topics = [_produced(planted, name, version) for name in rng.sample([*IDS], rng.randint(1, 3))]
    acks = rng.choice([0, 1, -1])
    results = [
        {
            "name": topic["name"],
            "topic_id": topic["topic_id"],
            "partition_responses": [_refused(planted, topic["name"], version)],
        }
        for topic in topics
    ]
    asked = {"acks": acks, "timeout_ms": 1, "topic_data": topics}
    return _call(keys.PRODUCE, version, correlation_id, asked, {"responses": results} if acks else None)


def produced(name: str, version: int, correlation_id: int, batch: bytes, *, acks: int) -> Call:
    """A Produce of one batch that names its topic."""
    topics = [{"name": name, "partition_data": [{"index": 0, "records": batch}]}]
    asked = {"acks": acks, "timeout_ms": 1, "topic_data": topics}
    return _call(keys.PRODUCE, version, correlation_id, asked, {"responses": []} if acks else None)


def produced_by_id(name: str, correlation_id: int, value: bytes) -> Call:
    """A Produce that names its topic by the id alone."""
    batches = records.write_batch([records.Record(0, value=value)])
    topics = [{"topic_id": IDS[name], "partition_data": [{"index": 0, "records": batches}]}]
    return _call(keys.PRODUCE, 13, correlation_id, {"acks": 0, "timeout_ms": 1, "topic_data": topics}, None)


def _name(planted: Planted, name: str, version: int, ids_from: int) -> str:
    """The topic's rule: a topic that nobody has told is known by its name where the version has names."""
    return FREE if name == UNKNOWN and version < ids_from else name


def _produced(planted: Planted, name: str, version: int) -> dict[str, Any]:
    of_rule = _name(planted, name, version, 13)
    partitions = [{"index": at, "records": planted.batches(of_rule)} for at in range(planted.rng.randint(1, 3))]
    partitions.append({"index": 9, "records": None})
    return {"name": name, "topic_id": IDS[name], "partition_data": partitions}


def _refused(planted: Planted, name: str, version: int) -> dict[str, Any]:
    if version < 8:
        return {"index": 0, "error_code": 0, "base_offset": 5}
    of_rule = _name(planted, name, version, 13)
    errors = [{"batch_index": 0, "batch_index_error_message": planted.text(of_rule)}]
    return {
        "index": 0,
        "error_code": 87,
        "base_offset": -1,
        "record_errors": errors,
        "error_message": planted.text(of_rule),
    }


def fetch(planted: Planted, version: int, correlation_id: int) -> Call:
    rng = planted.rng
    names = rng.sample([*IDS], rng.randint(1, 3))
    topics = [
        {"topic": name, "topic_id": IDS[name], "partitions": [{"partition": 0, "fetch_offset": 0}]} for name in names
    ]
    told = [
        {"topic": name, "topic_id": IDS[name], "partitions": _fetched(planted, _name(planted, name, version, 13))}
        for name in names
    ]
    return _call(keys.FETCH, version, correlation_id, {"topics": topics, "max_wait_ms": 1}, {"responses": told})


def share_fetch(planted: Planted, version: int, correlation_id: int) -> Call:
    names = planted.rng.sample([*IDS], planted.rng.randint(1, 3))
    told = [{"topic_id": IDS[name], "partitions": _fetched(planted, name)} for name in names]
    asked = {"group_id": "g", "member_id": "m", "topics": []}
    return _call(keys.SHARE_FETCH, version, correlation_id, asked, {"responses": told})


def _fetched(planted: Planted, name: str) -> list[dict[str, Any]]:
    rng = planted.rng
    found = []
    for at in range(rng.randint(1, 2)):
        data = planted.batches(name)
        if data and rng.random() < 0.3 and name != FREE:
            # a broker cuts the last batch off
            data = data[: -rng.randint(1, len(data) - 1)]
        found.append({"partition_index": at, "error_code": 0, "records": data})
    return found


def telemetry(planted: Planted, version: int, correlation_id: int) -> Call:
    asked = {"client_instance_id": bytes(range(16)), "metrics": planted.text(UNKNOWN).encode(), "subscription_id": 3}
    return _call(keys.PUSH_TELEMETRY, version, correlation_id, asked, {"error_code": 0})


KINDS: dict[int, Callable[[Planted, int, int], Call]] = {
    keys.PRODUCE: produce,
    keys.FETCH: fetch,
    keys.SHARE_FETCH: share_fetch,
    keys.PUSH_TELEMETRY: telemetry,
}


def ruled_talk(planted: Planted, connection: int, largest: int) -> Talk:
    """A connection that speaks every version of every API with records."""
    calls = [told_topics(12, 0)]
    for key, make in KINDS.items():
        calls += [make(planted, version, len(calls) + at) for at, version in enumerate(versions(key))]
    head = calls[1:]
    planted.rng.shuffle(head)
    return cut(planted.rng, Talk(connection, [calls[0], *head]), largest)


def old_talk(planted: Planted, connection: int, largest: int) -> Talk:
    """A connection of 0.7 with messages of both topics."""
    calls: list[Call] = []
    for _ in range(6):
        calls += [_old_produce(planted), _old_fetch(planted), _old_multi(planted)]
    return cut(planted.rng, Talk(connection, calls, node=None, dialect=Dialect.KAFKA_07), largest)


def _old_messages(planted: Planted, name: str) -> bytes:
    payloads = [planted.text(name).encode() for _ in range(planted.rng.randint(0, 3))]
    return kafka07.messages.message_set(payloads, magic=planted.rng.choice([0, 1]))


def _old_call(request: Any, answer: Any) -> Call:
    told = None if answer is None else framed(kafka07.encode_response(answer))
    return Call(int(request.type), None, None, None, framed(kafka07.encode_request(request)), told)


def _old_produce(planted: Planted) -> Call:
    name = planted.rng.choice([RULED, FREE])
    one = kafka07.Produce(name, 0, _old_messages(planted, name))
    if planted.rng.random() < 0.5:
        return _old_call(one, None)
    other = kafka07.Produce(RULED, 1, _old_messages(planted, RULED))
    return _old_call(kafka07.MultiProduce((one, other)), None)


def _old_fetch(planted: Planted) -> Call:
    name = planted.rng.choice([RULED, FREE])
    messages = _old_messages(planted, name)
    return _old_call(kafka07.Fetch(name, 0, 0, 1000), kafka07.FetchResponse(0, messages))


def _old_multi(planted: Planted) -> Call:
    names = [planted.rng.choice([RULED, FREE]) for _ in range(3)]
    parts = tuple(kafka07.FetchResponse(0, _old_messages(planted, name)) for name in names)
    fetches = tuple(kafka07.Fetch(name, 0, 0, 1000) for name in names)
    return _old_call(kafka07.MultiFetch(fetches), kafka07.MultiFetchResponse(0, parts))
