"""Tests of the rules on slow responses and empty polls; waits, warm-ups and idle consumers have no findings."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.summary.sections.findings import Finding, Findings
from tests.recorder.analysis.by_hand import Row, each_second

pytestmark = pytest.mark.real
NAMES = ("slow", "empty_fetches")
MS = 1_000_000


def scenario() -> list[Row]:
    """A minute, in which some nodes are slow for 20 s."""
    fetch: Row = {"api_key": 1, "api": "Fetch"}
    slow_meanwhile: Row = {"latency_ns": lambda at: 400 * MS if 300 <= at < 500 else 4 * MS}
    return [
        *each_second(15, api="Jammed", **slow_meanwhile),
        *each_second(15, api="Blinked", latency_ns=lambda at: 400 * MS if 300 <= at < 330 else 4 * MS),
        *each_second(15, api="Cold", latency_ns=lambda at: 900 * MS if at < 60 else 4 * MS),
        *each_second(15, api="Twice jammed", **slow_meanwhile),
        *each_second(15, api="Once a window", latency_ns=lambda at: 900 * MS if at % 75 == 0 else 4 * MS),
        *each_second(
            60, api="A tenth", latency_ns=lambda at: 900 * MS if at % 10 == 0 and 1500 <= at < 2700 else 4 * MS
        ),
        *each_second(15, api="Quick", latency_ns=lambda at: 60 * MS if 300 <= at < 500 else 4 * MS),
        *each_second(15, api="Steady", latency_ns=500 * MS),
        *each_second(15, api="Uneven", latency_ns=500 * MS, node=1),
        *each_second(15, api="Uneven", latency_ns=5 * MS, node=2),
        *each_second(15, api="Uneven", latency_ns=6 * MS, node=3),
        *each_second(15, client_id="reader", wait="tail", **slow_meanwhile, **fetch),
        *each_second(15, client_id="joiner", api_key=11, api="JoinGroup", wait="members", **slow_meanwhile),
        *each_second(20, client_id="hasty", connection=3, wait=lambda at: "tail" if at % 50 == 0 else "empty", **fetch),
        *each_second(20, client_id="busy", connection=4, wait=lambda at: "tail" if at % 5 == 0 else "empty", **fetch),
        *each_second(2, client_id="idle", connection=5, wait="empty", **fetch),
    ]


@pytest.fixture(scope="module")
def judged(tables: Any) -> Findings:
    return judge(tables(scenario()), [rule for rule in RULES if rule.name in NAMES])


@pytest.fixture(scope="module")
def found(judged: Findings) -> dict[str, list[Finding]]:
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def test_a_percentile_rests_on_enough_answers(found: Any) -> None:
    """A window of 75 answers has no p99: one of them would be it."""
    assert "p95 of 300 answers" in next(one.sentence for one in found["slow"] if one.subject.startswith("A tenth"))
    assert not [one for one in found["slow"] if one.subject.startswith("Once")]


def test_findings_of_one_busy_machine_are_one_finding(judged: Findings) -> None:
    (cause,) = [one for one in judged.found if one.rule == "slow" and one.consequences]
    together = {cause.subject, *(one.subject for one in cause.consequences)}
    assert {"Jammed on node 1", "Twice jammed on node 1"} <= together
    assert not [one for one in judged.found if one.rule == "slow" and one.subject in together - {cause.subject}]


def test_an_api_that_is_slower_than_usual_for_20_s_is_found(found: Any) -> None:
    (one,) = [one for one in found["slow"] if one.subject.startswith("Jammed")]
    assert one.subject == "Jammed on node 1"
    assert one.measure == pytest.approx(100, rel=0.01)
    assert one.sentence.startswith(
        "Jammed on node 1 took 400.0 ms (p50 of 75 answers), 100.0 \N{MULTIPLICATION SIGN} its usual 4.0 ms (at worst: "
    )
    assert one.evidence


def test_a_node_that_is_slower_than_the_others_all_the_time_is_found_and_they_are_not(found: Any) -> None:
    assert {one.subject for one in found["slow"] if one.subject.startswith("Uneven")} == {"Uneven on node 1"}


@pytest.mark.parametrize("api", ["Blinked", "Cold", "Quick", "Steady", "Fetch", "JoinGroup"])
def test_short_or_small_delays_warm_ups_usual_ones_and_waits_are_not_slow(found: Any, api: str) -> None:
    assert not [one for one in found["slow"] if one.subject.startswith(api)]


def test_a_consumer_that_polls_without_waiting_is_found_and_busy_or_idle_ones_are_not(found: Any) -> None:
    (one,) = found["empty_fetches"]
    assert one.subject == "hasty at 10.0.0.1"
    assert one.share == pytest.approx(0.98)
    assert {piece.connection for piece in one.evidence} == {3}
