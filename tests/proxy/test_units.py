"""Tests of sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.units import LARGEST_SIZE, read_size, written_size


@given(st.integers(0, 1 << 62))
def test_a_written_size_is_read_back(size: int) -> None:
    assert read_size(written_size(size)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1 gib", 1 << 30), (" 7 ", 7), ("3KiB", 3072), ("2TiB", 2 << 40), ("5B", 5)],
)
def test_units_and_blanks_may_be_written_as_people_do(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1.5MiB", "-1", "1MB", "1 2", "\u0661"], ids=range(7))
def test_a_text_that_is_no_size_is_none(text: str) -> None:
    assert read_size(text) is None


@pytest.mark.parametrize("text", ["9" * 20, "9" * 5000, "9" * 5000 + "GiB"], ids=range(3))
def test_sizes_of_very_many_digits_are_larger_than_any(text: str) -> None:
    assert (read_size(text) or 0) > LARGEST_SIZE
