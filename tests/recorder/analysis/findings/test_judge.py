"""Tests of the conditions of all rules: duration, number of cases, missing data, lower bounds."""

from __future__ import annotations

import re
from string import Formatter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.findings.judge import TERMS, Known, finding, judge, lasting
from recorder.analysis.findings.rows import ROWS
from recorder.analysis.findings.rule import Need, Rule
from recorder.analysis.findings.rules import RULES
from recorder.analysis.summary.sections.findings import Finding, Unit
from tests.recorder.analysis.by_hand import EVENT, NOON, each_second
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real
SOME = [rule for rule in RULES if rule.name in ("gaps", "errors", "churn", "login_breaks")]
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in (ROWS | TERMS).items())
SECOND = 10**9


def of(
    subject: str,
    windows: list[int],
    *,
    cases: int = 2,
    of: int | None = 50,
    lasts: bool = True,
    measure: float = 1.0,
    is_share: bool = False,
    adds_up: bool = False,
) -> list[tuple[Any, ...]]:
    """Returns rows of a rule: this subject in these windows."""
    terms = ("rule", 1.0, lasts, adds_up, is_share)
    return [
        row_of(subject, at, cases, of, measure, {"window": str(at)}, ("s", 1, at, 0), (*terms, at * 10, at * 10 + 9))
        for at in windows
    ]


def row_of(
    subject: str,
    at: int,
    cases: int,
    chances: int | None,
    measure: float,
    words: dict[str, str],
    evidence: Any,
    terms: Any,
) -> tuple[Any, ...]:
    return (subject, at, cases, chances, measure, *terms[-2:], words, evidence, ["app"], [1], *terms)


# the cases of each rule in four windows, of 5 s each from noon on; the second window is the worst
CASES = (7, 13, 9, 8)


def in_four_windows(rule: Rule) -> list[tuple[Any, ...]]:
    """Rows of the rule, each with words that name the window."""
    names = {name for _, name, _, _ in Formatter().parse(rule.says) if name}
    noon = int(NOON.timestamp()) * SECOND
    rows = []
    for at, cases in enumerate(CASES):
        words = {name: f"{name} of window {at}" for name in names}
        measure = float(cases if rule.adds_up else rule.threshold * cases)
        terms = (rule.name, float(rule.threshold), rule.must_last, rule.adds_up, rule.unit is Unit.SHARE)
        times = (noon + at * 5 * SECOND, noon + (at + 1) * 5 * SECOND)
        rows.append(row_of("someone", at, cases, None, measure, words, ("s", 1, at, times[0]), (*terms, *times)))
    return rows


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[str, Finding]:
    """A finding of each rule, in four windows."""
    rows = spark.createDataFrame([row for rule in RULES for row in in_four_windows(rule)], SCHEMA)
    by_name = {rule.name: rule for rule in RULES}
    return {
        row["rule"]: finding(row, by_name[row["rule"]], by_name[row["rule"]].threshold, False)
        for row in lasting(rows).collect()
    }


def test_a_rule_lasts_or_adds_up_or_measures_windows_and_all_of_them_fire(told: dict[str, Finding]) -> None:
    assert set(told) == {rule.name for rule in RULES}
    assert not [rule.name for rule in RULES if rule.adds_up and rule.must_last]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.adds_up], ids=lambda rule: rule.name)
def test_a_rule_that_adds_up_tells_the_cases_of_the_whole_capture(told: dict[str, Finding], rule: Rule) -> None:
    found = told[rule.name]
    assert found.measure == sum(CASES)
    assert (found.worst_from_ns, found.worst_to_ns) == (None, None)
    assert "at worst" not in found.sentence
    for name in ("cases", "measure"):
        if f"{{{name}}}" in rule.says:
            assert re.search(rf"\b{sum(CASES)}\b", found.sentence)


@pytest.mark.parametrize("rule", [rule for rule in RULES if not rule.adds_up], ids=lambda rule: rule.name)
def test_a_rule_that_measures_windows_tells_the_worst_one_and_when_that_was(
    told: dict[str, Finding], rule: Rule
) -> None:
    found = told[rule.name]
    assert found.sentence.count("(at worst: 2026-11-21 12:00:05 to 12:00:10 UTC)") == 1
    assert {*re.findall(r"of window (\d)", found.sentence)} <= {"1"}
    noon = int(NOON.timestamp()) * SECOND
    assert (found.worst_from_ns, found.worst_to_ns) == (noon + 5 * SECOND, noon + 10 * SECOND)
    assert (found.from_ns, found.to_ns) == (noon, noon + 20 * SECOND)
    assert found.measure == rule.threshold * 13
    if "{cases}" in rule.says:
        assert re.search(r"\b13\b", found.sentence)


def test_a_threshold_on_a_count_is_one_on_the_sum(spark: SparkSession) -> None:
    rows = [*of("many", [1, 2], lasts=False, adds_up=True, measure=0.6), *of("few", [1], lasts=False, measure=0.6)]
    (one,) = lasting(spark.createDataFrame(rows, SCHEMA)).collect()
    assert (one.subject, one.measure) == ("many", 1.2)


