"""Tests of the section on consumer groups."""

from __future__ import annotations

import pytest

from recorder.analysis.summary.bounds import Timeline, Top
from recorder.analysis.summary.sections.groups import Group, Groups
from recorder.analysis.summary.whole import Summary
from recorder.report.capture import html
from recorder.report.sections.groups import groups
from tests.recorder.report.pages import Page


@pytest.mark.parametrize(
    ("lag", "age_ms", "is_behind"), [(0, 0, False), (16, 360, False), (16, 10_000, True), (16, None, True)]
)
def test_a_group_that_will_commit_soon_is_not_behind(lag: int, age_ms: float | None, is_behind: bool) -> None:
    group = Group("g", last_lag=lag, most_lag=lag, last_lag_ms=age_ms)
    alone = Summary(timeline=Timeline(0, 10**9, 3), groups=Groups(groups=Top((group,), 1)))
    (plot,) = groups(alone).plots
    late = "behind by 10 s or more at the end"
    assert plot.answer == (f"{late.capitalize()}: g (1 of 1 group)." if is_behind else f"No group is {late}.")
    words = Page(html(alone)).words
    assert f"1 group, {int(is_behind)} {late}." in words
    assert f"{int(is_behind)} behind by 10 s" in words
