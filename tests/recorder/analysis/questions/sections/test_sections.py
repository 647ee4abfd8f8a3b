"""Tests that sections agree with the exchanges, use the report's bins, and keep to their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.analysis.questions.sections import traffic
from recorder.analysis.questions.sections.bins import series
from recorder.analysis.questions.sections.peers import sockets
from recorder.analysis.summary.bounds import MAX_TOP, Timeline
from tests.recorder.analysis.by_hand import NOON, each_second, life

pytestmark = pytest.mark.real
LINE = Timeline(round(NOON.timestamp()) * 10**9, 10 * 10**9, 6)
MS = 1_000_000


@pytest.fixture(scope="module")
def made(tables: Any) -> Any:
    rows = [
        *each_second(10, api="Produce", latency_ns=lambda at: (8 if at >= 300 else 2) * MS, request_size=100),
        *each_second(4, api_key=1, api="Fetch", wait="empty", latency_ns=500 * MS, error_codes=[70]),
        *each_second(1, (0, 10), api="Metadata", node=2, error_codes=lambda at: [3, 3] if at < 2 else []),
        *(row for at in range(30) for row in each_second(0.1, (0, 20), api=f"Rare{at:02}", request_size=1)),
    ]
    events = [*life(1, 5, 40), *life(2, 15, None), *life(3, 25, 10, "broker")]
    return tables(rows, events)


def test_latency_tells_work_from_waits_and_has_the_percentiles_of_each_bin(made: Any) -> None:
    found = traffic.latency(made.kept, LINE)
    produce = next(one for one in found.apis if one.api == "Produce")
    fetch = next(one for one in found.apis if one.api == "Fetch")
    assert (produce.wait, produce.responses, produce.p50_ms, produce.most_ms) == (None, 600, 2, 8)
    assert produce.usual_ms.values == (2, 2, 2, 8, 8, 8)
    assert (fetch.wait, fetch.p50_ms) == ("wait", 500)
    assert not [one for one in found.nodes if one.api == "Fetch"]
    assert {(one.node, one.responses) for one in found.nodes if one.api == "Metadata"} == {(2, 10)}


def test_the_heat_map_counts_each_answer_that_is_work_once(made: Any) -> None:
    cells = [*traffic.latency(made.kept, LINE).heat]
    assert sum(cell.count for cell in cells) == 600 + 10 + 60
    assert all(cell.from_ms <= 2 < cell.to_ms or cell.from_ms <= 8 < cell.to_ms for cell in cells)


def test_answers_of_100_ms_or_longer_are_counted_exactly_and_without_waits(tables: Any) -> None:
    """A level of the heat map reaches from 66 to 131 ms."""
    rows = [
        *each_second(1, (0, 10), latency_ns=lambda at: (100 if at < 3 else 99) * MS),
        *each_second(1, (0, 10), api_key=1, api="Fetch", wait="empty", latency_ns=500 * MS),
    ]
    assert traffic.latency(tables(rows).kept, LINE).long == 3


def test_errors_are_listed_by_code_with_flow_errors_last_and_not_plotted(made: Any) -> None:
    found = traffic.failures(made.kept, made.kept_errors, LINE)
    assert [(one.error, one.count, one.share, one.is_flow) for one in found.errors] == [
        ("UNKNOWN_TOPIC_OR_PARTITION", 4, 0.2, False),
        ("FETCH_SESSION_ID_NOT_FOUND", 240, 1, True),
    ]
    assert next(iter(found.errors)).example == "s/1/e0"
    assert [(one.name, one.values[0]) for one in found.over_time] == [("UNKNOWN_TOPIC_OR_PARTITION", 4)]


def test_errors_of_unreadable_answers_are_not_judged(tables: Any) -> None:
    made = tables(each_second(1, error_codes=None, unread="omitted"))
    found = traffic.failures(made.kept, made.kept_errors, LINE)
    assert found.not_judged == "no answer could be read"


def test_traffic_has_the_largest_apis_and_the_rest_as_one(made: Any) -> None:
    found = traffic.traffic(made.kept, LINE)
    assert len(found.apis) == MAX_TOP
    assert found.apis.total == 33
    first = next(iter(found.apis))
    assert (first.api, first.requests, first.request_bytes) == ("Produce", 600, 60_000)
    assert found.apis.other is not None
    assert sum(one.requests for one in found.apis) + found.apis.other.requests == 600 + 240 + 10 + 60
    assert next(iter(found.bytes_over_time)).values == (10_000,) * 6


def test_connections_are_counted_by_when_they_opened_and_why_they_closed(made: Any) -> None:
    found = sockets(made.captured, made.kept, LINE)
    assert found.total == 3
    assert found.opened.values == (1, 1, 1, 0, 0, 0)
    assert {one.cause: one.connections for one in found.causes} == {"client": 1, "broker": 1}


def test_a_series_has_a_value_for_each_bin() -> None:
    assert series("p99", LINE, [(1, 5.0), (4, None)]).values == (None, 5.0, None, None, None, None)
