"""Tests of the losses that Spark counts. test_report.py compares them with those of `inspect`."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from recorder.analysis.questions import losses
from recorder.analysis.tables.frames import EVENTS_SCHEMA, SCHEMA, events

pytestmark = pytest.mark.real


def told(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    usual = {"session": "s", "connection": 1, "kind": "gap", "cause": "queue_full"}
    return spark.createDataFrame([usual | row for row in rows], EVENTS_SCHEMA)


def test_gaps_of_a_cause_are_added_up_as_far_as_they_are_known(spark: SparkSession) -> None:
    found = told(
        spark,
        {"frames": 20, "bytes": 200, "connection": None, "detail": '{"connections": 3}'},
        {"frames": 2, "bytes": 20, "detail": '{"lost": {"Fetch": {"requests": 2}}}'},
        {"cause": "spool_damaged", "detail": '{"lost": {}}'},
        {"kind": "closed", "frames": 9},
    )
    assert {tuple(row) for row in losses.gaps_by_cause(found).collect()} == {
        ("queue_full", 2, 3, 22, 220),
        ("spool_damaged", 1, 0, 0, 0),
    }


def test_each_api_has_what_gaps_lost_of_it_and_no_bytes_where_none_were_counted(spark: SparkSession) -> None:
    sizes = '{"lost": {"Fetch": {"requests": 1, "responses": 2, "request_bytes": 10, "response_bytes": 900}}}'
    old = '{"lost": {"Fetch": {"requests": 1}, "other": {"frames": 4}}}'
    found = told(spark, {"detail": sizes}, {"detail": sizes}, {"cause": "recorder_fault", "detail": old})
    assert {tuple(row) for row in losses.lost_by_api(found).collect()} == {
        ("queue_full", "Fetch", 6, 1820),
        ("recorder_fault", "Fetch", 1, None),
        ("recorder_fault", "other", 4, None),
    }


def test_only_sessions_that_did_not_end_in_order_died(spark: SparkSession) -> None:
    found = told(
        spark,
        {"kind": "session", "cause": "died", "session": "a"},
        {"kind": "session", "cause": "ended", "session": "b"},
        {"kind": "session", "cause": "started", "session": "a"},
    )
    assert [row.session for row in losses.sessions_that_died(found).collect()] == ["a"]


def test_omitted_frames_are_known_of_closed_connections(spark: SparkSession) -> None:
    rows = [{"session": "s", "connection": number, "size": 100, "stored": 40} for number in (1, 1, 2)]
    rows[0]["records"] = "drop"
    frames = spark.createDataFrame(rows, SCHEMA)
    found = told(
        spark,
        *({"kind": "opened", "connection": number} for number in (1, 2, 3)),
        {"kind": "closed", "frames": 10},
        {"frames": 3},
        {"frames": 5, "connection": 2},
        {"kind": "closed", "frames": 6, "connection": 3},
        # its beginning was removed
        {"kind": "closed", "frames": 7, "connection": 4},
    )
    (sums,) = losses.left_out(frames, found).collect()
    # the first connection had 10 frames: 2 rows and a gap of 3; the third has no rows; the second is still open
    assert tuple(sums) == (5 + 6, 3, 180, 1)


def test_omitted_frames_are_unknown_of_a_connection_with_a_gap_of_unknown_size(spark: SparkSession) -> None:
    frames = spark.createDataFrame([{"session": "s", "connection": 1, "size": 9, "stored": 9}], SCHEMA)
    found = told(spark, {"kind": "closed", "frames": 10}, {}, {"frames": 2}, {"connection": None})
    assert tuple(losses.left_out(frames, found).collect()[0]) == (0, 0, 0, 0)


DETAILS = ["{", "5", "[]", '{"connections":"x"}', '{"lost":5}', '{"lost":{"a":5}}', "[" * 50_000]
DETAILS += ['{"lost":{"a":{"requests":"x"}}}', '{"connections":1e999}', '{"connections":4611686018427387903}']


def test_gaps_are_counted_whatever_their_details_hold(spark: SparkSession) -> None:
    """The rows are repeated, so that sums of their values would overflow."""
    rows = [{"frames": (1 << 63) - 1, "bytes": -5, "detail": detail} for detail in DETAILS * 3]
    found = told(spark, *rows, {"frames": 2, "bytes": 3})
    assert [tuple(row) for row in losses.gaps_by_cause(found).collect()] == [("queue_full", len(rows) + 1, 0, 2, 3)]
    assert {row.frames for row in losses.lost_by_api(found).collect()} <= {0}
    closed = told(spark, *({"kind": "closed", "frames": (1 << 63) - 1} for _ in range(3)))
    assert losses.left_out(spark.createDataFrame([], SCHEMA), closed).collect()[0].frames == 0


def test_a_capture_without_events_lacks_nothing_that_they_could_say(spark: SparkSession, tmp_path: Any) -> None:
    assert losses.gaps_by_cause(events(spark, str(tmp_path))).collect() == []
