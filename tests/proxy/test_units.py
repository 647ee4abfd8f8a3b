"""Tests of sizes and times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.units import LARGEST_SIZE, TIMES, read_size, read_time, rounded_size, written_size, written_time
from tests.tables import each_row


@given(st.integers(0, 1 << 62))
def test_a_written_size_is_read_back(size: int) -> None:
    assert read_size(written_size(size)) == size


@each_row(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1 gib", 1 << 30), (" 7 ", 7), ("3KiB", 3072), ("2TiB", 2 << 40), ("5B", 5)],
)
def test_units_and_blanks_may_be_written_as_people_do(text: str, size: int) -> None:
    assert read_size(text) == size


@each_row("text", ["", "MiB", "1.5MiB", "-1", "1MB", "1 2", "\u0661"], ids=range(7))
def test_a_text_that_is_no_size_is_none(text: str) -> None:
    assert read_size(text) is None


@pytest.mark.parametrize("text", ["9" * 20, "9" * 5000, "9" * 5000 + "GiB"], ids=range(3))
def test_sizes_of_very_many_digits_are_larger_than_any(text: str) -> None:
    assert (read_size(text) or 0) > LARGEST_SIZE


@given(st.integers(0, 10**9) | st.floats(0.001, 1e9))
def test_a_written_time_is_read_back(seconds: float) -> None:
    assert read_time(written_time(seconds)) == seconds


@each_row(("seconds", "written"), [(7 * 86400, "7d"), (86400 + 3600, "25h"), (90, "90s"), (0.25, "0.25s")])
def test_a_time_is_written_with_the_largest_unit_that_leaves_no_remainder(seconds: float, written: str) -> None:
    assert written_time(seconds) == written


@each_row(
    ("size", "rounded"), [(0, "0B"), (1023, "1023B"), (1 << 20, "1MiB"), (270_553_174_016, "252GiB"), (1600, "1.6KiB")]
)
def test_a_rounded_size_has_one_decimal_place_at_most(size: int, rounded: str) -> None:
    assert rounded_size(size) == rounded


@given(st.integers(0, 10**9), st.sampled_from(sorted(TIMES)), st.sampled_from(["", " "]))
def test_each_unit_of_time_is_read_in_any_case(number: int, unit: str, blank: str) -> None:
    for written in (unit, unit.upper()):
        assert read_time(f"{number}{blank}{written}") == number * TIMES[unit]


@each_row(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5m", 90),
        ("2h", 7200),
        ("1 minute", 60),
        ("2 Hours", 7200),
        ("1.5 days", 129600),
        ("3 weeks", 1814400),
        ("5 milliseconds", 0.005),
    ],
)
def test_a_time_may_be_in_words_or_in_seconds(text: str, seconds: float) -> None:
    assert read_time(text) == seconds


@each_row("text", ["", "s", "minute", "-1s", "1.s", "1 2", "1e3s", "1mo", "inf", "nan", "\u0661s"])
def test_a_text_that_is_no_time_is_none(text: str) -> None:
    assert read_time(text) is None


def test_a_time_of_very_many_digits_is_endless() -> None:
    assert read_time("9" * 5000 + "s") == float("inf")
