"""Tests of tables as values."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.terminal import printable
from recorder.analysis.summary.bounds import Table, Timeline
from recorder.report.listings import (
    LONGEST_NAME,
    bytes_of,
    clock,
    listing,
    milliseconds,
    moment_of,
    name,
    number,
    short,
    time_of,
)

DAY = 86_400 * 10**9
# 2026-11-20 13:05:00 UTC
START = 1_795_179_900 * 10**9


class Animal(NamedTuple):
    species: str | None
    legs: float | None


SPECIES, LEGS = name("species", lambda row: row.species), number("legs", lambda row: row.legs)


def test_a_table_sorts_by_raw_numbers_and_shows_words() -> None:
    sizes = bytes_of("size", lambda row: row.legs)
    assert [(cell.text, cell.sort) for cell in (sizes.cell(Animal("ant", legs)) for legs in (999, 12_345))] == [
        ("999 B", "999"),
        ("12.3 kB", "12345"),
    ]


@pytest.mark.parametrize("legs", [None, math.nan, math.inf], ids=str)
def test_an_unknown_value_is_a_dash_without_a_sort_key(legs: float | None) -> None:
    found = time_of("time", lambda row: row.legs).cell(Animal("ant", legs))
    assert (found.is_unknown, found.sort) == (True, "")


def test_a_cell_with_zero_is_known_and_an_empty_one_is_not() -> None:
    assert not LEGS.cell(Animal("snake", 0)).is_unknown
    assert SPECIES.cell(Animal("", 6)).is_unknown


def test_a_column_of_which_no_row_knows_anything_is_left_out() -> None:
    found = listing("animals", (SPECIES, LEGS), Table((Animal("ant", None), Animal("bee", None))))
    assert [column.title for column in found.columns] == ["species"]
    assert [[cell.text for cell in row] for row in found.cells] == [["ant"], ["bee"]]


def test_a_table_says_how_many_rows_it_leaves_out() -> None:
    rows = (Animal("ant", 6),)
    assert listing("animals", (SPECIES,), Table(rows, total=12_000)).left_out == "the first 1 of 12 000"
    assert listing("animals", (SPECIES,), Table(rows)).left_out == ""


@given(st.text(st.characters(exclude_categories=()), max_size=400))
def test_a_name_takes_no_more_room_than_there_is_and_keeps_its_beginning(text: str) -> None:
    found = short(text)
    assert len(printable(found)) <= LONGEST_NAME + 1
    assert found == text or text.startswith(found[:-1])


def test_times_have_their_day_only_where_there_are_several() -> None:
    one, two = Timeline.over(START, START + 3600 * 10**9), Timeline.over(START, START + DAY)
    assert moment_of("at", lambda row: row, clock(one)).cell(START).text == "13:05:00"
    assert moment_of("at", lambda row: row, clock(two)).cell(START).text == "2026-11-20 13:05:00"


@given(st.integers())
def test_any_number_is_a_time_of_day(at_ns: int) -> None:
    """A summary may come from anywhere."""
    assert clock(Timeline())(at_ns)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "12.3 µs"), (5.0, "5 ms"), (90_000, "1 min 30 s")],
    ids=["microseconds", "milliseconds", "minutes"],
)
def test_milliseconds_are_written_in_the_fitting_unit(value: float, text: str) -> None:
    assert milliseconds(value) == text
