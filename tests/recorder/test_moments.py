"""Tests of times as people write them."""

from __future__ import annotations

import pytest

from recorder.moments import FIRST_NS, LAST_NS, Moment, read
from tests.tables import each_row

SECOND = 10**9
# 2026-11-21T12:00:30 UTC
LAST = 1795262430 * SECOND


def resolved(text: str) -> int:
    return read(text).resolved(lambda: LAST)


@each_row(
    ("text", "seconds"),
    [
        ("2026-11-21T12:00:00", -30),
        ("2026-11-21 11:00", -3630),
        ("2026-11-21T13:00:00+01:00", -30),
        ("2026-11-21", -43230),
        ("12:00", -30),
        ("12:00:29.5", -0.5),
        ("12:01", 30),
        ("11:48", -750),
        ("13:00+01:00", -30),
        ("23:00-01:00", 43170),
        ("-5m", -300),
        ("-90s", -90),
        ("-1.5h", -5400),
        ("-250ms", -0.25),
        ("-2d", -172800),
        ("-5 minutes", -300),
    ],
)
def test_a_time_is_a_moment_one_of_the_last_day_or_so_long_before_the_last_frame(text: str, seconds: float) -> None:
    assert resolved(text) == LAST + round(seconds * SECOND)


def test_a_day_is_the_last_frames_in_the_zone_that_is_given() -> None:
    """In New Zealand it is the 22nd already."""
    assert resolved("00:30+13:00") == LAST - (30 * 60 + 30) * SECOND


def test_the_capture_is_only_asked_where_it_matters() -> None:
    def never() -> int:
        raise AssertionError

    assert read("2026-11-21T12:00:30").resolved(never) == LAST


@pytest.mark.parametrize(
    ("text", "found"),
    [("9999-12-31", LAST_NS), ("0001-01-01", FIRST_NS)],
)
def test_a_time_that_no_column_can_hold_is_before_or_after_all_frames(text: str, found: int) -> None:
    assert read(text) == Moment(ns=found)
    assert FIRST_NS <= resolved(f"-{10**17}d") < 0
    assert FIRST_NS <= resolved("-" + "9" * 500 + "h") < 0


@each_row("text", ["noon", "5m", "-5", "-m", "13", "25:00", "-5m5", "", "-5 parsecs", "\udcff"])
def test_a_bad_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|hour must be|string"):
        read(text)
