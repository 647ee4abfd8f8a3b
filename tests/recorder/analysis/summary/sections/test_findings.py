"""Tests of findings: their order and their evidence."""

from __future__ import annotations

import pytest

from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import MAX_EVIDENCE, Evidence, Finding, Findings, Severity


def found(rule: str, severity: Severity, share: float | None = None) -> Finding:
    return Finding(rule, severity, "a subject", "a sentence", "advice", share=share)


def test_the_worst_come_first_then_the_largest_share() -> None:
    rows = (
        found("d", Severity.NOTICE),
        found("c", Severity.WARNING, 0.1),
        found("b", Severity.WARNING, 0.4),
        found("a", Severity.CRITICAL),
    )
    assert [one.rule for one in Findings(Table(rows)).in_order] == ["a", "b", "c", "d"]


def test_findings_about_gaps_come_first() -> None:
    """With gaps, all other measures are lower bounds."""
    rows = found("slow", Severity.CRITICAL, 0.9), found("gaps", Severity.NOTICE)
    assert [one.rule for one in Findings(Table(rows)).in_order] == ["gaps", "slow"]


def test_findings_alike_stay_in_their_order() -> None:
    rows = tuple(found(rule, Severity.WARNING) for rule in "cab")
    assert [one.rule for one in Findings(Table(rows)).in_order] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        (Evidence("20261120T130500-7f3a", 4), "20261120T130500-7f3a/4"),
        (Evidence("20261120T130500-7f3a", 4, exchange=8), "20261120T130500-7f3a/4/e8"),
        (Evidence("20261120T130500-7f3a", 4, sequence=17), "20261120T130500-7f3a/4/17"),
        (Evidence("", 4, sequence=0), "4/0"),
    ],
    ids=["connection", "exchange", "frame", "first frame of the only session"],
)
def test_evidence_is_named_as_inspect_show_takes_it(evidence: Evidence, shown: str) -> None:
    assert evidence.id == shown


def test_a_finding_keeps_as_much_evidence_as_a_person_opens() -> None:
    worst = tuple(Evidence("s", at) for at in range(50))
    kept = Finding("slow", Severity.NOTICE, "", "", "", evidence=worst).evidence
    assert kept == worst[:MAX_EVIDENCE]
