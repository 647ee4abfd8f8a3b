"""Tests of findings in words."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.coverage import Coverage
from recorder.analysis.summary.sections.findings import Evidence, Finding, Findings, Severity, Unit, Unjudged
from recorder.analysis.summary.whole import Summary
from recorder.analysis.summary.words import measure
from recorder.report.capture import html
from recorder.report.markdown import finding_lines
from recorder.report.sections.findings import FindingText, findings, judged, lines, verdict
from tests.recorder.report import some_summaries as summaries

FOUND = Finding("slow", Severity.CRITICAL, "node 2", "Produce was slow", "Look at its disk!")


def words(found: Finding, **coverage: object) -> FindingText:
    summary = replace(
        summaries.quiet(),
        findings=Findings(Table((found,))),
        coverage=Coverage(**coverage),  # type: ignore[arg-type]
    )
    (text,) = findings(summary, "my capture")
    return text


def test_a_sentence_has_one_full_stop() -> None:
    text = words(FOUND)
    assert (text.sentence, text.advice) == ("Produce was slow.", "Look at its disk!")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((None, None), ""),
        ((summaries.START, None), "since 13:05:00"),
        ((summaries.START, summaries.START + 9 * summaries.SECOND), "13:05:00 to 13:05:09"),
        ((0, 0), "since 00:00:00"),
    ],
    ids=["unknown", "goes on", "ended", "1970"],
)
def test_a_findings_time_is_in_words(ends: tuple[int | None, int | None], said: str) -> None:
    assert words(replace(FOUND, from_ns=ends[0], to_ns=ends[1])).when == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (412.0, Unit.MS, "412 ms"),
        (61_000_000, Unit.BYTES, "61.0 MB"),
        (0.125, Unit.SHARE, "12.5 %"),
        (3.4, Unit.RATIO, "3.4 \N{MULTIPLICATION SIGN}"),
        (2.34, Unit.PER_SECOND, "2.34/s"),
        (41_208, Unit.COUNT, "41 208"),
    ],
    ids=[unit.value for unit in (Unit.MS, Unit.BYTES, Unit.SHARE, Unit.RATIO, Unit.PER_SECOND, Unit.COUNT)],
)
def test_a_measure_has_its_unit(value: float, unit: Unit, said: str) -> None:
    assert measure(value, unit) == said


def test_a_measure_stands_beside_its_threshold() -> None:
    assert (
        words(replace(FOUND, measure=412, threshold=100, unit=Unit.MS)).measured == "412 ms; the rule fires at 100 ms"
    )
    assert words(replace(FOUND, measure=7, threshold=0)).measured == "7"


def test_a_consequence_stands_under_its_cause_on_the_page_in_markdown_and_on_the_terminal() -> None:
    caused = replace(FOUND, rule="churn", sentence="worker-* reconnects", advice="", from_ns=0, to_ns=10**9)
    cause = replace(FOUND, consequences=(caused,))
    text = words(cause)
    assert [(one.rule, one.sentence, one.when) for one in text.consequences] == [
        ("churn", "worker-* reconnects.", "00:00:00 to 00:00:01")
    ]
    assert [*lines(Findings(Table((cause,))))] == [
        "  critical: Produce was slow",
        "      causes churn: worker-* reconnects",
    ]
    written = "\n".join(finding_lines(text))
    assert written.index("Produce was slow") < written.index("**Consequences:**")
    assert "- worker-\\* reconnects. (churn, 00:00:00 to 00:00:01)" in written
    page = html(replace(summaries.quiet(), findings=Findings(Table((cause,)))))
    assert re.search(r"(?s)<article.*Produce was slow.*Consequences.*worker-\* reconnects.*</article>", page)


def test_a_cause_and_its_consequences_are_one_finding_and_two_rules_that_fired() -> None:
    found = Findings(Table((replace(FOUND, consequences=(replace(FOUND, rule="churn"),)),)))
    assert (verdict(found), judged(found)) == ("1 finding: 1 critical", "2 rules were judged, 2 fired.")


def test_the_command_names_the_capture_and_the_exchange() -> None:
    found = replace(FOUND, evidence=(Evidence("20261120T130500-7f3a", 4, exchange=17),))
    (command,) = words(found, sessions=Table(("one", "two"))).commands
    assert command.line == "kafka-wiretap inspect show 'my capture' 20261120T130500-7f3a/4/e17"


def test_the_only_session_need_not_be_named() -> None:
    found = replace(FOUND, evidence=(Evidence("20261120T130500-7f3a", 4, sequence=17),))
    (command,) = words(found, sessions=Table(("20261120T130500-7f3a",))).commands
    assert command.line == "kafka-wiretap inspect show 'my capture' 4/17"


def test_a_command_too_long_to_type_is_left_out() -> None:
    assert words(replace(FOUND, evidence=(Evidence("x" * 4000, 4),))).commands == ()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Findings(), "Nothing to report"),
        (Findings(not_judged="no bodies"), "Not judged"),
        (Findings(Table((FOUND,))), "1 finding: 1 critical"),
        (
            Findings(Table((FOUND, *[replace(FOUND, severity=Severity.WARNING)] * 2))),
            "3 findings: 1 critical, 2 warnings",
        ),
    ],
    ids=["none", "not judged", "one", "some"],
)
def test_the_verdict_says_how_many_and_how_bad(found: Findings, said: str) -> None:
    assert verdict(found) == said


def test_rules_that_fired_that_were_quiet_and_that_are_open_are_counted() -> None:
    twice = Findings(Table((FOUND, FOUND)), ("gaps", "churn"), Table((Unjudged("clock", "too short"),)))
    assert judged(twice) == "3 rules were judged, 1 fired; 1 could not be judged."
    assert judged(Findings(quiet=("gaps",))) == "1 rule was judged, none fired."


def test_an_empty_summary_has_no_findings() -> None:
    assert findings(Summary(), "capture") == []
