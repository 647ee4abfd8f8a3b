"""Tests of the conditions of all rules: duration, number of cases, missing data, lower bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.findings.judge import judge, lasting
from recorder.analysis.findings.rows import ROWS
from recorder.analysis.findings.rules import RULES
from tests.recorder.analysis.by_hand import EVENT, NOON, each_second

pytestmark = pytest.mark.real
SOME = [rule for rule in RULES if rule.name in ("gaps", "errors", "churn", "login_breaks")]


def of(
    subject: str, windows: list[int], *, cases: int = 2, of: int | None = 50, lasts: bool = True, measure: float = 1.0
) -> list[tuple[Any, ...]]:
    """Returns rows of a rule: this subject in these windows."""
    told = (("s", 1), ("rule", 1.0, lasts))
    return [
        (subject, at, cases, of, measure, at * 10, at * 10 + 9, {"window": str(at)}, (*told[0], at, 0), *told[1])
        for at in windows
    ]


def test_a_rule_fires_if_it_is_true_in_3_of_5_windows_with_5_cases_of_100_chances(spark: SparkSession) -> None:
    rows = [
        *of("in a row", [3, 4, 5]),
        *of("3 of 5", [3, 5, 7]),
        *of("3 of 6", [3, 5, 8]),
        *of("twice", [3, 4]),
        *of("few cases", [3, 4, 5], cases=1),
        *of("few chances", [3, 4, 5], of=30),
        *of("no share", [3, 4, 5], of=None),
        *of("below", [3, 4, 5], measure=0.99),
        *of("once is enough", [3], lasts=False, cases=1, of=1),
    ]
    schema = ", ".join(f"`{name}` {kind}" for name, kind in ROWS.items())
    frame = spark.createDataFrame(rows, f"{schema}, rule string, threshold double, must_last boolean")
    found = {row.subject: row for row in lasting(frame).collect()}
    assert set(found) == {"in a row", "3 of 5", "no share", "once is enough"}
    one = found["3 of 5"]
    assert (one.cases, one.of, one.from_ns, one.to_ns) == (6, 150, 30, 79)
    assert [piece.evidence.exchange for piece in one.evidence] == [3, 5, 7]


def test_evidence_is_the_worst_five_and_the_sentence_is_of_the_worst(spark: SparkSession) -> None:
    rows = [row for window in range(9) for row in of("bad", [window], measure=1.0 + window)]
    schema = ", ".join(f"`{name}` {kind}" for name, kind in ROWS.items())
    (one,) = lasting(
        spark.createDataFrame(rows, f"{schema}, rule string, threshold double, must_last boolean")
    ).collect()
    assert [piece.evidence.exchange for piece in one.evidence] == [8, 7, 6, 5, 4]
    assert one.words == {"window": "8"}
    assert one.measure == 9


def test_a_capture_that_is_too_short_is_not_judged_where_time_is_needed(tables: Any) -> None:
    found = judge(tables(each_second(20, (0, 18), error_codes=[10])), SOME)
    assert not found.found.rows
    assert set(found.quiet) == {"gaps", "login_breaks"}
    assert {one.rule: one.reason for one in found.unjudged} == dict.fromkeys(
        ("errors", "churn"), "too short: 2 whole windows of 5 s; 3 are needed"
    )


@pytest.mark.parametrize("seconds", [0, 1, 6], ids=["nothing", "one-window", "two-windows"])
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
    assert second.sentence == "at least 100 % of the answers to Heartbeat hold MESSAGE_TOO_LARGE"


def test_thresholds_of_the_users_own_replace_the_default_ones(tables: Any) -> None:
    rows = tables(each_second(20, error_codes=lambda at: [10] if at % 4 == 0 else []))
    assert [one.threshold for one in judge(rows, SOME, {"errors": 0.2}).found] == [0.2]
    assert not judge(rows, SOME, {"errors": 0.3}).found.rows
