"""Tests of one side of a comparison, which Spark computes from exchanges written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.capture_facts import _clients, _errors, _topics, _versions, facts
from recorder.analysis.change.facts import ApiFacts, ClientFacts, ErrorFacts, TopicFacts, VersionFacts
from recorder.facts.batches import BATCHES
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.analysis.by_hand import EXCHANGE, NOON, table_of

pytestmark = pytest.mark.real
Build = Callable[..., Any]


@pytest.mark.long
def test_a_side_has_the_answers_of_analyze_and_the_findings_of_a_report(
    captured: Build, request_row: Build, response_row: Build
) -> None:
    rows = [make(number) for number in range(5) for make in (request_row, response_row)][:-1]
    told: list[str] = []
    found = facts(captured(*rows, is_tiny=True), "monday", say=told.append)
    assert found.apis == (ApiFacts("Metadata", None, 5, 4, 0, 100, 400, 5.0, 5.0, 5.0),)
    assert (found.capture, found.frames, found.bytes, found.exchanges) == ("monday", 9, 500, 5)
    # from the first request to the last one, which has no response
    assert found.seconds == 4
    assert found.versions == (VersionFacts("Metadata", 12, 5),)
    assert found.clients.rows == (ClientFacts("app", None, 5),)
    # the bodies were not recorded
    assert found.read == {"Metadata": 0}
    assert "gaps" in found.findings.quiet
    assert told[-1] == "rules on monday"


def test_a_capture_without_frames_has_a_side_too(captured: Build) -> None:
    found = facts(captured(), "empty")
    assert (found.frames, found.first_at_ns, found.findings.not_judged) == (0, None, "the capture holds no frames")


def test_an_error_counts_once_for_each_answer_and_api(tables: Build) -> None:
    codes = [[], [25], [25, 25, 27], [27]]
    rows = [EXCHANGE | {"exchange": at, "at": NOON, "error_codes": one} for at, one in enumerate(codes)]
    found = _errors(tables(rows).kept)
    assert set(found) == {
        ErrorFacts("Heartbeat", "UNKNOWN_MEMBER_ID", 2, False),
        ErrorFacts("Heartbeat", "REBALANCE_IN_PROGRESS", 2, True),
    }


def test_numbers_at_a_client_ids_end_are_one_client(spark: SparkSession) -> None:
    rows = [
        ("java", "3", "app-1", "Fetch", 11, 2),
        ("java", "3", "app-27", "Fetch", 12, 5),
        ("java", "4", "app-3", "Fetch", 12, 1),
        (None, None, None, "Fetch", 12, 1),
    ]
    schema = "software string, software_version string, client_id string, api string, api_version int, requests bigint"
    told = spark.createDataFrame(rows, schema)
    assert _clients(told).rows == (
        ClientFacts("app-*", "java 3", 7),
        ClientFacts(None, None, 1),
        ClientFacts("app-*", "java 4", 1),
    )
    assert set(_versions(told)) == {VersionFacts("Fetch", 11, 2), VersionFacts("Fetch", 12, 7)}


def test_a_topics_batches_tell_how_it_is_written(tables: Build, spark: SparkSession) -> None:
    sent = {"side": "request", "topic": "orders", "is_control": False, "codec": "zstd", "records": 10}
    batches = [
        *[sent | {"producer_id": 7, "base_sequence": at} for at in range(3)],
        sent | {"codec": "none", "records": None},
        sent | {"side": "response"},
        sent | {"topic": "paid"},
    ]
    written = {"side": "request", "api": "Produce", "topic": "orders", "bytes": 90, "acks": -1}
    partitions = [written, written, written | {"acks": 1}, written | {"bytes": None}, written | {"api": "Fetch"}]
    made = tables(
        [EXCHANGE | {"at": NOON}],
        all_batches=table_of(spark, BATCHES.table, batches),
        partitions=table_of(spark, TOPIC_PARTITIONS.table, partitions),
    )
    assert _topics(made).rows == (
        TopicFacts("orders", 4, 3, 3, 30, {"zstd": 3, "none": 1}, {"-1": 2, "1": 1}),
        TopicFacts("paid", 1, 0, 1, 10, {"zstd": 1}),
    )
