"""Requests and responses become exchanges, whichever side is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row

from recorder.analysis.tables.exchanges import exchanges

pytestmark = pytest.mark.real
Build = Callable[..., Any]


def by_exchange(frame: DataFrame) -> dict[int, Row]:
    return {row["exchange"]: row for row in exchanges(frame, decode=False).collect()}


def test_a_request_and_its_response_are_one_exchange(capture: Build, request_row: Build, response_row: Build) -> None:
    found = by_exchange(capture(request_row(0, node=2, client="127.0.0.1:5"), response_row(0, size=77, latency_ns=9)))
    row = found.pop(0)
    assert not found
    assert (row.outcome, row.api, row.api_version, row.client_id) == ("answered", "Metadata", 12, "app")
    assert (row.node, row.client) == (2, "127.0.0.1:5")
    assert (row.request_size, row.response_size, row.latency_ns) == (20, 77, 9)
    assert (row.answered_at - row["at"]).total_seconds() == 0.005


def test_the_same_number_on_another_connection_or_session_is_another_exchange(
    capture: Build, request_row: Build, response_row: Build
) -> None:
    rows = [request_row(0), response_row(0), request_row(0, connection=2), request_row(0, session="t")]
    found = exchanges(capture(*rows), decode=False).collect()
    assert sorted((row.session, row.connection, row.outcome) for row in found) == [
        ("s", 1, "answered"),
        ("s", 2, "unanswered"),
        ("t", 1, "unanswered"),
    ]


def test_a_request_that_awaits_nothing_is_one_way_and_not_unanswered(capture: Build, request_row: Build) -> None:
    found = by_exchange(capture(request_row(0, awaits=False), request_row(1)))
    assert (found[0].outcome, found[1].outcome) == ("one_way", "unanswered")
    assert found[0].answered_at is None


def test_an_answer_that_the_proxy_made_is_told_apart(capture: Build, request_row: Build, response_row: Build) -> None:
    found = by_exchange(capture(request_row(0), response_row(0, made_by="proxy", latency_ns=None)))
    assert found[0].outcome == "by_proxy"
    assert found[0].latency_ns is None


def test_a_response_whose_request_fell_into_a_gap_keeps_what_it_knows(capture: Build, response_row: Build) -> None:
    row = by_exchange(capture(response_row(7, request_size=31)))[7]
    assert (row.outcome, row.api, row.request_size, row.client_id) == ("request_lost", "Metadata", 31, "app")
    assert row["at"] == row.answered_at


def test_tokens_and_bytes_without_frames_are_no_exchanges(capture: Build, request_row: Build) -> None:
    unpaired = {"exchange": None, "api_key": None, "api": None}
    token, loose = ({**request_row(0), "kind": kind, **unpaired} for kind in ("token", "bytes"))
    assert by_exchange(capture(token, loose)) == {}


def test_an_exchange_across_midnight_is_joined_from_two_files(
    spark: Any, tmp_path: Any, request_row: Build, response_row: Build
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from recorder.analysis.tables.frames import frames
    from recorder.capture.frames import frames_schema

    for part, row in (("date=2026-11-20/hour=23", request_row(0)), ("date=2026-11-21/hour=00", response_row(0))):
        (tmp_path / "frames" / part).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([row], frames_schema()), tmp_path / "frames" / part / "s-1-1.parquet")
    assert by_exchange(frames(spark, str(tmp_path)))[0].outcome == "answered"
