"""Tests of a summary's JSON, there and back."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from recorder.analysis.summary.bounds import Series, Table
from recorder.analysis.summary.sections.delivery import Delivery, DeliveryOfTopic
from recorder.analysis.summary.whole import SECTIONS, NoSummary, Summary, of_json
from tests.recorder.report import some_summaries as summaries

PROJECT = Path(__file__).resolve().parents[4]
NAMES = ["lively", "quiet", "nothing", "judged_nowhere", "hostile"]


@pytest.mark.parametrize("name", NAMES)
def test_a_summarys_json_is_read_back(name: str) -> None:
    summary: Summary = getattr(summaries, name)()
    assert of_json(summary.as_json()) == summary


def test_json_is_ascii_whatever_the_names() -> None:
    summary = summaries.quiet()
    named = replace(summary, coverage=replace(summary.coverage, capture="captur\udce9 \N{SNOWMAN}"))
    assert named.as_json().isascii()
    assert of_json(named.as_json()) == named


def test_numbers_that_json_lacks_are_unknown() -> None:
    rows = Table((DeliveryOfTopic("orders", 0, p50_ms=math.nan, p99_ms=math.inf),))
    summary = Summary(delivery=Delivery(topics=rows, usual_ms=Series("p50", (math.nan, 1.0))))
    (read,) = of_json(summary.as_json()).delivery.topics
    assert (read.p50_ms, read.p99_ms) == (None, None)
    assert of_json(summary.as_json()).delivery.usual_ms.values == (None, 1.0)


def test_keys_of_later_versions_are_ignored() -> None:
    tree = json.loads(summaries.quiet().as_json())
    tree["weather"] = tree["coverage"]["mood"] = "fine"
    assert of_json(json.dumps(tree)) == summaries.quiet()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ("[]", "no report of"),
        ('{"format": "kafka-wiretap replay report"}', "no report of"),
        ('{"format": "kafka-wiretap capture report", "version": 2}', "version 2 of the report; known is 1"),
        ('{"format": "kafka-wiretap capture report", "version": 1, "latency": 4}', "no whole report"),
        ('{"format": "kafka-wiretap capture report", "version": 1, "timeline": {"bins": 999}}', "no whole report"),
        ("[" * 100_000, "no JSON"),
    ],
    ids=["cut", "list", "other report", "later version", "wrong type", "beyond the bounds", "deep"],
)
def test_json_that_is_no_report_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(NoSummary, match=why):
        of_json(text)


@pytest.mark.parametrize(
    ("layer", "made_elsewhere"),
    [
        ("recorder/analysis/summary/sections", set()),
        # the rules find the findings, and who asks all questions knows the method
        ("recorder/analysis/questions/sections", {"findings", "method"}),
        ("recorder/report/sections", set()),
    ],
    ids=["values", "questions", "words"],
)
def test_each_layer_has_a_file_for_each_section_and_no_other(layer: str, made_elsewhere: set[str]) -> None:
    files = {file.stem for file in (PROJECT / layer).glob("*.py")}
    assert files - {"__init__"} == {*SECTIONS} - made_elsewhere
