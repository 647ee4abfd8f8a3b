from __future__ import annotations

import pytest

from proxy.net.change import Change, commit
from tests.proxy.net.changes import Noted


def test_changes_are_made_in_their_order():
    noted = Noted()
    assert commit([noted.change("a"), noted.change("b")])
    assert noted.said == ["make a", "make b"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("make a", ["make a", "undo a", "drop a", "drop b"]),
        ("make b", ["make a", "make b", "undo b", "undo a", "drop a", "drop b"]),
    ],
)
def test_after_a_fault_all_that_was_made_is_undone(fault, said, caplog):
    noted = Noted(fault)
    assert not commit([noted.change("a"), noted.change("b")])
    assert noted.said == said
    (record,) = caplog.records
    assert record.message == "settings stay as they are: a fault"
    assert record.exc_info


def test_a_fault_while_a_change_is_undone_keeps_no_other_from_being_undone(caplog):
    def faulty() -> None:
        raise ZeroDivisionError

    noted = Noted("undo b")
    assert not commit([noted.change("a"), noted.change("b"), Change(faulty, lambda: None)])
    assert noted.said == ["make a", "make b", "undo b", "undo a", "drop a", "drop b"]
    assert [bool(record.exc_info) for record in caplog.records] == [True, True]
