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
from recorder.analysis.summary.finding import Finding
from tests.recorder.analysis.by_hand import NOON, each_second

pytestmark = pytest.mark.real
NAMES = ("hot_partition", "small_batches", "unsafe", "large")
SECOND = 10**9


def writes(topic: str, per_second: float, size: int, partition: Callable[[int], int], **facts: Any) -> Iterable[tuple[Any, ...]]:  # fmt: skip  # noqa: E501
    """Produce requests of a minute, each with one batch."""
    own = {"client_id": "app", "acks": -1, "records": 10} | facts
    for number in range(round(60 * per_second)):
        told = {name: fact(number) if callable(fact) else fact for name, fact in own.items()}
        at = NOON + timedelta(seconds=number / per_second)
        head = ("s", "main", 1, number, at, "10.0.0.1:5", told["client_id"], "Produce", "request")
        yield *head, topic, partition(number), size, told["records"], told["acks"]


ROWS = (
    "session string, cluster string, connection bigint, exchange bigint, at timestamp, client string, "
    "client_id string, api string, side string, topic string, partition int, bytes int, records bigint, acks smallint"
)


def scenario() -> list[tuple[Any, ...]]:
    """A minute of topics, each written in one way."""
    return [
        *writes("hot", 10, 5000, lambda at: 3 if at % 10 else at // 10 % 6),
        *writes("even", 10, 5000, lambda at: at % 6),
        *writes("pair", 10, 5000, lambda at: 1 if at % 10 else 0),
        *writes("quiet", 2, 100, lambda at: 3 if at % 10 else at // 10 % 6),
        *writes("one by one", 120, 90, lambda at: at % 6),
        *writes("batched", 120, 3000, lambda at: at % 6),
        *writes("seldom", 20, 90, lambda at: at % 6),
        *writes("paid", 8, 2000, lambda at: at % 6, client_id="careful"),
        *writes("paid", 4, 2000, lambda at: at % 6, client_id="careless", acks=1),
        *writes("logs", 4, 2000, lambda at: at % 6, acks=0),
        *writes("pictures", 0.1, 900_000, lambda at: at % 6, records=lambda at: 1 if at == 3 else 40),
    ]


@pytest.fixture(scope="module")
def found(tables: Any, spark: SparkSession) -> dict[str, list[Finding]]:
    rows = spark.createDataFrame(scenario(), ROWS)
    start = round(NOON.timestamp()) * SECOND
    others = {"partitions": rows, "windows": Windows({"s": (start, start + 60 * SECOND)})}
    made = tables(each_second(1), **others)
    made.batches = made.windows.put(made.written.drop("window", "is_edge"))
    judged = judge(made, [rule for rule in RULES if rule.name in NAMES])
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def test_a_partition_that_takes_most_of_its_topic_is_found_and_even_small_or_quiet_topics_are_not(found: Any) -> None:
    (one,) = found["hot_partition"]
    assert one.subject == "hot 3"
    assert one.measure == pytest.approx(5.52, rel=0.05)
    assert one.sentence.startswith("Partition 3 of hot takes 92 % of what is written to its 6 partitions")


def test_many_small_batches_are_found_and_large_or_rare_ones_are_not(found: Any) -> None:
    (one,) = found["small_batches"]
    assert one.sentence.startswith(
        "app at 10.0.0.1 writes 120/s batches to one by one, half of them of at most 90 bytes"
    )


def test_fewer_acks_than_others_ask_for_are_found_and_a_topic_that_all_write_without_is_not(found: Any) -> None:
    (one,) = found["unsafe"]
    assert one.subject == "careless at 10.0.0.1 to paid"
    assert "asks for acks of the leader alone; most others ask for all in-sync replicas (at worst" in one.sentence
    assert one.share == 1


def test_a_single_record_that_nearly_fills_a_message_is_found_and_large_batches_are_not(found: Any) -> None:
    (one,) = found["large"]
    assert one.subject == "app at 10.0.0.1 to pictures"
    assert [piece.exchange for piece in one.evidence] == [3]
