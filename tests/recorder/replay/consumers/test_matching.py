"""Tests of matching two streams of records."""

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
    assert (found.equal, found.extra, found.ahead) == (2, 1, 2)
