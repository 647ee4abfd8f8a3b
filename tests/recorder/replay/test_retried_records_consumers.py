"""Consumers around retried records: they find all that the recording had, and nothing else."""

from __future__ import annotations

import pytest

from proxy.wire.keys import PRODUCE
from tests.recorder.replay.refused_records import RECORDED_FROM, REFUSED, Recorded, Target, batch, replayed, request
from tests.recorder.replay.simple import PRODUCE_VERSION, produced


def test_a_consumer_of_a_topic_that_was_deleted_and_created_again_continues_in_the_new_log() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"o0", b"o1")
    recorded.reads(0, 2)
    recorded.makes_the_topic_anew()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"n0", b"n1", b"n2", connection=2)
    recorded.reads(2, 3)
    (only,) = replayed(recorded, target).result.streams
    assert target.log == [b"r", b"n0", b"n1", b"n2"]
    assert (only.equal, only.missing, only.unread, only.extra) == (3, 0, 0, 0)


def test_a_consumer_that_begins_before_a_late_retry_finds_it_and_no_extra_records() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.produces(b"X")
    recorded.reads(15, 18, 21)
    (only,) = replayed(recorded, target).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (6, 0, 0, 0)


@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "as recorded"])
def test_a_consumer_that_begins_between_a_refusal_and_its_retry_finds_the_record_and_no_extra_ones(
    speed: float | None,
) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.reads(15, 20)
    recorded.produces(b"X")
    recorded.reads(20, 21)
    (only,) = replayed(recorded, target, speed=speed).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (6, 0, 0, 0)


def test_records_before_the_one_that_a_consumer_begins_with_are_not_extra_if_the_target_is_late_with_them() -> None:
    recorded, target = Recorded(), Target(slow=b"2")
    recorded.produces(b"0")
    slow = recorded.recording.asks(recorded.at, 2, PRODUCE, PRODUCE_VERSION, request(batch(b"1", b"2")))
    recorded.log += [b"1", b"2"]
    recorded.at += 10
    recorded.reads(3, 3)
    recorded.recording.answers(recorded.at, slow, produced(base=RECORDED_FROM + 1))
    recorded.produces(b"3", connection=3)
    recorded.reads(3, 4)
    (only,) = replayed(recorded, target, speed=1.0).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (1, 0, 0, 0)


@pytest.mark.parametrize("makes_anew", [False, True], ids=["topic stays", "topic is deleted"])
def test_a_record_that_the_recording_has_where_a_consumer_stopped_is_not_extra(makes_anew: bool) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"0")
    # the target gets them in the other order
    behind, before = (
        recorded.recording.asks(recorded.at, connection, PRODUCE, PRODUCE_VERSION, request(batch(value)))
        for connection, value in ((1, b"2"), (2, b"1"))
    )
    for base, each in ((1, before), (2, behind)):
        recorded.recording.answers(recorded.at + 1, each, produced(base=RECORDED_FROM + base))
    recorded.log += [b"1", b"2"]
    recorded.at += 10
    recorded.reads(0, 2)
    if makes_anew:
        recorded.makes_the_topic_anew()
        recorded.produces(b"3")
    # of a deleted log, nobody knows any more what stood where
    (only,) = replayed(recorded, target, differences=int(makes_anew)).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (2, 0, 0, int(makes_anew))


@pytest.mark.parametrize("start", [19, 20, 21], ids=["before", "at", "behind"])
def test_records_before_the_one_that_a_consumer_begins_with_are_not_extra_around_a_late_retry(start: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.produces(b"X")
    for number in range(20, 30):
        recorded.produces(b"%d" % number, connection=2)
    recorded.reads(start, 31)
    (only,) = replayed(recorded, target).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (31 - start, 0, 0, 0)


def test_records_that_the_target_alone_has_behind_the_one_that_a_consumer_begins_with_are_extra() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"X", code=REFUSED)
    for number in range(20):
        recorded.produces(b"%d" % number, connection=2)
    recorded.produces(b"X")
    recorded.produces(b"q", code=REFUSED, connection=3)
    recorded.produces(b"20", connection=2)
    recorded.reads(20, 22)
    (only,) = replayed(recorded, target, differences=1).result.streams
    assert (only.equal, only.missing, only.unread, only.extra) == (2, 0, 0, 1)
