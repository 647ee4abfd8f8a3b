"""Tests of what a cluster's answers tell of topics' ids."""

from proxy.wire.places import NO_ID
from recorder.capture.topic_ids import TopicIds

ONE, TWO, THREE = (bytes([number] * 16) for number in (1, 2, 3))


def test_a_topic_that_is_made_again_has_both_ids():
    known = TopicIds()
    known.learn(ONE, "orders")
    known.learn(TWO, "orders")
    assert [known.name(each) for each in (ONE, TWO, THREE)] == ["orders", "orders", None]


def test_the_id_of_zeros_is_of_no_topic():
    known = TopicIds()
    known.learn(NO_ID, "orders")
    assert known.name(NO_ID) is None


def test_what_was_told_longest_ago_is_forgotten_first():
    known = TopicIds(most=2)
    for topic_id, name in ((ONE, "a"), (TWO, "b"), (ONE, "a"), (THREE, "c")):
        known.learn(topic_id, name)
    assert [known.name(each) for each in (ONE, TWO, THREE)] == [None, "b", "c"]
    assert len(known) == 2
