"""Tests of the rules on topics written unevenly, record by record, or with fewer acks; others have no findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.findings.windows import Windows
from recorder.analysis.summary.sections.findings import Finding
from recorder.analysis.tables.metadata_changes import METADATA_CHANGES
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.analysis.by_hand import NOON, Row, each_second, frame, table_of

pytestmark = pytest.mark.real
NAMES = ("hot_partition", "small_batches", "unsafe", "leader_acks", "large")
SECOND = 10**9
# a connection on which brokers refuse all that is written
REFUSED = 9


HEAD = {"session": "s", "cluster": "main", "connection": 1, "client": "10.0.0.1:5", "client_id": "app"}


def writes(topic: str, per_second: float, size: int, partition: Callable[[int], int], **facts: Any) -> Iterable[Row]:
    """Produce requests of a minute, each with one batch."""
    own = HEAD | {"api": "Produce", "side": "request", "acks": -1, "records": 10} | facts
    for number in range(round(60 * per_second)):
        told = {name: fact(number) if callable(fact) else fact for name, fact in own.items()}
        place = {"topic": topic, "partition": partition(number), "bytes": size}
        yield {"exchange": number, "at": NOON + timedelta(seconds=number / per_second)} | told | place


def scenario() -> list[Row]:
    """A minute of topics, each written in one way."""
    return [
        *writes("hot", 10, 5000, lambda at: 3 if at % 10 else at // 10 % 6),
        *writes("even", 10, 5000, lambda at: at % 6),
        *writes("pair", 10, 5000, lambda at: 1 if at % 10 else 0),
        *writes("three", 10, 5000, lambda at: at // 40 % 3 if at % 40 == 0 else 1),
        *writes("fair pair", 10, 5000, lambda at: at % 2),
        # fewer than five percent of all bytes
        *writes("small", 4, 100, lambda at: 3 if at % 10 else at // 10 % 6),
        # all in one of four partitions: Metadata knows the others
        *writes("one of four", 10, 100, lambda at: 2),
        *writes("only one", 10, 100, lambda at: 0),
        # to partitions at random, a few a window
        *writes("by chance", 0.8, 5000, lambda at: (0, 1, 0, 0)[at % 4]),
        *writes("one by one", 60, 90, lambda at: at % 6),
        *writes("refused", 120, 90, lambda at: at % 6, connection=REFUSED),
        *writes("batched", 120, 3000, lambda at: at % 6),
        *writes("seldom", 20, 90, lambda at: at % 6),
        *writes("paid", 8, 2000, lambda at: at % 6, client_id="careful"),
        *writes("paid", 4, 2000, lambda at: at % 6, client_id="careless", acks=1),
        *writes("logs", 4, 2000, lambda at: at % 6, acks=0),
        *writes("alone", 4, 2000, lambda at: at % 6, client_id="alone", acks=1),
        *writes("mostly", 4, 2000, lambda at: at % 6, client_id="most", acks=lambda at: -1 if at % 10 == 0 else 1),
        *writes("pictures", 0.1, 900_000, lambda at: at % 6, records=lambda at: 1 if at == 3 else 40),
        *writes("too large", 0.1, 900_000, lambda at: at % 6, records=1, connection=REFUSED),
    ]


@pytest.fixture(scope="module")
def found(tables: Any, spark: SparkSession) -> dict[str, list[Finding]]:
    rows = [*scenario()]
    start = round(NOON.timestamp()) * SECOND
    others = {
        "partitions": table_of(spark, TOPIC_PARTITIONS.table, rows),
        "changes": table_of(spark, METADATA_CHANGES, [{"topic": "one of four", "partition": at} for at in range(4)]),
        "not_written": frame(
            spark,
            "session string, connection bigint, exchange bigint, topic string, partition int",
            [row for row in rows if row["connection"] == REFUSED],
        ),
        "windows": Windows({"s": (start, start + 60 * SECOND)}),
    }
    made = tables(each_second(1), **others)
    made.batches = made.of_bodies(made.partitions)
    judged = judge(made, [rule for rule in RULES if rule.name in NAMES])
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def test_a_partition_that_takes_most_of_its_topic_is_found_and_even_topics_are_not(found: Any) -> None:
    by_subject = {one.subject: one for one in found["hot_partition"]}
    assert sorted(by_subject) == ["hot 3", "one of four 2", "pair 1", "small 3", "three 1"]
    # 92 % to one partition, and 8 % to five others
    assert by_subject["hot 3"].measure == pytest.approx(0.92 / (0.08 / 5), rel=0.1)
    told = "Partition 3 of hot takes 92 % of what is written to its 6 partitions (17 % would be even): "
    assert by_subject["hot 3"].sentence.startswith(told)


def test_a_partition_that_takes_all_is_found_by_what_metadata_tells_of_the_others(found: Any) -> None:
    (one,) = [one for one in found["hot_partition"] if one.subject == "one of four 2"]
    assert "takes 100 % of what is written to its 4 partitions (25 % would be even)" in one.sentence
    assert one.measure == 1000


def test_many_small_batches_are_found_and_large_or_rare_ones_are_not(found: Any) -> None:
    (one,) = found["small_batches"]
    assert one.sentence.startswith(
        "app at 10.0.0.1 writes 60/s batches to one by one, half of them of at most 90 bytes"
    )


def test_fewer_acks_than_others_ask_for_are_found_and_a_topic_that_all_write_without_is_not(found: Any) -> None:
    (one,) = found["unsafe"]
    assert one.subject == "careless at 10.0.0.1 to paid"
    assert "asks for acks of the leader alone; most others ask for all in-sync replicas (at worst" in one.sentence
    assert one.share == 1


def test_the_only_writers_of_a_topic_that_ask_for_the_leaders_ack_are_found(found: Any) -> None:
    said = {one.subject: one.sentence for one in found["leader_acks"]}
    assert sorted(said) == ["alone at 10.0.0.1 to alone", "most at 10.0.0.1 to mostly"]
    told = "alone at 10.0.0.1 writes to alone with acks of the leader alone, and nobody asks for more (writes: "
    assert said["alone at 10.0.0.1 to alone"].startswith(told)
    assert "few writes ask for more" in said["most at 10.0.0.1 to mostly"]


def test_a_single_record_that_nearly_fills_a_message_is_found_and_large_batches_are_not(found: Any) -> None:
    (one,) = found["large"]
    assert one.subject == "app at 10.0.0.1 to pictures"
    assert [piece.exchange for piece in one.evidence] == [3]
