"""Exchanges of producers for tests: batches, their requests and responses, and recorded ones of a-0."""

from __future__ import annotations

from collections import defaultdict

from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.records import Compression, Record, write_batch
from recorder.replay.plan import Exchange, Values
from tests.recorder.replay.simulated import Place, exchange

V1 = {
    PRODUCE: 11,
    END_TXN: 4,
    TXN_OFFSET_COMMIT: 4,
    ADD_PARTITIONS_TO_TXN: 3,
    ADD_OFFSETS_TO_TXN: 3,
    INIT_PRODUCER_ID: 5,
}
V2 = V1 | {PRODUCE: 12, END_TXN: 5, TXN_OFFSET_COMMIT: 5}


def produce_answer(code: int, *places: Place) -> Values:
    """Returns a response to Produce with one error for all partitions."""
    topics = [
        {"name": topic, "partition_responses": [{"index": index, "error_code": code, "base_offset": -1}]}
        for topic, index in places
    ]
    return {"throttle_time_ms": 0, "responses": topics}


def batch(
    *values: bytes,
    pair: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    at: int = 5,
    codec: Compression = Compression.NONE,
) -> bytes:
    """Returns batches of one producer."""
    made = [Record(number, at, None, value) for number, value in enumerate(values)]
    producer_id, producer_epoch = pair
    return write_batch(
        made,
        transactional=transactional,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
    )


def produce(*entries: tuple[str, int, bytes], transactional_id: str | None = None, acks: int = -1) -> Values:
    """Returns a Produce request."""
    topics: dict[str, list[Values]] = defaultdict(list)
    for topic, index, data in entries:
        topics[topic].append({"index": index, "records": data})
    named = [{"name": topic, "partition_data": found} for topic, found in topics.items()]
    return {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 1, "topic_data": named}


A0 = ("a", 0)
PAIR = (500, 3)


def recorded_produce(number: int, data: bytes, code: int = 0, name: str | None = None, version: int = 9) -> Exchange:
    """A recorded Produce to the partition a-0, with an error in the response."""
    return exchange(number, PRODUCE, version, produce((*A0, data), transactional_id=name), produce_answer(code, A0))


def recorded_init(number: int, pair: tuple[int, int], name: str | None = None) -> Exchange:
    values = {"transactional_id": name, "transaction_timeout_ms": 1000}
    answer = {"throttle_time_ms": 0, "error_code": 0, "producer_id": pair[0], "producer_epoch": pair[1]}
    return exchange(number, INIT_PRODUCER_ID, 4, values, answer)


def recorded_end(number: int, pair: tuple[int, int], name: str, given: tuple[int, int] | None = None) -> Exchange:
    """A recorded EndTxn that commits. `given`: the next id and epoch, with transactions v2."""
    values = {"transactional_id": name, "producer_id": pair[0], "producer_epoch": pair[1], "committed": True}
    answer: Values = {"throttle_time_ms": 0, "error_code": 0}
    if given:
        answer |= {"producer_id": given[0], "producer_epoch": given[1]}
    return exchange(number, END_TXN, 5 if given else 4, values, answer)


def joined(number: int, pair: tuple[int, int], name: str = "t") -> Exchange:
    """A recorded AddPartitionsToTxn of a-0."""
    values = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": pair[0],
        "v3_and_below_producer_epoch": pair[1],
        "v3_and_below_topics": [{"name": "a", "partitions": [0]}],
    }
    told = [{"name": "a", "results_by_partition": [{"partition_index": 0, "partition_error_code": 0}]}]
    return exchange(
        number, ADD_PARTITIONS_TO_TXN, 3, values, {"throttle_time_ms": 0, "results_by_topic_v3_and_below": told}
    )
