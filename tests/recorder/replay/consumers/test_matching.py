"""Tests of matching two streams of records."""

from functools import partial

import pytest

from recorder.replay.consumers.matching import EARLIER, NO_PRODUCER, Matching, Side


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
