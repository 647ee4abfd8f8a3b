"""Tests of the plan on a terminal."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from recorder.replay.outcome import BeforeKind, FromBefore, Plan, Touched
from recorder.replay.plan import Reason
from recorder.replay.results.planned import MOST_NAMES, whole_plan
from tests.hostile_text import TEXT
from tests.recorder.replay import some_results as results
from tests.recorder.replay.drawn import WIDTHS, check, drawn


def of(plan: Plan, width: int = 160) -> str:
    return drawn(whole_plan(plan, width), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_plan_fits_and_does_not_control_the_terminal(width: int) -> None:
    evil = (Touched(TEXT, 1, is_written=True),)
    plan = replace(results.plan(), topics=evil, groups=evil, transactions=evil, options=(TEXT,))
    plan.made[TEXT] = plan.requests[TEXT] = 1
    plan.sent[TEXT, 1] = plan.withheld[TEXT, TEXT] = 1
    plan.refusals = plan.notes = (TEXT,)
    check(of(plan, width), width)


def test_the_plan_says_how_many_requests_go_to_which_node() -> None:
    rows = [line.split("  ") for line in of(results.plan()).splitlines()]
    assert ["Produce", "180", "000", "60", "211", "60", "300", "60", "261", "-"] in [
        " ".join(row).split() for row in rows
    ]


def test_nodes_that_have_no_room_are_named() -> None:
    plan = results.plan()
    plan.target.nodes.update({node: f"staging-{node}.example:9092" for node in range(4, 30)})
    text = of(plan, 60)
    assert "no room here for: node" in text
    assert "later" in text.split("no room here for")[0]


def test_the_column_without_a_node_is_explained_where_it_stands() -> None:
    explanation = "later: only an answer of the target will tell the node"
    assert explanation in of(results.plan())
    plan = results.plan()
    known = {place: number for place, number in plan.sent.items() if place[1] is not None}
    assert explanation not in of(replace(plan, sent=Counter(known)))


def test_the_summary_first_says_that_nothing_was_sent() -> None:
    said = next(line for line in of(results.plan()).splitlines() if line.startswith("Nothing"))
    assert (
        said.split(". ")[1]
        == "288 244 requests would be; 27 (less than 0.01 %) would be withheld; the recording refused 8."
    )


def test_refusals_come_before_all_tables() -> None:
    plan = replace(results.plan(), refusals=("group g has members",), notes=("would create 1 topic (t)",))
    text = of(plan)
    assert text.index("refused: group g has members") < text.index("note: would create") < text.index("Produce")


def test_requests_withheld_by_design_are_no_share() -> None:
    plan = replace(results.plan(), withheld=Counter({("AlterConfigs", Reason.NEEDS_ADMIN.value): 6}))
    assert "288 244 requests would be; 6 (by design) would be withheld." in of(plan)


def test_names_that_are_written_stand_first_and_the_list_ends() -> None:
    many = (*(Touched(f"read-{at}", 9) for at in range(MOST_NAMES)), Touched("written-0", 1, is_written=True))
    text = of(replace(results.plan(), topics=many))
    assert text.index("written-0") < text.index("read-0")
    assert f"51 topics, 1 written, the first {MOST_NAMES} of them" in " ".join(text.split())


def test_what_is_from_before_the_recording_stands_in_the_plan() -> None:
    plan = replace(results.plan(), before=(FromBefore(BeforeKind.RECORDS, "orders", 500),))
    assert "From before the recording, so not expected: 500 records" in of(plan)
