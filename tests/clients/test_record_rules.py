"""Tests of rules for records with real clients and real Kafka: what producers wrote is in no file of the capture."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.capture import frames as c
from recorder.capture import reader
from recorder.capture.fact_maker import fact_rows
from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import Proxied, compact
from tests.clients.test_secrets import columns, spooled
from tests.clients.workloads import asyncio_client, confluent, python
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
