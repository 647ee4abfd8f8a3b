"""Tests of findings exported as CloudEvents through a recording proxy.

The SDK reads them, and so does another library's reader with checks of its own, and the project itself from that
recording.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import kafka
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from cloudevents.core.bindings import kafka as binding
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

from proxy.wire.keys import FETCH, PRODUCE
from recorder import spark_options
from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import Finding, Findings, Severity
from recorder.capture.frames import events_schema
from recorder.export import commands
from recorder.export.events import event_id
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import PATIENCE
from tests.brokers.zookeeper import ZookeeperCluster
from tests.clients.checks import captured_connections
from tests.clients.harness import PROGRAM, compact, proxied
from tests.clients.workloads import ASKS_SOON, confluent, fresh
from tests.recorder.analysis.conftest import EVENT, NOON, write_frames
from tests.recorder.analysis.decode.test_cloudevents import BROKEN
from tests.recorder.facts.frames import request, rows
from tests.recorder.running import run as run_command

pytestmark = pytest.mark.real
Row = dict[str, Any]
CAUSES = ("disk_full", "killed", "queue_full")
NOON_NS = round(NOON.timestamp()) * 10**9
# the findings of that capture
BY_HAND = [Finding("gaps", Severity.CRITICAL, cause, "4 kB were lost", "look", NOON_NS) for cause in CAUSES]


def capture_with_findings(folder: Path) -> Path:
    """A capture with gaps of three causes, and so with three findings."""
    row = request(3, 12, {"topics": None}) | {"at": NOON, "made_by": "client", "awaits": True}
    write_frames(folder, [row], 10)
    hour = folder / "events" / "date=2026-11-21" / "hour=12"
    hour.mkdir(parents=True)
    gaps = [EVENT | {"kind": "gap", "cause": cause, "frames": 9, "bytes": 4000} for cause in CAUSES]
    pq.write_table(pa.Table.from_pylist(gaps, events_schema()), hour / "s-1-1.parquet")
    return folder


def exported(capture: Path, topic: str, bootstrap: str, *options: str) -> str:
    """Returns the program's output."""
    where = ["--cloudevents", topic, "--bootstrap", bootstrap]
    done = subprocess.run(
        [*PROGRAM, "export", str(capture), *where, *options], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(capture: Path, topic: str, bootstrap: str, *options: str) -> Result:
    """Runs the command with findings made by hand, without Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "_findings", lambda *_: Findings(found=Table((*BY_HAND,))))
        patch.setattr(spark_options, "check_spark", lambda: None)
        return run_command("export", capture, "--cloudevents", topic, "--bootstrap", bootstrap, *options)


def by_hand(capture: Path, topic: str, bootstrap: str, *options: str) -> str:
    """Runs the command with findings made by hand; it must succeed."""
    done = run(capture, topic, bootstrap, *options)
    assert done.exit_code == 0, done.output
    return done.stdout


def of_confluent(bootstrap: str, topic: str, count: int) -> list[Any]:
    """Returns the first messages of a topic, as the SDK reads them: (partition, key, event)."""
    with closing(confluent.consumer(bootstrap)) as reader:
        partitions = reader.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[Any] = []
        while len(found) < count:
            for one in reader.consume(count, PATIENCE):
                # no event has a header without a value, which the SDK does not take
                headers = {name: value for name, value in confluent.headers_of(one) if isinstance(value, bytes)}
                message = binding.KafkaMessage(headers, one.key(), confluent.value_of(one))
                found.append((one.partition(), one.key(), binding.from_kafka_event(message)))
    return found


def of_kafka_python(bootstrap: str, topic: str, count: int) -> list[Row]:
    """Returns the same with another library: attributes and data of each message, read by the rules of the binding."""
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": PATIENCE * 1000} | ASKS_SOON
    with closing(kafka.KafkaConsumer(topic, bootstrap_servers=bootstrap, **settings)) as reader:
        return [by_the_binding(one) for one in islice(reader, count)]


def by_the_binding(message: Any) -> Row:
    headers = dict(message.headers)
    assert len(headers) == len(message.headers)
    kind = headers.get("content-type", b"").decode()
    if kind.startswith("application/cloudevents+json"):
        event = json.loads(message.value)
        data = event.pop("data")
    elif "ce_id" in headers:
        event = {name.removeprefix("ce_"): value.decode() for name, value in headers.items() if name.startswith("ce_")}
        assert len(event) == len(headers) - 1
        event["datacontenttype"] = kind
        data = json.loads(message.value)
    else:
        event = json.loads(message.value)
        data = event.pop("data")
    assert {"id", "source", "specversion", "type"} <= event.keys()
    return {"partition": message.partition, "key": message.key, "attributes": event, "data": data}


@dataclass
class Exported:
    """The output and the records of each way of exporting."""

    said: dict[str, str]
    topics: dict[str, str]
    by_sdk: dict[str, list[Any]]
    by_other: dict[str, list[Row]]
    rows: list[Row]

    def told(self, kind: str, side: str) -> list[Row]:
        return [row for row in self.rows if row["topic"] == self.topics[kind] and row["side"] == side]


KINDS: Mapping[str, tuple[str, ...]] = {
    "binary": ("--key-mapper", "partitionkey"),
    "structured": ("--mode", "structured", "--key", "mine"),
}


@pytest.fixture(scope="module")
def done(kafka_one: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    folder = tmp_path_factory.mktemp("cloudevents")
    capture = capture_with_findings(folder / "my capture")
    found = Exported({}, {}, {}, {}, [])
    # clients that end may have just opened another connection
    with proxied(kafka_one, folder / "proxy", disturbed=True) as proxy:
        for kind, options in KINDS.items():
            topic = found.topics[kind] = confluent.create_topic(proxy.bootstrap, kind, 3)
            found.said[kind] = by_hand(capture, topic, proxy.bootstrap, *options)
            found.by_sdk[kind] = of_confluent(proxy.bootstrap, topic, len(CAUSES))
            found.by_other[kind] = of_kafka_python(proxy.bootstrap, topic, len(CAUSES))
        found.topics["broken"] = breaks_each_clause(proxy.bootstrap)
    compact(proxy.capture)
    found.rows = table(proxy.capture)
    return found


def breaks_each_clause(bootstrap: str) -> str:
    """A topic with an event for each way to break a clause, each with its own key."""
    topic = confluent.create_topic(bootstrap, "broken")
    producer = Producer({"bootstrap.servers": bootstrap})
    for way, (_, headers, value) in BROKEN.items():
        producer.produce(topic, value, way.encode(), headers=[*headers.items()])
    assert producer.flush(PATIENCE) == 0
    return topic


def table(capture: Path) -> list[Row]:
    command = [*PROGRAM, "analyze", str(capture), "--table", "cloudevents", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_the_sdk_another_reader_and_the_recording_say_the_same_of_each_event(done: Exported, kind: str) -> None:
    by_sdk, by_other = done.by_sdk[kind], done.by_other[kind]
    key = {"binary": None, "structured": b"mine"}[kind]
    assert {one["attributes"]["subject"] for one in by_other} == {*CAUSES}
    wanted = {one["attributes"]["id"]: one for one in by_other}
    assert len(wanted) == len(CAUSES)
    for partition, sent, event in by_sdk:
        other = wanted[event.get_id()]
        assert (partition, sent) == (other["partition"], other["key"])
        assert sent == (key or event.get_subject().encode())
        assert event.get_data() == other["data"]
        # this SDK names a key that it reads partitionkey
        names = {**event.get_attributes(), "time": other["attributes"]["time"], "partitionkey": event.get_subject()}
        assert names == other["attributes"]
    for side in ("request", "response"):
        told = done.told(kind, side)
        # two readers
        assert len(told) == len(CAUSES) * (1 if side == "request" else 2)
        for row in told:
            other = wanted[row["id"]]
            assert row["mode"] == kind
            assert row["violations"] == []
            assert row["partition"] == other["partition"]
            own = {name: row[name] for name in other["attributes"] if name in row} | row["extensions"]
            assert own == other["attributes"]
            assert row["key_is_partitionkey"] == (kind == "binary")
            assert row["data_bytes"] == len(json.dumps(other["data"]))


def test_each_clause_that_is_broken_on_the_wire_is_named_alone(done: Exported) -> None:
    told = {base64.b64decode(row["key"]).decode(): row["violations"] for row in done.told("broken", "request")}
    assert told == {way: [clause.value] for way, (clause, _, _) in BROKEN.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_prints_its_topics_and_event_counts(done: Exported, kind: str) -> None:
    counts: dict[int, int] = {}
    for partition, _, _ in done.by_sdk[kind]:
        counts[partition] = counts.get(partition, 0) + 1
    told = ", ".join(f"{number} ({counts[number]})" for number in sorted(counts))
    named = "partition" if len(counts) == 1 else "partitions"
    assert done.said[kind].splitlines() == [f"published 3 findings to {done.topics[kind]}: {named} {told}"]


def test_an_event_names_the_finding_its_capture_and_its_time(done: Exported) -> None:
    for one in done.by_other["binary"]:
        told, data = one["attributes"], one["data"]
        assert told["source"] == "/kafka-wiretap/my%20capture"
        assert told["type"] == "kafka-wiretap.finding.gaps"
        assert (data["rule"], data["subject"]) == ("gaps", told["subject"])
        assert told["time"] == "2026-11-21T12:00:00Z"
    assert {(one["attributes"]["id"]) for one in done.by_other["binary"]} == {
        one["attributes"]["id"] for one in done.by_other["structured"]
    }, "twice is once"


@pytest.mark.long
def test_the_program_publishes_what_it_finds_of_a_capture(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    capture = capture_with_findings(tmp_path / "capture")
    topic = confluent.create_topic(kafka_one.bootstrap, "found")
    assert exported(capture, topic, kafka_one.bootstrap) == f"published 3 findings to {topic}: partition 0 (3)\n"
    events = [event for _, _, event in of_confluent(kafka_one.bootstrap, topic, len(CAUSES))]
    assert {one.get_id() for one in events} == {event_id(one) for one in BY_HAND}


# --- what can't be written -----------------------------------------------------------------------------


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return capture_with_findings(tmp_path / "capture")


@pytest.fixture(scope="module")
def kafka_0_10(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperCluster]:
    with ZookeeperCluster("0.10.2.2", folder=tmp_path_factory.mktemp("kafka") / "old") as cluster:
        yield cluster


@pytest.mark.long
def test_before_0_11_events_are_structured_and_binary_ones_are_refused(
    kafka_0_10: ZookeeperCluster, capture: Path, tmp_path: Path
) -> None:
    topic = fresh("events")
    with proxied(kafka_0_10, tmp_path / "proxy", disturbed=True) as proxy:
        confluent.produce(proxy.bootstrap, topic, [b"makes the topic"])
        refused = run(capture, topic, proxy.bootstrap)
        assert refused.exit_code == 2
        assert refused.stderr.splitlines() == [
            f"Error: {proxy.bootstrap} has no record headers (before Kafka 0.11): right would be --mode structured"
        ]
        by_hand(capture, topic, proxy.bootstrap, "--mode", "structured")
        # without headers, this SDK takes any message for structured
        read = confluent.consume(proxy.bootstrap, topic, 1 + len(BY_HAND))
    assert read[0] == b"makes the topic"
    events = [binding.from_structured_event(binding.KafkaMessage({}, None, value)) for value in read[1:]]
    assert [one.get_id() for one in events] == [event_id(one) for one in BY_HAND]
    frames = [
        row for of in captured_connections(proxy.capture).values() for row in of if row["api_key"] in (PRODUCE, FETCH)
    ]
    told = rows(CLOUDEVENTS, *frames)
    assert {(row["side"], row["id"]) for row in told} == {
        (side, event_id(one)) for side in ("request", "response") for one in BY_HAND
    }
    assert {(row["mode"], row["format"], *row["violations"]) for row in told} == {("structured", "json")}


def test_a_missing_topic_is_refused_and_not_created(kafka_one: KafkaCluster, capture: Path) -> None:
    there, missing = confluent.create_topic(kafka_one.bootstrap, "there"), fresh("missing")
    for mode in ("binary", "structured"):
        refused = run(capture, missing, kafka_one.bootstrap, "--mode", mode)
        assert refused.exit_code == 2
        (line,) = refused.stderr.splitlines()
        assert line.startswith(f"Error: {kafka_one.bootstrap} has no topic {missing}; right would be to create it, or ")
    with closing(confluent.consumer(kafka_one.bootstrap)) as reader:
        topics = reader.list_topics(timeout=PATIENCE).topics
    assert there in topics
    assert missing not in topics


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_topic_that_takes_no_record_of_that_size_gets_none(kafka_one: KafkaCluster, capture: Path, mode: str) -> None:
    config: dict[str, Any] = {"max.message.bytes": "300"}
    topic = confluent.create_topic(kafka_one.bootstrap, "small", **config)
    refused = run(capture, topic, kafka_one.bootstrap, "--mode", mode)
    assert refused.exit_code == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"Error: nothing was published: {topic} can't be written: ")
    assert "too large" in line
    with closing(confluent.consumer(kafka_one.bootstrap)) as reader:
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE) == (0, 0)


def test_a_queue_shorter_than_the_findings_are_many_holds_nothing_up(kafka_one: KafkaCluster, capture: Path) -> None:
    topic = confluent.create_topic(kafka_one.bootstrap, "queue")
    short = ("--producer", "queue.buffering.max.messages=1")
    assert by_hand(capture, topic, kafka_one.bootstrap, *short) == f"published 3 findings to {topic}: partition 0 (3)\n"
    assert [event.get_id() for _, _, event in of_confluent(kafka_one.bootstrap, topic, 3)] == [*map(event_id, BY_HAND)]
