"""Tests of which items of a list are shown, and in which order."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.errors import OverBudget
from recorder.inspect.picking import Picking, picking
from recorder.reading.exchanges import ROW_SIZE

BUDGET = 1000 * ROW_SIZE
Item = tuple[int, int | None]


def value(item: Item, _: str) -> int | None:
    return item[1]


def picked(asked: Picking, items: list[Item], most: int = BUDGET) -> list[Item]:
    return [*asked.picked(items, value, most=most)]


@given(st.lists(st.none() | st.integers(0, 3), max_size=12), st.booleans(), st.none() | st.integers(0, 5))
def test_sorted_items_keep_their_order_among_equals_and_those_without_a_value_come_last(
    values: list[int | None], descending: bool, limit: int | None
) -> None:
    items = [*enumerate(values)]
    found = picked(Picking("latency", descending, limit), items)
    sign = -1 if descending else 1
    every = sorted((item for item in items if item[1] is not None), key=lambda item: (sign * (item[1] or 0), item[0]))
    assert found == [*every, *(item for item in items if item[1] is None)][:limit]


@pytest.mark.parametrize(
    ("flags", "numbers"),
    [
        ({}, [0, 1, 2, 3]),
        ({"limit": 2}, [0, 1]),
        ({"last": 2}, [2, 3]),
        ({"last": 0}, []),
        ({"slowest": 2}, [2, 0]),
        ({"largest": 1}, [2]),
        ({"sort": "latency"}, [3, 0, 2, 1]),
        ({"sort": "-latency", "limit": 1}, [2]),
    ],
)
def test_flags_pick_what_they_name(flags: dict[str, Any], numbers: list[int]) -> None:
    items = [(0, 5), (1, None), (2, 9), (3, 1)]
    given: dict[str, Any] = {"last": None, "limit": None} | flags
    assert [number for number, _ in picked(picking(**given), items)] == numbers


@pytest.mark.parametrize(
    "flags",
    [{"slowest": 1, "largest": 1}, {"sort": "at", "last": 1}, {"slowest": 1, "limit": 1}, {"last": 1, "limit": 2}],
)
def test_flags_that_contradict_each_other_are_refused(flags: dict[str, Any]) -> None:
    given: dict[str, Any] = {"last": None, "limit": None} | flags
    with pytest.raises(click.UsageError, match="ask for different lists"):
        picking(**given)


@pytest.mark.parametrize("asked", [Picking("size"), Picking("size", limit=11), Picking(limit=11, from_end=True)])
def test_what_is_kept_is_bounded(asked: Picking) -> None:
    with pytest.raises(OverBudget):
        picked(asked, [(number, number) for number in range(20)], most=10 * ROW_SIZE)
