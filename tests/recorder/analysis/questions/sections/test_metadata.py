"""Tests of the report's section on metadata: equal changes in one response share a row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.questions.sections.metadata import metadata
from recorder.analysis.tables.metadata_changes import METADATA_CHANGES
from tests.recorder.analysis.by_hand import NOON, Row, table_of
from tests.recorder.analysis.questions.sections.timeline import LINE

pytestmark = pytest.mark.real


def told(at: float, **facts: Any) -> Row:
    frame = {"session": "s", "connection": 1, "sequence": round(at), "cluster": "c", "is_first": False}
    return frame | {"at": NOON + timedelta(seconds=at)} | facts


def state(at: float, partition: int, was: list[int], isr: list[int], **facts: Any) -> Row:
    same: Row = {"topic": "t", "partition": partition, "replicas": [1, 2, 3], "was_replicas": [1, 2, 3]}
    same |= {"isr": isr, "was_isr": was, "leader": isr[0] if isr else None, "was_leader": was[0]}
    return told(at, **same | facts)


def test_changes_are_rows_in_order_of_time_and_bars_of_their_kind(spark: SparkSession) -> None:
    rows = [
        *(state(5, number, [1, 2, 3], [2, 3]) for number in range(5)),
        state(25, 0, [2, 3], [], was_replicas=[3, 2]),
        state(26, 1, [2, 3], [2, 3]),
        state(0, 0, [1], [1, 2, 3], is_first=True),
        told(31, told_node=7, host="b", port=9092, was_address="a:9092"),
        state(40, 2, [2, 3], [2, 3], leader=3, was_leader=2, asker="b at 10.0.0.1", is_first=True),
    ]
    found = metadata(table_of(spark, METADATA_CHANGES, rows), LINE)
    assert [(one.what, one.subject, one.before, one.after) for one in found.changes] == [
        ("in sync", "t 0, t 1, t 2 and 2 more", "1, 2, 3", "2, 3"),
        ("leader", "t 0, t 1, t 2 and 2 more", "1", "2"),
        ("in sync", "t 0", "2, 3", "none"),
        ("leader", "t 0", "2", "none"),
        ("replicas", "t 0", "3, 2", "1, 2, 3"),
        ("address", "node 7", "a:9092", "b:9092"),
    ]
    assert {one.cluster for one in found.changes} == {"c"}
    assert [(one.subject, one.asker, one.leader, one.others) for one in found.contradictions] == [
        ("t 2", "b at 10.0.0.1", "3", "2")
    ]
    bars = {one.name: one.values for one in found.over_time}
    assert bars["leader"] == (5, 0, 1, 0, 0, 0)
    assert bars["address"] == (0, 0, 0, 1, 0, 0)
