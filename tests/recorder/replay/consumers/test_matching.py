"""Tests of matching two streams of records."""

from functools import partial

import pytest

from recorder.replay.consumers.matching import EARLIER, NO_PRODUCER, Matching, Side
from tests.tables import each_row


def test_records_before_the_one_that_a_consumer_began_with_are_neither_extra_nor_ahead_but_may_be_equal() -> None:
    found = Matching()
    for number in (1, 2, 3):
        found.add(Side.REPLAYED, number, 0, EARLIER)
    found.add(Side.REPLAYED, 4, 0, NO_PRODUCER)
    found.add(Side.REPLAYED, 5, 0, NO_PRODUCER)
    found.add(Side.REPLAYED, 6, 0, NO_PRODUCER)
    assert found.ahead == 3
    for number in (2, 5):
        found.add(Side.RECORDED, number, 0, NO_PRODUCER)
    assert (found.equal, found.extra(), found.ahead) == (2, 1, 2)


@pytest.mark.parametrize("is_ahead", [True, False], ids=["target-first", "recorded-first"])
def test_a_record_is_not_extra_if_an_equal_earlier_one_is_the_counterpart_of_the_recorded_one(is_ahead: bool) -> None:
    found = Matching()
    recorded = [partial(found.add, Side.RECORDED, number, 0, NO_PRODUCER) for number in (1, 2)]
    found.add(Side.REPLAYED, 1, 0, EARLIER)
    if not is_ahead:
        recorded.pop(0)()
    for number in (1, 2):
        found.add(Side.REPLAYED, number, 0, NO_PRODUCER)
    for add in recorded:
        add()
    assert (found.equal, found.extra()) == (2, 0)


def test_a_record_is_not_extra_from_where_the_recorded_consumer_stopped() -> None:
    found = Matching()
    for offset, number in ((50, 3), (51, 2), (52, 1)):
        found.add(Side.REPLAYED, number, 0, NO_PRODUCER, offset)
    found.add(Side.RECORDED, 1, 0, NO_PRODUCER)
    assert [found.extra(stopped_at) for stopped_at in (None, 53, 52, 51, 50)] == [2, 2, 2, 1, 0]


def add_before(found: Matching, *numbers: int) -> None:
    for number in numbers:
        found.add(Side.RECORDED, number, 0, NO_PRODUCER, is_before=True)


def counts(found: Matching) -> tuple[int, int, int]:
    return found.equal, found.owed, found.before


def test_records_from_before_the_recording_are_not_owed() -> None:
    found = Matching()
    add_before(found, 1, 2)
    found.add(Side.RECORDED, 3, 0, NO_PRODUCER)
    found.add(Side.REPLAYED, 2, 0, NO_PRODUCER)
    assert counts(found) == (1, 1, 1)


@each_row("order", ["brt", "btr", "tbr", "rbt", "rtb", "trb"])
def test_an_equal_record_counts_for_the_owed_one_and_not_for_that_from_before(order: str) -> None:
    """A record from before and a recorded one are equal, and the target gives one, in any order."""
    found = Matching()
    for letter in order:
        if letter == "b":
            add_before(found, 1)
        else:
            found.add(Side.RECORDED if letter == "r" else Side.REPLAYED, 1, 0, NO_PRODUCER)
    assert counts(found) == (1, 0, 1)
    assert found.extra() == 0


def test_records_from_before_stay_apart_when_timestamps_are_not_compared_any_more() -> None:
    found = Matching()
    add_before(found, 1)
    found.add(Side.RECORDED, 2, 0, NO_PRODUCER)
    found.forget_times()
    assert counts(found) == (0, 1, 1)


def test_records_from_before_are_not_owed_where_only_sums_are_kept() -> None:
    found = Matching()
    add_before(found, 1, 2)
    found.add(Side.RECORDED, 3, 0, NO_PRODUCER)
    found.sum_up()
    add_before(found, 4)
    assert counts(found)[1:] == (1, 3)
    found.add(Side.REPLAYED, 3, 0, NO_PRODUCER)
    assert counts(found) == (1, 0, 3)
    assert not found.is_unlike
