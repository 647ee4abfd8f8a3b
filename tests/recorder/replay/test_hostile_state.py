"""Tests of hostile captures and targets: translators of state raise only WireErrors, and their work is bounded."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy import wire
from proxy.wire import WireError
from proxy.wire.compile.layout import layout
from proxy.wire.keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_RECORDS,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
    TXN_OFFSET_COMMIT,
)
from proxy.wire.records import Record, write_batch
from recorder.replay.cluster import Cluster
from recorder.replay.comparison.assigned import Assignments
from recorder.replay.consumers.offsets import Offsets
from recorder.replay.consumers.records import Streams
from recorder.replay.consumers.shared_records import SharedRecords
from recorder.replay.mapping import Pairs
from recorder.replay.options import Options
from recorder.replay.plan import AskFirst, Exchange, Origin
from recorder.replay.producers.producers import Producers
from recorder.replay.sessions.fetch_sessions import FetchSessions
from recorder.replay.sessions.share_sessions import ShareSessions
from recorder.replay.sessions.share_starts import ShareStarts
from tests.recorder.replay.simulated import PEER, TARGET_IDS, TOPIC_IDS, names
from tests.strategies import Values, must_codec
from tests.sweeps import examples
from tests.tables import each_row

APIS = {
    PRODUCE: range(3, 14),
    FETCH: range(4, 19),
    LIST_OFFSETS: range(1, 12),
    OFFSET_COMMIT: range(2, 11),
    DELETE_RECORDS: range(3),
    INIT_PRODUCER_ID: range(7),
    ADD_PARTITIONS_TO_TXN: range(4),
    ADD_OFFSETS_TO_TXN: range(5),
    CONSUMER_GROUP_HEARTBEAT: range(2),
    SHARE_GROUP_HEARTBEAT: range(1, 2),
    STREAMS_GROUP_HEARTBEAT: range(1),
    END_TXN: range(6),
    TXN_OFFSET_COMMIT: range(7),
    SHARE_FETCH: range(3),
    SHARE_ACKNOWLEDGE: range(3),
}


def batches(random: Random) -> bytes:
    """Batches of a producer with arbitrary numbers, or arbitrary bytes."""
    if random.random() < 0.2:
        return random.choice([b"", b"\0" * 70, random.randbytes(61)])
    edges = [0, 1, -1, 2**31 - 1]
    made = [Record(number, 5, None, b"v") for number in range(random.randint(0, 3))]
    ends: dict[str, Any] = (
        {"base_offset": 2**62, "last_offset": 2**62 + random.choice([0, 2**31 - 1])} if not made else {}
    )
    data = write_batch(
        made,
        producer_id=random.choice([-1, 0, 7, 2**63 - 1]),
        producer_epoch=random.choice([-1, 0, 2**15 - 1]),
        base_sequence=random.choice(edges),
        **ends,
    )
    return data * random.choice([1, 1, 1, 2]) + random.choice([b"", b"", b"cut"])


def plausible(found: Any, random: Random) -> Any:
    """Values with known topics, and with records."""
    if isinstance(found, list):
        return [plausible(each, random) for each in found]
    if isinstance(found, bytes) and len(found) == 16:
        return random.choice([*TOPIC_IDS.values(), *TARGET_IDS.values(), found])
    if not isinstance(found, dict):
        return found
    return {
        key: batches(random) if key == "records" and value is not None else plausible(value, random)
        for key, value in found.items()
    }


def message(values: Values, kind: Any, api_key: int, version: int) -> Any:
    codec = must_codec(kind, api_key, version)
    return plausible(values.struct(layout(codec.message, codec.version)), values.random)


def played(rooms: list[Any], sessions: list[Any], each: Exchange, answer: Any, has_answer: bool) -> None:
    """Plays one exchange as the engine does."""
    values = each.decoded()
    for room in rooms:
        refused = room.request(each, values, 0)
        if refused is not None:
            for made in refused.made if isinstance(refused, AskFirst) else ():
                made.done(None)
            for other in rooms:
                other.lost(each, None)
            return
    for room in sessions:
        values = room.for_node(each, 1, values)
    for room in rooms:
        room.sent(each, values, 0)
    for room in sessions:
        answer = room.answered_by(each, 1, values, answer)
    for room in rooms:
        if has_answer:
            room.answered(each, values, answer, 0)
        room.lost(each, values)


@each_row("api_key", APIS)
@examples(30)
@given(seed=st.integers(0, 2**32))
def test_no_request_and_no_answer_raises_more_than_a_wire_error(api_key: int, seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(features={"transaction.version": random.randrange(3)})
    told = names("p-", cluster)
    fetches, shares = (
        FetchSessions(lambda key, version: version),
        ShareSessions(told, lambda topic, partition, offset: offset),
    )
    producers = Producers(told, cluster, Pairs(), Options(), lambda key, version: version)
    sharing = [
        SharedRecords(told, Streams()),
        Assignments(told),
        ShareStarts(told, {}, {}, lambda *_: 0, lambda *_: True),
    ]
    rooms = [producers, fetches, shares, *sharing, Offsets(told, {}, {}, {}, random.choice([0, 2**62]))]
    values = Values(random)
    for number in range(4):
        version = random.choice(APIS[api_key])
        request = message(values, "request", api_key, version)
        frame = wire.encode_request(api_key, version, correlation_id=1, client_id="x", values=request)
        each = Exchange(Origin("s", 1, number), api_key, version, frame, 1, 1, PEER)
        recorded = message(values, "response", api_key, version)
        if random.random() < 0.8:
            each.answer_frame = wire.encode_response(api_key, version, correlation_id=1, values=recorded)
            each.answered_ns = 2
        answer = message(values, "response", api_key, version)
        try:
            played(rooms, [fetches, shares], each, answer, random.random() < 0.8)
        except WireError:
            for room in rooms:
                room.lost(each, None)
    assert not fetches._flights
    assert not shares._flights
    assert not producers._produces._flights
    producers.finish()
