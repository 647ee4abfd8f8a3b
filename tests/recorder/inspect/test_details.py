"""Tests of the details of events, in captures that may be hostile."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from recorder.inspect.details import detail, numbers
from recorder.inspect.losses import Losses
from tests.tables import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(["lost", "connections", "a"]), one),
)


@each_row("text", [None, "", "no json", "[1]", "7", "[" * 100_000], ids=range(6))
def test_a_detail_that_is_no_json_object_is_empty(text: str | None) -> None:
    assert detail({"detail": text}) == {}


def test_only_numbers_are_numbers() -> None:
    assert numbers({"a": 1, "b": "2", "c": None}) == {"a": 1}
    assert numbers([1]) == {}


def test_an_impossible_count_in_a_detail_is_dropped() -> None:
    assert numbers({"a": -1, "b": 1 << 62, "c": 10**400, "d": True, "e": 1 << 56}) == {"e": 1 << 56}


@given(JSON)
def test_a_gaps_losses_are_counted_whatever_its_details_hold(told: object) -> None:
    event = {"kind": "gap", "cause": "c", "frames": 2, "bytes": 3, "session": "s", "connection": 1}
    losses = Losses()
    losses.add_events([event | {"detail": json.dumps(told)}])
    (gap,) = losses.missing.gaps
    assert (gap.gaps, gap.frames, gap.bytes) == (1, 2, 3)
