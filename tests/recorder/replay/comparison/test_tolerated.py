"""Error codes that differ and mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import CREATE_TOPICS, HEARTBEAT, METADATA, OFFSET_COMMIT, PRODUCE
from recorder.replay.comparison.tolerated import are_alike

CODES = st.integers(-1, 140)


@given(api_key=st.integers(0, 94), code=CODES)
def test_equal_codes_are_alike(api_key: int, code: int) -> None:
    assert are_alike(api_key, code, code)


@given(recorded=CODES)
def test_records_that_the_recorded_cluster_refused_may_be_taken(recorded: int) -> None:
    assert are_alike(PRODUCE, recorded, 0)


def test_records_that_the_target_has_already_are_taken() -> None:
    assert are_alike(PRODUCE, 0, 46)
    assert not are_alike(PRODUCE, 0, 45)


@pytest.mark.parametrize("recorded", [5, 6, 14, 15, 16, 27, 79])
def test_what_passes_by_itself_need_not_happen_again(recorded: int) -> None:
    assert are_alike(METADATA, recorded, 0)
    assert not are_alike(METADATA, 0, recorded)


def test_a_refusal_for_good_must_be_one_again() -> None:
    assert not are_alike(CREATE_TOPICS, 36, 0)
    assert not are_alike(METADATA, 29, 0)


def test_a_heartbeat_hears_of_a_rebalance_sooner_or_later() -> None:
    assert are_alike(HEARTBEAT, 0, 27)
    assert are_alike(HEARTBEAT, 27, 0)
    assert not are_alike(OFFSET_COMMIT, 0, 27)


@given(recorded=CODES, target=CODES)
def test_two_different_errors_are_never_alike(recorded: int, target: int) -> None:
    assert are_alike(PRODUCE, recorded, target) == (recorded == target or target == 0 or (recorded, target) == (0, 46))
