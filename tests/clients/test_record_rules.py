"""Tests of rules for records with real clients and real Kafka: what producers wrote is in no file of the capture.

The whole client matrix with each rule takes 84 cases:

    make test-long ARGS="tests/clients/test_record_rules.py -k matrix"
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.wire import catalog, records
from recorder.capture import frames as c
from recorder.capture import reader
from recorder.capture.fact_maker import fact_rows
from tests.brokers.kafka import KafkaCluster
from tests.clients.checks import PLACE_OF_A_FRAME, Row, arrived, fact_tables
from tests.clients.harness import Proxied, compact, proxied
from tests.clients.test_secrets import columns, spooled
from tests.clients.workloads import asyncio_client, confluent, exactly_once, java, kcat, programs, python
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real
# a value of the workloads is a text that is repeated ten times
VALUE = re.compile(rb"([a-z0-9]+ [a-z0-9-]+ [0-9]+ )\1\1")
Work = Callable[[str], None]
WORKS = mostly_long(
    [
        confluent.produces_and_consumes,
        confluent.keeps_its_transactions,
        asyncio_client.produces_and_consumes,
        asyncio_client.keeps_its_transactions,
        python.produces_and_consumes,
    ],
    usual=1,
)


def recorded(cluster: KafkaCluster, folder: Path, work: Work, *options: str) -> tuple[Path, bytes]:
    """Returns the capture, and the log as it was before the proxy ended."""
    with Proxied(cluster, folder, options=options) as proxy:
        work(proxy.bootstrap)
        log = spooled(proxy.capture)
        assert proxy.stop() == 0, proxy.log[-3000:]
    compact(proxy.capture)
    return proxy.capture, log


def batches(capture: Path) -> list[dict[str, object]]:
    found = (one for file in reader.files(capture) for one in fact_rows(file))
    return [row for decoder, batch in found if decoder.name == "batches" for row in batch.to_pylist()]


@pytest.mark.parametrize("work", WORKS)
def test_what_real_producers_write_is_in_no_file(cluster: KafkaCluster, tmp_path: Path, work: Work) -> None:
    capture, log = recorded(cluster, tmp_path, work, "--records", "drop")
    assert not VALUE.search(log)
    assert not VALUE.search(columns(capture))
    found = batches(capture)
    assert found
    assert {row["unread"] for row in found} == {None}
    assert {row["is_intact"] for row in found if not row["is_control"]} == {None}
    assert sum(row["records"] for row in found if isinstance(row["records"], int)) >= 20


def test_without_a_rule_it_is(cluster: KafkaCluster, tmp_path: Path) -> None:
    capture, log = recorded(cluster, tmp_path, confluent.produces_and_consumes, "--topic-records", "other-*=drop")
    assert VALUE.search(log)
    assert VALUE.search(columns(capture))
    dropped = [row for file in reader.files(capture) for table in reader.row_groups(file) for row in table.to_pylist()]
    # ids were told before their first use
    assert [row[c.API] for row in dropped if row[c.RECORDS]] == []


KEY = bytes(range(32))
OPTIONS = {
    "drop": ("--records", "drop"),
    "hash": ("--records", "hash"),
    # of all topics of the workloads, and not of Kafka's own
    "topics": ("--topic-records", "*-*=drop"),
}
# what the rules hide of facts: a checksum that can't be checked, or is that of the hashes; samples of record data
HIDDEN = {"drop": {"is_intact"}, "hash": {"crc"}, "topics": {"is_intact"}}
SAMPLES = {"sampled_bytes", "folded_bytes"}
OfCluster = Callable[[KafkaCluster, str], None]
MATRIX: dict[str, Work] = {
    "confluent, codecs": confluent.produces_and_consumes,
    "confluent, consumer group": lambda bootstrap: confluent.rebalances_a_group(bootstrap, "consumer"),
    "confluent, classic group": lambda bootstrap: confluent.rebalances_a_group(bootstrap, "classic"),
    "confluent, transactions": confluent.keeps_its_transactions,
    "confluent, admin": confluent.administers,
    "confluent, 20 MB": confluent.moves_a_large_record,
    "confluent, 200 topics": confluent.uses_many_topics,
    "confluent, exactly once": exactly_once.confluent_copies,
    "aiokafka, codecs": asyncio_client.produces_and_consumes,
    "aiokafka, group": asyncio_client.rebalances_a_group,
    "aiokafka, transactions": asyncio_client.keeps_its_transactions,
    "aiokafka, admin": asyncio_client.administers,
    "aiokafka, 20 MB": asyncio_client.moves_a_large_record,
    "kafka-python, codecs": python.produces_and_consumes,
    "kafka-python, group": python.rebalances_a_group,
    "kafka-python, transactions": python.keeps_its_transactions,
    "kafka-python, admin": python.administers,
    "kafka-python, 20 MB": python.moves_a_large_record,
    "kcat, codecs": kcat.produces_and_consumes,
}
OF_CLUSTER: dict[str, OfCluster] = {
    "java, codecs": java.produces_and_consumes,
    "java, consumer group": lambda cluster, bootstrap: java.rebalances_a_group(cluster, bootstrap, "consumer"),
    "java, classic group": lambda cluster, bootstrap: java.rebalances_a_group(cluster, bootstrap, "classic"),
    "java, transactions": java.keeps_its_transactions,
    "java, admin": java.administers,
    "java, share group": java.shares_a_group,
    "java, 20 MB": java.moves_a_large_record,
    "java, exactly once": exactly_once.java_copies,
    "java, programs": programs.verify,
}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", OPTIONS)
@pytest.mark.parametrize("work", [*MATRIX, *OF_CLUSTER])
def test_the_matrix_passes_with_each_rule_and_facts_stay(
    kafka_three: KafkaCluster, tmp_path: Path, rule: str, work: str
) -> None:
    """`harness.proxied` checks what clients got, and the rows. Facts are held against those of frames as they came."""
    key = tmp_path / "hash.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    options = [*OPTIONS[rule], *(["--hash-key", str(key)] if rule == "hash" else [])]
    with proxied(kafka_three, tmp_path, options=options) as proxy:
        if work in OF_CLUSTER:
            OF_CLUSTER[work](kafka_three, proxy.bootstrap)
        else:
            MATRIX[work](proxy.bootstrap)
    came = [*arrived(proxy.capture, proxy.conversations()[1])]
    produced = [row[c.RECORDS] for row, _ in came if (row[c.API], row[c.KIND]) == ("Produce", c.REQUEST)]
    assert {*produced} <= {c.HASH if rule == "hash" else c.DROP}
    # these may produce nothing
    assert produced or "admin" in work or "group" in work
    for row, frame in came:
        for batch, data in batches_in(row, frame):
            assert_hidden(row, batch, data)
    kept = as_kept(proxy.capture, came, tmp_path / "kept")
    found, wanted = fact_tables(proxy.capture), fact_tables(kept)
    assert found.keys() == wanted.keys()
    for name, table in wanted.items():
        seen = [column for column in table.column_names if column not in HIDDEN[rule] | SAMPLES]
        told, came_with = (facts.select(seen).sort_by(PLACE_OF_A_FRAME) for facts in (found[name], table))
        assert told.equals(came_with), name


def batches_in(row: Row, frame: bytes) -> Iterator[tuple[records.Batch, bytes]]:
    """The batches of records in a frame with a rule, each with the bytes that it stands in."""
    if row[c.API] not in ("Produce", "Fetch", "ShareFetch") or not row[c.RECORDS]:
        return
    asked = row[c.KIND] == c.REQUEST
    found = (
        catalog.decode_request(frame) if asked else catalog.decode_response(frame, row[c.API_KEY], row[c.API_VERSION])
    )
    assert isinstance(found, tuple)
    for data in record_data(found[1]):
        yield from ((batch, data) for batch in records.batches(data))


def record_data(value: Any) -> Iterator[bytes]:
    """All that fields called `records` hold, however deep."""
    if isinstance(value, dict):
        if isinstance(data := value.get("records"), bytes | bytearray | memoryview):
            yield bytes(data)
        for inner in value.values():
            yield from record_data(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from record_data(inner)


def assert_hidden(row: Row, batch: records.Batch, data: bytes) -> None:
    """Asserts that nothing of a batch stands in the row, or the hashes of its values in their place."""
    if batch.control:
        return
    body = data[batch.start + 61 : batch.end]
    assert body not in row[c.FRAME]
    if row[c.RECORDS] == c.HASH:
        for record in records.read(data[batch.start : batch.end]):
            assert record.value is None or hmac.digest(KEY, record.value, hashlib.sha256)[:16] in row[c.FRAME]


def as_kept(capture: Path, came: list[tuple[Row, bytes]], into: Path) -> Path:
    """The capture as it would be without a rule: each row has its frame as it came, but for masked spans."""
    frames = {(row[c.SESSION], row[c.CONNECTION], row[c.SEQUENCE]): frame for row, frame in came if row[c.RECORDS]}
    for file in (capture / c.FRAMES_FOLDER).rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        rows = table.to_pylist()
        for row in rows:
            frame = frames.get((row[c.SESSION], row[c.CONNECTION], row[c.SEQUENCE]))
            if frame is not None:
                row |= {c.FRAME: frame, c.DROPPED: None, c.RECORDS: None, c.BATCHES: None}
        target = into / file.relative_to(capture)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), target)
    return into
