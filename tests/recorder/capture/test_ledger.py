"""The reader's account, held against the writer's."""

from recorder.capture.ledger import Ledger, Missed
from recorder.capture.roll import Totals


def test_who_has_seen_all_has_missed_nothing() -> None:
    ledger = Ledger()
    assert ledger.totals is not None
    ledger.totals.add_closed(3, (10, 20))
    assert ledger.missed({"connections": 1, "frames": 3, "bytes": 30}) == Missed(0, 0, 0)


def test_what_the_writer_is_ahead_is_missed_and_said_once() -> None:
    ledger = Ledger()
    told = {"connections": 2, "frames": 8, "bytes": 80}
    assert ledger.missed(told) == Missed(2, 8, 80)
    assert ledger.missed(told) == Missed(0, 0, 0)
    assert ledger.totals == Totals(2, 8, 80)


def test_who_has_lost_their_own_account_cannot_tell_and_goes_on_from_the_writers() -> None:
    ledger = Ledger()
    ledger.totals = None
    assert ledger.missed({"connections": 2, "frames": 8, "bytes": 80}) is None
    assert ledger.missed({"connections": 3, "frames": 9, "bytes": 81}) == Missed(1, 1, 1)


def test_a_writer_that_is_behind_is_not_believed() -> None:
    ledger = Ledger()
    ledger.totals = Totals(5, 5, 5)
    assert ledger.missed({"connections": 4, "frames": 4, "bytes": 4}) == Missed(0, 0, 0)


def test_what_is_known_of_some_is_not_missed() -> None:
    assert Missed(3, 50, 500).without([(4, 40), (6, 60)]) == Missed(1, 40, 400)


def test_of_whom_nobody_knows_what_there_was_nobody_knows_what_is_missing() -> None:
    assert Missed(3, 50, 500).without([(4, None)]) == Missed(2, None, None)
