"""Tests of a whole comparison: its verdict and its JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.analysis.change.facts import ApiFacts, CaptureFacts, ClientFacts, ErrorFacts, ManyClients, VersionFacts
from recorder.analysis.change.judged import Change
from recorder.analysis.change.whole import Changes, Verdict, changes
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import Findings, Unit, Unjudged
from tests.recorder.analysis.change.test_judged import opposite
from tests.recorder.report import some_sides as sides
from tests.recorder.report.some_sides import finding

COUNT, MS = st.integers(0, 5000), st.none() | st.floats(0, 1e6)
NAME = st.sampled_from(["Produce", "Fetch", "orders", ""])
APIS = st.builds(ApiFacts, NAME, st.sampled_from([None, "wait"]), COUNT, COUNT, COUNT, COUNT, COUNT, MS, MS, MS)
FOUND = st.builds(finding, NAME, NAME, MS, st.sampled_from(Unit))
FACTS = st.builds(
    CaptureFacts,
    recorded_ns=st.integers(0, 10**11),
    frames=COUNT,
    apis=st.lists(APIS, max_size=4).map(tuple),
    read=st.dictionaries(NAME, st.integers(5000, 9000)),
    errors=st.lists(st.builds(ErrorFacts, NAME, NAME, COUNT, st.booleans()), max_size=4).map(tuple),
    versions=st.lists(st.builds(VersionFacts, NAME, st.integers(0, 3), st.integers(1, 99)), max_size=4).map(tuple),
    clients=st.lists(st.builds(ClientFacts, NAME, NAME, COUNT), max_size=4).map(lambda some: ManyClients(tuple(some))),
    findings=st.builds(
        Findings,
        found=st.lists(FOUND, max_size=4).map(lambda some: Table(tuple(some))),
        unjudged=st.lists(st.builds(Unjudged, NAME, NAME), max_size=1).map(lambda some: Table(tuple(some))),
    ),
)
TABLES = ("findings", "latency", "waits", "errors", "traffic", "versions", "clients")
SAME = {Change.UNCHANGED, Change.UNKNOWN}


@given(FACTS)
def test_a_capture_does_not_differ_from_itself(one: CaptureFacts) -> None:
    found = changes(one, one)
    assert {row.change for name in TABLES for row in getattr(found, name)} <= SAME
    assert found.verdict in (Verdict.NO_DIFFERENCE, Verdict.TOO_LITTLE, Verdict.NOT_COMPARED)


@given(FACTS, FACTS)
def test_the_other_way_round_everything_is_the_opposite(before: CaptureFacts, after: CaptureFacts) -> None:
    there, back = changes(before, after), changes(after, before)
    for name in TABLES:
        assert told(there, name) == {key: opposite(change) for key, change in told(back, name).items()}


def told(found: Changes, table: str) -> dict[tuple[object, ...], Change]:
    """Returns the change of each row in a table."""
    keys = ("rule", "subject", "api", "wait", "error", "is_flow", "client_id")
    return {tuple(getattr(row, key, None) for key in keys): row.change for row in getattr(found, table)}


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (sides.monday(), sides.tuesday(), Verdict.MIXED),
        (sides.monday(), sides.monday(), Verdict.NO_DIFFERENCE),
        (sides.monday(), sides.nothing(), Verdict.NOT_COMPARED),
        (CaptureFacts(frames=2), CaptureFacts(frames=2), Verdict.TOO_LITTLE),
        (sides.monday(), replace(sides.monday(), findings=Findings()), Verdict.BETTER),
        (replace(sides.monday(), findings=Findings()), sides.monday(), Verdict.WORSE),
    ],
    ids=["mixed", "same", "nothing", "little", "better", "worse"],
)
def test_the_verdict_is_of_findings_latency_and_errors(
    before: CaptureFacts, after: CaptureFacts, verdict: Verdict
) -> None:
    assert changes(before, after).verdict is verdict


def test_the_document_has_the_verdict_both_captures_and_all_tables() -> None:
    found = json.loads(changes(sides.monday(), sides.tuesday()).as_json())
    assert (found["format"], found["version"]) == ("kafka-wiretap captures compared", 1)
    assert (found["verdict"], found["tolerance"], found["enough"]["p95_ms"]) == ("better and worse", 0.2, 200)
    assert (found["before"]["seconds"], found["after"]["exchanges"]) == (60.0, 5600)
    assert set(TABLES) <= set(found)
    assert found["findings"]["rows"][0]["change"] == "worse"
    assert "apis" not in found["before"]
