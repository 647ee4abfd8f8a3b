"""Tests of allowances: taking bytes, and refusing all further ones once exceeded."""

import pytest

from proxy.wire.budget import FREE, Budget
from proxy.wire.errors import OverBudget


def test_what_is_taken_is_gone() -> None:
    values = Budget(10).values
    values.take(4)
    assert values.allows(6)
    assert values.left == 0
    assert not values.is_used_up


def test_who_wanted_too_much_once_gets_nothing_more() -> None:
    budget = Budget(10)
    with pytest.raises(OverBudget, match="unfolding makes more than 10 bytes"):
        budget.unfolded.take(11)
    with pytest.raises(OverBudget):
        budget.unfolded.take(1)
    assert not budget.unfolded.allows(0)
    assert budget.used_up == ["unfolding"]


def test_one_kind_that_is_used_up_leaves_the_others() -> None:
    budget = Budget(10)
    assert not budget.values.allows(11)
    assert budget.text.allows(10)
    assert budget.unfolded.allows(10)
    assert budget.used_up == ["decoding"]


def test_what_is_free_never_ends() -> None:
    assert FREE.allows(1 << 60)
    FREE.take(1 << 60)
    assert not FREE.is_used_up
