"""Tests that the page has the sections of a summary, in its order."""

from __future__ import annotations

from recorder.analysis.summary.whole import SECTIONS, Summary
from recorder.report.every_section import sections


def test_the_sections_below_the_findings_are_those_of_a_summary_in_its_order() -> None:
    assert ["findings", *(one.id for one in sections(Summary()))] == sorted(
        SECTIONS, key=lambda name: name != "findings"
    )
