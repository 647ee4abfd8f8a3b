"""Tests of the readers of a partition: each rule of `readers` alone."""

import pytest

from recorder.replay.consumers.readers import Position, Reader, Readers
from recorder.replay.plan import Peer

ME = Peer("host", "reader")
A0 = ("a", 0)
ONE, TWO = ("s", 1), ("s", 2)


def _read(readers: Readers, connection: tuple[str, int], offset: int, end: int) -> Reader:
    """A recorded Fetch from an offset, whose records end at another one; the target's offsets are 1000 higher."""
    found = readers.reader(ME, connection, A0, offset)
    readers.move(found, connection, A0, Position(end, end + 1000))
    found.settled(connection)
    return found


def test_two_connections_of_one_peer_that_read_the_same_are_two_readers() -> None:
    readers = Readers()
    one = _read(readers, ONE, 0, 50)
    two = _read(readers, TWO, 0, 50)
    assert one.consumer != two.consumer
    assert _read(readers, ONE, 50, 90) is one
    assert _read(readers, TWO, 50, 90) is two


def test_a_connection_that_asks_where_another_ended_is_the_same_reader() -> None:
    readers = Readers()
    one = _read(readers, ONE, 0, 50)
    assert _read(readers, TWO, 50, 90) is one
    assert one.position == Position(90, 1090)


def test_consumers_that_connect_anew_at_one_offset_at_once_go_on_as_readers_of_their_own() -> None:
    readers = Readers()
    one, two = _read(readers, ONE, 0, 50), _read(readers, TWO, 0, 50)
    third, fourth = (readers.reader(ME, ("s", number), A0, 50) for number in (3, 4))
    assert {third.consumer, fourth.consumer} == {one.consumer, two.consumer}
    fifth = readers.reader(ME, ("s", 5), A0, 50)
    assert fifth.consumer not in {one.consumer, two.consumer}


def test_a_reader_whose_former_connection_still_asks_is_not_gone_on_by_another() -> None:
    readers = Readers()
    one = _read(readers, ONE, 0, 50)
    assert readers.reader(ME, ONE, A0, 50) is one
    assert readers.reader(ME, TWO, A0, 50) is not one
    one.settled(ONE)
    assert readers.reader(ME, ("s", 3), A0, 50) is one


def test_a_reader_goes_back_to_a_connection_that_it_had() -> None:
    readers = Readers()
    one = _read(readers, ONE, 0, 50)
    _read(readers, TWO, 50, 90)
    back = _read(readers, ONE, 90, 120)
    assert back is one
    assert back.position == Position(120, 1120)


def test_a_consumer_that_seeks_is_a_new_reader() -> None:
    readers = Readers()
    one = _read(readers, ONE, 0, 50)
    sought = _read(readers, ONE, 10, 50)
    assert sought.consumer != one.consumer
    assert _read(readers, ONE, 50, 60) is sought


def test_the_readings_that_a_consumer_begins_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.replay.consumers.readers._MOST_SEEKS", 3)
    readers = Readers()
    found = [_read(readers, ONE, 0, 50).consumer for _ in range(10)]
    assert len(set(found)) == 4
    assert len(set(found[3:])) == 1


def test_readers_that_begin_at_one_offset_are_told_apart_once_both_have_read() -> None:
    readers = Readers()
    one = _read(readers, ONE, 0, 0)
    assert _read(readers, TWO, 0, 50) is one
    assert _read(readers, ONE, 0, 50) is not one


def test_any_offset_continues_after_a_missing_answer() -> None:
    readers = Readers()
    one = readers.reader(ME, ONE, A0, 0)
    readers.move(one, ONE, A0, Position(None, 1050))
    assert one.is_at(77)


def test_a_reader_whose_offset_the_target_refused_is_nowhere() -> None:
    readers = Readers()
    one = _read(readers, ONE, 0, 50)
    readers.forget(ME, ONE, A0)
    assert readers.reader(ME, ONE, A0, 50).position is None
    assert not one.is_at(50)


def test_the_readers_of_a_peer_that_are_remembered_are_bounded() -> None:
    readers = Readers()
    first = _read(readers, ONE, 0, 50)
    for number in range(2, 40):
        _read(readers, ("s", number), number * 1000, number * 1000 + 5)
    assert readers.reader(ME, ONE, A0, 50) is not first
