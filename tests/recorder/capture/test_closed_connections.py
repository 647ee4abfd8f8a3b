"""Tests of the reader's count of closed connections against the writer's."""

from recorder.capture.closed_connections import MissedConnections, ReaderTotals
from recorder.capture.inventory import ClosedTotals


def test_a_reader_of_all_closings_has_missed_nothing() -> None:
    closed = ReaderTotals()
    assert closed.totals is not None
    closed.totals.add_closed(3, (10, 20))
    assert closed.adopt({"connections": 1, "frames": 3, "bytes": 30}) == MissedConnections(0, 0, 0)


def test_a_difference_to_the_writers_totals_is_missed_and_returned_once() -> None:
    closed = ReaderTotals()
    told = {"connections": 2, "frames": 8, "bytes": 80}
    assert closed.adopt(told) == MissedConnections(2, 8, 80)
    assert closed.adopt(told) == MissedConnections(0, 0, 0)
    assert closed.totals == ClosedTotals(2, 8, 80)


def test_a_reader_without_totals_cannot_tell_and_goes_on_from_the_writers() -> None:
    closed = ReaderTotals()
    closed.totals = None
    assert closed.adopt({"connections": 2, "frames": 8, "bytes": 80}) is None
    assert closed.adopt({"connections": 3, "frames": 9, "bytes": 81}) == MissedConnections(1, 1, 1)


def test_a_writer_that_is_behind_is_not_believed() -> None:
    closed = ReaderTotals()
    closed.totals = ClosedTotals(5, 5, 5)
    assert closed.adopt({"connections": 4, "frames": 4, "bytes": 4}) == MissedConnections(0, 0, 0)


def test_recorded_frames_and_bytes_are_not_missed() -> None:
    assert MissedConnections(3, 50, 500).without([(4, 40), (6, 60)]) == MissedConnections(1, 40, 400)


def test_missed_frames_are_unknown_if_the_recorded_bytes_of_a_connection_are() -> None:
    assert MissedConnections(3, 50, 500).without([(4, None)]) == MissedConnections(2, None, None)
