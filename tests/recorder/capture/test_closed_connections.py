"""Tests of the reader's count of closed connections against the writer's."""

from recorder.capture.closed_connections import MissedConnections, ReaderTotals
from recorder.capture.inventory import ClosedTotals


def test_who_has_seen_all_has_missed_nothing() -> None:
    closed = ReaderTotals()
    assert closed.totals is not None
    closed.totals.add_closed(3, (10, 20))
    assert closed.adopt({"connections": 1, "frames": 3, "bytes": 30}) == MissedConnections(0, 0, 0)


def test_what_the_writer_is_ahead_is_missed_and_said_once() -> None:
    closed = ReaderTotals()
    told = {"connections": 2, "frames": 8, "bytes": 80}
    assert closed.adopt(told) == MissedConnections(2, 8, 80)
    assert closed.adopt(told) == MissedConnections(0, 0, 0)
    assert closed.totals == ClosedTotals(2, 8, 80)


def test_who_has_lost_their_own_account_cannot_tell_and_goes_on_from_the_writers() -> None:
    closed = ReaderTotals()
    closed.totals = None
    assert closed.adopt({"connections": 2, "frames": 8, "bytes": 80}) is None
    assert closed.adopt({"connections": 3, "frames": 9, "bytes": 81}) == MissedConnections(1, 1, 1)


def test_a_writer_that_is_behind_is_not_believed() -> None:
    closed = ReaderTotals()
    closed.totals = ClosedTotals(5, 5, 5)
    assert closed.adopt({"connections": 4, "frames": 4, "bytes": 4}) == MissedConnections(0, 0, 0)


def test_what_is_known_of_some_is_not_missed() -> None:
    assert MissedConnections(3, 50, 500).without([(4, 40), (6, 60)]) == MissedConnections(1, 40, 400)


def test_of_whom_nobody_knows_what_there_was_nobody_knows_what_is_missing() -> None:
    assert MissedConnections(3, 50, 500).without([(4, None)]) == MissedConnections(2, None, None)
