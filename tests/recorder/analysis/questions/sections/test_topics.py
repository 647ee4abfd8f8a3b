"""Tests of the count of CloudEvents by topic, mode and broken clause."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.analysis.questions.sections.topics import cloudevents
from recorder.analysis.summary.sections.topics import EventsOfTopic
from tests.recorder.analysis.by_hand import table_of

pytestmark = pytest.mark.real


def row(side: str, *broken: tuple[str, str], mode: str | None = "binary", topic: str = "t") -> dict[str, Any]:
    clauses, reasons = [one for one, _ in broken], [one for _, one in broken]
    return {"topic": topic, "side": side, "mode": mode, "violations": clauses, "reasons": reasons}


def test_events_are_counted_by_topic_mode_and_clause_for_each_side(spark: SparkSession) -> None:
    rows = [
        row("request"),
        row("response"),
        row("response"),
        row("request", ("3.2.1", "header ce_datacontenttype"), ("3.2.3", "header ce_b is null")),
        row("request", ("3.2.3", "header ce_a is null")),
        row("response", mode="structured", topic="u"),
        row("response", mode=None) | {"unread": "bad_crc"},
    ]
    found = cloudevents(table_of(spark, CLOUDEVENTS.table, rows))
    assert [*found] == [
        EventsOfTopic("t", "binary", written=1, read=2),
        EventsOfTopic("t", "binary", "3.2.1", "header ce_datacontenttype", written=1),
        EventsOfTopic("t", "binary", "3.2.3", "header ce_a is null", written=2),
        EventsOfTopic("u", "structured", read=1),
    ]
    assert found.total == 4
