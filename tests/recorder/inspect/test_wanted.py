"""Tests of filters as expressions, and of the hours that they rule out."""

from __future__ import annotations

from recorder.capture.frames import HOUR_NS
from recorder.inspect.wanted import Wanted


def test_no_filter_is_no_expression() -> None:
    assert Wanted().expression() is None


def test_only_hours_that_can_hold_wanted_frames_are_opened() -> None:
    wanted = Wanted(since_ns=5 * HOUR_NS + 1, until_ns=7 * HOUR_NS)
    assert [hour for hour in range(10) if wanted.in_hour(hour * HOUR_NS)] == [5, 6, 7]
    assert Wanted().in_hour(0)
