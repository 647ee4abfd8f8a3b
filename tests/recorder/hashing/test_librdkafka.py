"""Tests against librdkafka (2.16): its consumer reads hashed records of every format, with verified checksums."""

from itertools import product

import pytest

from proxy.wire.records import Compression, Record, with_base_offset, write_batch, write_message_set
from recorder.hashing.batches import FrameBudget, rewritten
from recorder.hashing.hasher import Hasher
from tests.proxy.wire.records.one_broker import TOPIC, one_broker
from tests.proxy.wire.records.samples import BATCH_CODECS, MESSAGE_CODECS, plain_records
from tests.proxy.wire.records.test_librdkafka import consume, told

HASHER = Hasher(b"a key of thirty-two bytes or more")
RECORDS = plain_records(40)


def hashed(record: Record) -> tuple[object, ...]:
    headers = tuple((name, HASHER.hashed(value)) for name, value in record.headers)
    return record.offset, record.timestamp, HASHER.hashed(record.key), HASHER.hashed(record.value), headers


@pytest.mark.parametrize("codec", BATCH_CODECS)
def test_librdkafka_reads_hashed_batches(codec: Compression) -> None:
    data = rewritten(write_batch(RECORDS, codec=codec), HASHER, FrameBudget()).data
    with one_broker(2, with_base_offset(data, 0)) as broker:
        found = consume(f"127.0.0.1:{broker.port}", TOPIC, len(RECORDS))
    assert [told(message) for message in found] == [*map(hashed, RECORDS)]


@pytest.mark.parametrize(("magic", "codec"), [*product([0, 1], MESSAGE_CODECS)])
def test_librdkafka_reads_hashed_message_sets(magic: int, codec: Compression) -> None:
    bare = [record._replace(headers=()) for record in RECORDS]
    data = rewritten(write_message_set(bare, magic=magic, codec=codec), HASHER, FrameBudget()).data
    with one_broker(magic, data) as broker:
        found = consume(f"127.0.0.1:{broker.port}", TOPIC, len(bare))
    expected = [hashed(record) for record in bare]
    assert [(one.offset(), one.key(), one.value()) for one in found] == [(one[0], *one[2:4]) for one in expected]
