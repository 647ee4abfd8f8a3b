"""Tests of the section on latency: work apart from waits, percentiles by bin, the heat map."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.analysis.questions.sections.latency import latency
from tests.recorder.analysis.by_hand import each_second
from tests.recorder.analysis.questions.sections.timeline import LINE, MS

pytestmark = pytest.mark.real


def test_latency_tells_work_from_waits_and_has_the_percentiles_of_each_bin(made: Any) -> None:
    found = latency(made.kept, LINE)
    produce = next(one for one in found.apis if one.api == "Produce")
    fetch = next(one for one in found.apis if one.api == "Fetch")
    assert (produce.wait, produce.responses, produce.p50_ms, produce.most_ms) == (None, 600, 2, 8)
    assert produce.usual_ms.values == (2, 2, 2, 8, 8, 8)
    assert (fetch.wait, fetch.p50_ms) == ("wait", 500)
    assert not [one for one in found.nodes if one.api == "Fetch"]
    assert {(one.node, one.responses) for one in found.nodes if one.api == "Metadata"} == {(2, 10)}


def test_the_heat_map_counts_each_answer_that_is_work_once(made: Any) -> None:
    cells = [*latency(made.kept, LINE).heat]
    assert sum(cell.count for cell in cells) == 600 + 10 + 60
    assert all(cell.from_ms <= 2 < cell.to_ms or cell.from_ms <= 8 < cell.to_ms for cell in cells)


def test_answers_of_100_ms_or_longer_are_counted_exactly_and_without_waits(tables: Any) -> None:
    """A level of the heat map reaches from 66 to 131 ms."""
    rows = [
        *each_second(1, (0, 10), latency_ns=lambda at: (100 if at < 3 else 99) * MS),
        *each_second(1, (0, 10), api_key=1, api="Fetch", wait="empty", latency_ns=500 * MS),
    ]
    assert latency(tables(rows).kept, LINE).long == 3
