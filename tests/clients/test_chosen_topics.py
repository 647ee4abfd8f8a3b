"""`capture.only.topics` with real clients and real Kafka: all that is said about chosen topics, nothing of others."""

import json
import subprocess
from pathlib import Path

import pytest

from proxy.wire.keys import PRODUCE
from recorder.capture import frames as c
from recorder.capture import reader
from tests.brokers.kafka import KafkaCluster
from tests.clients.harness import PROGRAM, Proxied, compact
from tests.clients.test_secrets import columns, spooled
from tests.clients.workloads import confluent, values

pytestmark = [pytest.mark.real, pytest.mark.long]


def test_of_two_topics_in_one_proxy_one_is_recorded(
    kafka_one: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_WIRETAP_CAPTURE__ONLY__TOPICS", "chosen-*")
    with Proxied(kafka_one, tmp_path) as proxy:
        topics = {label: confluent.create_topic(proxy.bootstrap, label) for label in ("chosen", "other")}
        for label, topic in topics.items():
            sent = values(f"{label} records", 50)
            confluent.produce(proxy.bootstrap, topic, sent)
            assert {*confluent.consume(proxy.bootstrap, topic, 50)} == {*sent}
        log = spooled(proxy.capture)
        assert proxy.stop() == 0, proxy.log[-3000:]
        _, far = proxy.conversations()
    compact(proxy.capture)
    found = columns(proxy.capture)
    assert b"other records" not in log + found
    assert b"chosen records" in found
    rows = [row for file in reader.files(proxy.capture) for one in reader.row_groups(file) for row in one.to_pylist()]
    kept = [row[c.FRAME] for row in rows if (row[c.API_KEY], row[c.KIND]) == (PRODUCE, c.REQUEST)]
    asked = [request.frame for one in far for request in one.requests if request.head[0] == PRODUCE]
    named = [frame for frame in asked if topics["chosen"].encode() in frame]
    assert sorted(kept) == sorted(named)
    assert 0 < len(named) < len(asked)
    told = subprocess.run([*PROGRAM, "inspect", str(proxy.capture), "--json"], capture_output=True, check=True)
    missing = json.loads(told.stdout)["missing"]
    assert missing["only_topics"] == ['capture.only.topics = ["chosen-*"]']
    assert missing["left_out"] > 0