def test_a_rule_fires_if_it_is_true_in_3_of_5_windows_with_5_cases_of_100_chances(spark: SparkSession) -> None:
    rows = [
        *of("in a row", [3, 4, 5]),
        *of("3 of 5", [3, 5, 7]),
        *of("3 of 6", [3, 5, 8]),
        *of("twice", [3, 4]),
        *of("few cases", [3, 4, 5], cases=1),
        *of("few chances", [3, 4, 5], of=30),
        *of("few of few", [3, 4, 5], of=3, is_share=True),
        *of("all of few", [3, 4, 5], of=2, is_share=True),
        *of("all of too few", [3, 4, 5], cases=1, of=1, is_share=True),
        *of("no share of few", [3, 4, 5], of=2),
        *of("no share", [3, 4, 5], of=None),
        *of("below", [3, 4, 5], measure=0.99),
        *of("once is enough", [3], lasts=False, cases=1, of=1),
    ]
    found = {row.subject: row for row in lasting(spark.createDataFrame(rows, SCHEMA)).collect()}
    assert set(found) == {"in a row", "3 of 5", "no share", "once is enough", "all of few"}
    one = found["3 of 5"]
    assert (one.cases, one.of, one.from_ns, one.to_ns) == (6, 150, 30, 79)
    assert [piece.evidence.exchange for piece in one.evidence] == [3, 5, 7]


def test_evidence_is_the_worst_five_and_the_sentence_is_of_the_worst(spark: SparkSession) -> None:
    rows = [row for window in range(9) for row in of("bad", [window], measure=1.0 + window)]
    (one,) = lasting(spark.createDataFrame(rows, SCHEMA)).collect()
    assert [piece.evidence.exchange for piece in one.evidence] == [8, 7, 6, 5, 4]
    assert one._worst.words == {"window": "8"}
    assert one.measure == 9


def test_a_capture_that_is_too_short_is_not_judged_where_time_is_needed(tables: Any) -> None:
    found = judge(tables(each_second(20, (0, 18), error_codes=[10])), SOME)
    assert not found.found.rows
    assert set(found.quiet) == {"gaps", "login_breaks"}
    assert {one.rule: one.reason for one in found.unjudged} == dict.fromkeys(
        ("errors", "churn"), "too short: 2 whole windows of 5 s; 3 are needed"
    )


@pytest.mark.parametrize(
    "seconds", mostly_long([0, 1, 6], usual=[6].__contains__), ids=["nothing", "one-window", "two-windows"]
)
def test_rules_that_need_no_time_judge_even_a_capture_of_a_moment(tables: Any, seconds: int) -> None:
    gap = EVENT | {"kind": "gap", "connection": 1, "at": NOON, "cause": "queue_full", "frames": 90, "bytes": 4000}
    found = judge(tables(each_second(20, (0, seconds)), [gap]), SOME)
    assert [one.rule for one in found.found] == ["gaps"]
    assert found.quiet == ("login_breaks",)
    assert {one.rule: one.reason for one in found.unjudged} == dict.fromkeys(
        ("errors", "churn"), "too short: 0 whole windows of 5 s; 3 are needed"
    )


def test_rules_on_errors_are_not_judged_where_no_answer_could_be_read(tables: Any) -> None:
    rows = each_second(5, error_codes=None, unread="omitted", api_key=36, api="SaslAuthenticate")
    found = judge(tables(rows), SOME)
    assert {one.rule for one in found.unjudged} == {"errors", "login_breaks"}
    assert next(iter(found.unjudged)).reason == "none of the 300 answers that it needs could be read (omitted)"


def test_a_capture_without_what_a_rule_looks_at_is_judged_and_quiet(tables: Any) -> None:
    found = judge(tables(each_second(5)), SOME)
    assert set(found.quiet) == {rule.name for rule in SOME}
    assert not found.unjudged.rows


def test_gaps_stand_first_and_make_all_other_measures_lower_bounds(tables: Any) -> None:
    gap = EVENT | {"kind": "gap", "connection": 1, "at": NOON, "cause": "queue_full", "frames": 90, "bytes": 4000}
    found = judge(tables(each_second(20, error_codes=[10]), [gap]), SOME)
    first, second = found.found
    assert (first.rule, first.sentence) == (
        "gaps",
        "Gaps (queue_full): at least 1; 4000 bytes of traffic are not in the capture",
    )
    assert second.sentence.startswith("at least 100 % of the answers to Heartbeat hold MESSAGE_TOO_LARGE (at worst: ")


@pytest.mark.long
def test_thresholds_of_the_users_own_replace_the_default_ones(tables: Any) -> None:
    rows = tables(each_second(20, error_codes=lambda at: [10] if at % 4 == 0 else []))
    assert [one.threshold for one in judge(rows, SOME, {"errors": 0.2}).found] == [0.2]
    assert not judge(rows, SOME, {"errors": 0.3}).found.rows


@pytest.mark.parametrize("keeps_records", [True, False])
def test_only_rules_that_need_records_are_not_judged_where_capture_records_left_them_all_out(
    keeps_records: bool,
) -> None:
    known = Known(1000, 1.0, {}, 0.0, 5, 5, without_records=7, keeps_records=keeps_records)
    open_ = {rule.name: why for rule in RULES if (why := known.not_judged(rule))}
    need = [rule.name for rule in RULES if Need.RECORDS in rule.needs and not keeps_records]
    assert open_ == dict.fromkeys(need, "capture.records left out the records of all 7 frames with any")
    assert keeps_records or {"uncompressed"} <= {*need}
