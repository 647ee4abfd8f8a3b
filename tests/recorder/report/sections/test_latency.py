"""Tests of the section on latency."""

from __future__ import annotations

import pytest

from recorder.analysis.summary.bounds import Marks, Timeline
from recorder.analysis.summary.sections.latency import HeatCell, Latency, LatencyOfApi
from recorder.analysis.summary.whole import Summary
from recorder.report.sections.latency import latency, slowest


def test_the_share_of_long_answers_does_not_depend_on_the_levels_of_the_heat_map() -> None:
    cells = Marks((HeatCell(0, 1, 2, 4_000), HeatCell(0, 65.536, 131.072, 1_000)))
    (heat,) = latency(Summary(timeline=Timeline(0, 10**9, 3), latency=Latency(heat=cells, long=3))).plots
    assert heat.answer == "3 of 5 000 answers (0.06 %) took 100 ms or longer."


def of_api(api: str, responses: int, p50_ms: float, p95_ms: float, p99_ms: float) -> LatencyOfApi:
    return LatencyOfApi(api, None, responses, p50_ms, p95_ms, p99_ms)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [
                of_api("Produce", 1_000, 1, 2, 3),
                of_api("Fetch", 5_000, 2, 3, 4),
                of_api("ListOffsets", 18, 9, 400, 501),
            ],
            "Of 2 APIs with 1 000 or more answers, Fetch is the slowest at p99: 4 ms, half of them within 2 ms",
        ),
        (
            [of_api("Produce", 5_000, 1, 2, 3), of_api("Fetch", 200, 2, 3, 4), of_api("ListOffsets", 18, 9, 400, 501)],
            "Of 2 APIs with 200 or more answers, Fetch is the slowest at p95: 3 ms, half of them within 2 ms",
        ),
        (
            [of_api("Produce", 20, 1, 2, 3), of_api("Fetch", 20, 2, 3, 4), of_api("ListOffsets", 18, 9, 400, 501)],
            "Of 2 APIs with 20 or more answers, Fetch is the slowest at p50: 2 ms",
        ),
        (
            [of_api("Produce", 5_000, 1, 2, 3), of_api("ListOffsets", 18, 9, 400, 501)],
            "No two APIs have enough answers to be compared",
        ),
    ],
    ids=["p99", "p95", "p50", "too-few"],
)
def test_an_api_is_called_slow_only_with_enough_answers(rows: list[LatencyOfApi], said: str) -> None:
    assert slowest(tuple(rows)) == said
