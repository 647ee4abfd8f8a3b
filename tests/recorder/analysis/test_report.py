"""Tests of all answers of `analyze`, and of writing them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire import catalog
from recorder import analyze
from recorder.analysis import sources
from recorder.analysis.group_and_filter import AUTO, Filters, NoMatch, Question, chosen, filtered
from recorder.analysis.report import Output, _ordered, report
from recorder.analysis.tables.clients import clients
from recorder.capture.frames import events_schema
from recorder.missing import LostOfApi
from tests.recorder.capture.lossy import make_lossy

pytestmark = pytest.mark.real
Build = Callable[..., Any]
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def folder(capture: Build, request_row: Build, response_row: Build, tmp_path: Path) -> str:
    """One Metadata exchange that ended with error 3."""
    frame = catalog.encode_response(3, 12, 1, {"topics": [{"error_code": 3, "name": "t", "partitions": []}]})
    capture(request_row(0), response_row(0, frame))
    return str(tmp_path)


def test_both_tables_come_of_the_same_exchanges(spark: SparkSession, folder: str) -> None:
    found = report(sources.captured(spark, folder))
    assert [(row["api"], row["requests"], row["errors"]) for row in found.latency_by_api] == [("Metadata", 1, 1)]
    assert [row["error"] for row in found.errors_by_api] == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert [(row["responses"], row["read"]) for row in found.coverage_by_api] == [(1, 1)]
    assert not found.missing


def test_when_nothing_passes_the_filters_it_says_what_the_capture_holds(spark: SparkSession, folder: str) -> None:
    only = Filters(clients=("nobody",), since_ns=int(NOON.timestamp() * 10**9) + 3600 * 10**9)
    found = report(sources.captured(spark, folder), Question(only=only))
    assert (found.latency_by_api, found.held and found.held.apis) == ([], ("Metadata",))
    everything = report(sources.captured(spark, folder))
    assert everything.held is None


@pytest.mark.long
def test_analyze_and_inspect_report_the_same_losses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = make_lossy(tmp_path, monkeypatch).missing
    output = Output(str(tmp_path / "out"))
    found = report(sources.captured(spark, str(tmp_path)), output=output)
    found.missing.apis.sort(key=lambda lost: lost.api)
    assert found.missing == lossy
    (gaps,) = pq.read_table(tmp_path / "out" / "gaps_by_cause").to_pylist()
    assert gaps["frames"] == sum(row["frames"] for row in pq.read_table(tmp_path / "out" / "lost_by_api").to_pylist())
    unread = sum(row["omitted"] for row in found.coverage_by_api)
    assert 0 < unread < sum(row["responses"] for row in found.coverage_by_api)


def test_a_gap_of_many_exchanges_stands_before_every_count(
    spark: SparkSession, folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """803 of 3000 Produce exchanges were dropped."""
    lost = {"Produce": {"requests": 803, "responses": 803, "request_bytes": 8_030_000, "response_bytes": 48_180}}
    gap = {"session": "s", "connection": 1, "kind": "gap", "cause": "queue_full", "frames": 1606, "bytes": 8_084_604}
    place = tmp_path / "events" / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True)
    rows = [gap | {"detail": json.dumps({"lost": lost})}]
    pq.write_table(pyarrow.Table.from_pylist(rows, events_schema()), place / "s-1-1.parquet")
    found = report(sources.captured(spark, folder))
    assert found.missing.apis == [LostOfApi("queue_full", "Produce", 1606, 8_078_180)]
    analyze._show(found, [], analyze.Chosen(None, None, False, 50))
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert said[:4] == [
        "What is missing",
        "what API frames bytes",
        "not recorded: queue_full, 1 gap 1 606 8.1 MB",
        "Produce 1 606 8.1 MB",
    ]


def test_tables_are_kept_as_parquet_with_their_windows(spark: SparkSession, folder: str, tmp_path: Path) -> None:
    report(sources.captured(spark, folder), Question(window="1 minute"), output=Output(str(tmp_path / "out")))
    (row,) = pq.read_table(tmp_path / "out" / "errors_by_api").to_pylist()
    assert (row["api"], row["error_code"], row["count"]) == ("Metadata", 3, 1)
    assert row["window_start"].minute == 0


@pytest.mark.parametrize(
    ("lasts", "window"), [(599, 5), pytest.param(600, 60, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_a_window_that_suits_the_capture_is_of_5_s_or_of_a_minute(
    spark: SparkSession, capture: Build, request_row: Build, tmp_path: Path, lasts: int, window: int
) -> None:
    capture(*(request_row(second) for second in (0, 7, lasts)))
    found = report(sources.captured(spark, str(tmp_path)), Question(window=AUTO)).latency_by_api
    starts = {0, 7 // window * window, lasts // window * window}
    assert {row["window_start"] for row in found} == {
        NOON.replace(tzinfo=None) + timedelta(seconds=one) for one in starts
    }


def test_tables_that_are_kept_have_the_busiest_first_within_their_window(spark: SparkSession) -> None:
    made = [(2, "A", 9), (1, "C", 1), (1, "B", 5), (1, "A", 5)]
    latency = spark.createDataFrame(made, ["window_start", "api", "requests"]).coalesce(1)
    assert [(row[0], row[1]) for row in _ordered(latency).collect()] == [(1, "A"), (1, "B"), (1, "C"), (2, "A")]
    errors = spark.createDataFrame([("A", 3, 1), ("A", 2, 1), ("B", 7, 4)], ["api", "error_code", "count"]).coalesce(1)
    assert [row[1] for row in _ordered(errors).collect()] == [7, 2, 3]


@pytest.mark.long
def test_tables_are_kept_as_csv_and_replaced_only_if_asked(spark: SparkSession, folder: str, tmp_path: Path) -> None:
    output = Output(str(tmp_path / "out"), "csv")
    report(sources.captured(spark, folder), output=output)
    with pytest.raises(AnalysisException, match="already exists"):
        report(sources.captured(spark, folder), output=output)
    report(sources.captured(spark, folder), output=Output(str(tmp_path / "out"), "csv", overwrite=True))
    (file,) = (tmp_path / "out" / "latency_by_api").glob("*.csv")
    assert pyarrow.csv.read_csv(file).to_pylist()[0]["requests"] == 1


@pytest.mark.long
def test_latencies_are_grouped_by_each_column_of_the_question(spark: SparkSession, folder: str) -> None:
    """Groups by each possible column, alone and together."""
    found = report(sources.captured(spark, folder), Question(("client_id", "api_version", "topic", "software")))
    (row,) = found.latency_by_api
    assert (row["client_id"], row["api_version"], row["topic"], row["software"]) == ("app", 12, None, None)
    (error,) = found.errors_by_api
    assert (error["client_id"], error["error"]) == ("app", "UNKNOWN_TOPIC_OR_PARTITION")


@pytest.fixture
def two_topics(capture: Build, request_row: Build, tmp_path: Path) -> str:
    """A Produce request of two topics, and one of one of these topics, a minute later."""
    rows = []
    for number, topics in enumerate((("a", "b"), ("b",))):
        data = [{"name": name, "partition_data": [{"index": 0}]} for name in topics]
        frame = catalog.encode_request(0, 9, 1, "app", {"topic_data": data})
        produce = {"api_key": 0, "api": "Produce", "api_version": 9, "frame": frame}
        at = NOON + timedelta(minutes=number)
        where = {"client": ("127.0.0.1:50000", "[::1]:50001")[number], "connection": number}
        rows.append(request_row(number, **produce, **where, size=len(frame), stored=len(frame), at=at))
    capture(*rows)
    return str(tmp_path)


def asked(spark: SparkSession, folder: str, **question: Any) -> dict[Any, int]:
    found = report(sources.captured(spark, folder), Question(**question))
    return {row[found.by[0]]: row["requests"] for row in found.latency_by_api}


def test_an_exchange_counts_once_for_each_topic_that_it_names(spark: SparkSession, two_topics: str) -> None:
    assert asked(spark, two_topics, by=("topic",)) == {"a": 1, "b": 2}
    assert asked(spark, two_topics, by=("api",)) == {"Produce": 2}


CHOSEN: tuple[tuple[dict[str, Any], int], ...] = (
    # a filter, and the number of exchanges that pass it
    ({"topics": ("a",)}, 1),
    ({"topics": ("a", "b")}, 2),
    ({"clients": ("app",)}, 2),
    ({"clients": ("other",)}, 0),
    *(({"clients": (client,)}, 1) for client in ("::1", "[::1]", "[::1]:50001", "127.0.0.1")),
    ({"apis": ((0, "kafka"),)}, 2),
    ({"apis": ((0, "kafka-0.7"), (3, None))}, 0),
)


def test_filters_choose_exchanges(spark: SparkSession, two_topics: str) -> None:
    found = sources.captured(spark, two_topics)
    every = sources.all_exchanges(found).persist()
    questions = [Question(only=Filters(**only)) for only, _ in CHOSEN]
    # one job of Spark for all of them
    passing = [chosen(every, found, one).select("api", F.lit(at).alias("at")) for at, one in enumerate(questions)]
    counts = Counter((row["at"], row["api"]) for row in reduce(DataFrame.union, passing).collect())
    assert counts == {(at, "Produce"): count for at, (_, count) in enumerate(CHOSEN) if count}
    first_ns = int(NOON.timestamp()) * 10**9
    assert asked(spark, two_topics, only=Filters(since_ns=first_ns + 1000)) == {"Produce": 1}
    assert asked(spark, two_topics, only=Filters(until_ns=first_ns)) == {"Produce": 1}


def test_a_table_with_a_host_alone_is_filtered_by_the_address_without_its_port(
    spark: SparkSession, two_topics: str
) -> None:
    found = clients(sources.captured(spark, two_topics))
    hosts = [[row.host for row in filtered(found, Filters(clients=(one,))).collect()] for one in ("::1", "127.0.0.1")]
    assert hosts == [["[::1]"], ["127.0.0.1"]]


def test_an_unknown_topic_is_reported_with_the_existing_ones(spark: SparkSession, two_topics: str) -> None:
    with pytest.raises(NoMatch, match="no frame names the topic c; right would be a, b"):
        asked(spark, two_topics, only=Filters(topics=("c",)))
