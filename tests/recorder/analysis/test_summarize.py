"""Tests of a whole report: how many Spark jobs it takes, and that its optimisations change no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis import bodies
from recorder.analysis.findings.rules import RULES
from recorder.analysis.report_decoders import OF_FINDINGS, OF_REPORT
from recorder.analysis.summarize import QUESTIONS, findings, summary, threshold
from recorder.analysis.summary.sections.findings import Unit
from recorder.analysis.summary.sections.method import Threshold
from recorder.facts.rows import Decoder

pytestmark = pytest.mark.real
Build = Callable[..., Any]
# The most Spark jobs for a report of a small capture. It took 148 when each section read and shuffled the bodies
# itself.
MOST_JOBS = 99


def jobs_so_far(spark: SparkSession) -> int:
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(), default=-1) + 1


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Counter[str]]:
    """Counts how often each table of bodies was made, alone or in the shared pass, by the function that makes it."""
    counts: dict[str, Counter[str]] = {"_by_workers": Counter(), "_of_pass": Counter()}

    def counting(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(found: bodies.Captured, decoder: Decoder) -> Any:
            counts[name][decoder.name] += 1
            return make(found, decoder)

        return made

    for name in counts:
        monkeypatch.setattr(bodies, name, counting(name, getattr(bodies, name)))
    return counts


def names(decoders: Iterable[Decoder]) -> set[str]:
    return {decoder.name for decoder in decoders}


def test_a_threshold_tells_whether_its_rule_must_last_and_whose_it_is() -> None:
    slow, gaps = (next(rule for rule in RULES if rule.name == name) for name in ("slow", "gaps"))
    assert threshold(slow, {"slow": 7}) == Threshold("slow", 7, Unit.RATIO, is_own=True, must_last=True)
    assert threshold(gaps, {"slow": 7}) == Threshold("gaps", 1)


@pytest.mark.long
def test_rules_alone_open_frames_for_their_own_tables(
    captured: Build, rows: list[Any], decoded: dict[str, Counter[str]]
) -> None:
    assert len(findings(captured(*rows, is_tiny=True)).quiet) > 5
    assert decoded["_by_workers"] == {"answers": 1}
    assert set(decoded["_of_pass"]) == names(OF_FINDINGS)


@pytest.mark.long
def test_a_report_opens_each_frame_once_and_takes_few_jobs(
    spark: SparkSession, captured: Build, rows: list[Any], decoded: dict[str, Counter[str]]
) -> None:
    told: list[str] = []
    before = jobs_so_far(spark)
    found = summary(captured(*rows, is_tiny=True), "capture", say=told.append)
    assert found.coverage.exchanges == 120
    assert [(one.topic, one.writers, one.readers) for one in found.topics.totals] == [("t", 1, 1)]
    assert len(found.findings.quiet) > 5
    assert decoded["_by_workers"] == {"answers": 1}
    assert set(decoded["_of_pass"]) == names(OF_REPORT)
    assert [name for name, times in decoded["_of_pass"].items() if times > 1] == []
    assert set(QUESTIONS) < set(told)
    assert jobs_so_far(spark) - before <= MOST_JOBS


@pytest.mark.long
def test_a_capture_of_any_size_gives_the_tables_of_a_tiny_one(
    captured: Build, rows: list[Any], request: pytest.FixtureRequest
) -> None:
    tiny = summary(captured(*rows, is_tiny=True), "capture")
    request.getfixturevalue("as_for_many_rows")
    assert replace(summary(captured(*rows, row_group_size=50), "capture"), method=tiny.method) == tiny
