"""Tests of the section on the report's method."""

from __future__ import annotations

from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import Unit
from recorder.analysis.summary.sections.method import Method, Threshold
from recorder.analysis.summary.whole import Summary
from recorder.report.capture import html
from tests.recorder.report.pages import Page


def test_thresholds_say_which_rules_must_last_and_how_many_cases_these_need() -> None:
    rows = Threshold("unanswered", 0.01, Unit.SHARE, must_last=True), Threshold("gaps", 1)
    words = Page(html(Summary(method=Method(thresholds=Table(rows))))).words
    assert "unanswered 1 % in 3 of 5 windows" in words
    assert "gaps 1 \N{EN DASH}" in words
    assert "A rule that must last also needs 5 cases, and 100 chances if its measure is a share." in words
