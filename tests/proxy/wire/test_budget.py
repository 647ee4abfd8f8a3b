"""Tests of allowances: taking bytes, and refusing all further ones once exceeded."""

import pytest

from proxy.wire.budget import FREE, Budget
from proxy.wire.errors import OverBudget


def test_taken_bytes_leave_the_allowance() -> None:
    values = Budget(10).values
    values.take(4)
    assert values.try_take(6)
    assert values.left == 0
    assert not values.is_used_up


def test_an_exceeded_allowance_gives_nothing_more() -> None:
    budget = Budget(10)
    with pytest.raises(OverBudget, match="unfolding makes more than 10 bytes"):
        budget.unfolded.take(11)
    with pytest.raises(OverBudget):
        budget.unfolded.take(1)
    assert not budget.unfolded.try_take(0)
    assert budget.used_up == ["unfolding"]


def test_a_used_up_allowance_leaves_the_others() -> None:
    budget = Budget(10)
    assert not budget.values.try_take(11)
    assert budget.text.try_take(10)
    assert budget.unfolded.try_take(10)
    assert budget.used_up == ["decoding"]


def test_the_free_allowance_is_never_used_up() -> None:
    assert FREE.try_take(1 << 60)
    FREE.take(1 << 60)
    assert not FREE.is_used_up
