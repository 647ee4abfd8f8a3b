"""Tests of the end of a replay: when members hand over their closing requests."""

from __future__ import annotations

from recorder.replay.options import Options
from tests.recorder.replay.engine.group_life import Life, lived
from tests.recorder.replay.group_coordinator import SECOND


def test_members_are_asked_behind_made_answers_though_nothing_else_was_to_come() -> None:
    # the member requests a rebalance, which on the target another member, elected there, has to begin
    forced = [(0, "start", 101), (1, "start", 103), (0, "rejoin", 376)]
    life = Life(lived(forced, seed=15), options=Options(speed=1.0), elect=max)
    assert life.result.made["a member asks for its assignment"] == 1
    assert life.result.totals.withheld == {}
    assert life.result.totals.lost == 0


def test_a_member_that_the_target_refuses_joins_again_at_once_and_not_with_the_next_heartbeat() -> None:
    forced = [(0, "start", 0), (1, "start", 2), (0, "rejoin", 275)]
    as_recorded, other = (
        Life(lived(forced), options=Options(speed=None), elect=elect).simulation.now for elect in (min, max)
    )
    assert other - as_recorded < SECOND
