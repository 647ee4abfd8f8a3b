"""Tests of the relation between findings: one cause is one finding, with its consequences under it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis.findings.causes import CAUSES, Cause, Joined, under_causes
from recorder.analysis.findings.rules import RULES
from recorder.analysis.summary.sections.findings import Finding, Severity
from tests.tables import each_row

EVERY = [rule.name for rule in RULES]
OTHER: dict[Joined, dict[str, tuple[Any, ...]]] = {
    Joined.BY_CLIENT: {"clients": ("b",)},
    Joined.BY_NODE: {"nodes": (2,)},
}
ROWS = each_row(
    ("row", "consequence"),
    [(row, name) for row in CAUSES for name in row.consequences if name != row.rule],
    ids=lambda one: one if isinstance(one, str) else f"{one.rule} {one.by.name}",
)


def found(rule: str, **facts: Any) -> Finding:
    own: dict[str, Any] = {"severity": Severity.WARNING, "from_ns": 10, "to_ns": 20, "clients": ("a",), "nodes": (1,)}
    return Finding(rule, subject=f"{rule} {facts}", sentence="It happened", advice="Do this", **(own | facts))


def shape(findings: list[Finding]) -> dict[str, list[str]]:
    return {one.rule: [other.rule for other in one.consequences] for one in findings}


@ROWS
def test_a_finding_of_the_same_client_or_node_and_time_stands_under_its_cause(row: Cause, consequence: str) -> None:
    assert shape(under_causes([found(consequence), found(row.rule)])) == {row.rule: [consequence]}


@ROWS
def test_a_finding_of_another_time_or_client_or_node_stands_for_itself(row: Cause, consequence: str) -> None:
    cause = found(row.rule)
    for other in (found(consequence, from_ns=21, to_ns=30), found(consequence, **OTHER[row.by])):
        assert len(under_causes([cause, other])) == 2


@ROWS
def test_a_finding_that_is_also_about_others_or_about_none_that_is_known_stands_for_itself(
    row: Cause, consequence: str
) -> None:
    more = {row.by.value: (*getattr(found(row.rule), row.by.value), *OTHER[row.by][row.by.value])}
    for other in (found(consequence, **more), found(consequence, **{row.by.value: ()})):
        assert len(under_causes([found(row.rule), other])) == 2


def test_two_causes_explain_together_what_is_about_both_of_their_clients() -> None:
    causes = [found("cut_off"), found("cut_off", clients=("b",))]
    first, second = under_causes([*causes, found("unanswered", clients=("a", "b"))])
    assert ([one.rule for one in first.consequences], second.consequences) == (["unanswered"], ())


def test_the_findings_of_one_old_client_are_one_finding_as_severe_as_the_worst_and_with_one_advice() -> None:
    old = [
        found("unanswered", severity=Severity.CRITICAL),
        found("unoffered_version"),
        found("metadata_storm"),
        found("churn"),
    ]
    (one,) = under_causes(old)
    assert (one.rule, one.severity, one.advice) == ("unoffered_version", Severity.CRITICAL, "Do this")
    assert [other.rule for other in one.consequences] == ["unanswered", "metadata_storm", "churn"]
    assert {other.advice for other in one.consequences} == {""}


def test_of_findings_of_one_machine_the_worst_is_the_cause_whatever_the_node() -> None:
    slow = [found("slow", nodes=(at % 3,), measure=float(-at)) for at in range(9)]
    (one,) = under_causes(slow)
    assert (one.measure, len(one.consequences)) == (0, 8)
    assert len(under_causes([*slow, found("slow", from_ns=50, to_ns=60)])) == 2


@given(
    st.lists(
        st.builds(
            found,
            st.sampled_from(EVERY),
            from_ns=st.integers(0, 3) | st.none(),
            to_ns=st.integers(0, 3) | st.none(),
            clients=st.lists(st.sampled_from("ab"), unique=True).map(tuple),
            nodes=st.lists(st.integers(0, 1), unique=True).map(tuple),
        ),
        max_size=12,
    )
)
def test_no_finding_is_lost_or_told_twice_and_no_consequence_has_further_ones(findings: list[Finding]) -> None:
    merged = under_causes(findings)
    told = [one for cause in merged for one in (cause, *cause.consequences)]
    assert sorted(one.sentence + one.subject + one.rule for one in told) == sorted(
        one.sentence + one.subject + one.rule for one in findings
    )
    assert not [one for cause in merged for one in cause.consequences if one.consequences]


def test_the_relation_names_rules_alone() -> None:
    assert {name for row in CAUSES for name in (row.rule, *row.consequences)} <= {*EVERY}
