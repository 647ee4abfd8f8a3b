"""Tests of how groups are judged, and of what is kept. What frames say is read in the tests of metrics and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recorder.facts.group_rows import COMMIT, DELETE, END_TXN
from recorder.group_lag import (
    GROUP_IDLE_SECONDS,
    MOST_OPEN_PLACES,
    Commit,
    GroupLag,
    Partition,
    State,
    judged,
)
from recorder.reading.elements import Told
from tests.tables import each_row

NOW = 1_800_000_000


def _window(*commits: tuple[int, int | None]) -> list[Commit]:
    """Commits, five seconds apart: (offset, lag)."""
    return [Commit(offset, NOW + 5.0 * number, lag) for number, (offset, lag) in enumerate(commits)]


# by Burrow's rules (Consumer-Lag-Evaluation-Rules)
JUDGED: list[tuple[str, list[Commit], int, float, State]] = [
    ("nothing is behind", _window(*[(5, 0)] * 10), 0, 9e9, State.OK),
    ("nobody has committed", [], 7, 9e9, State.OK),
    ("it goes on as fast", _window(*[(n, 9 - n % 2) for n in range(10)]), 8, 50, State.OK),
    ("it falls behind", _window(*[(n, 9 + n) for n in range(10)]), 20, 50, State.WARNING),
    ("its lag stays", _window(*[(n, 9) for n in range(10)]), 9, 50, State.WARNING),
    ("it gets nowhere", _window(*[(5, 9 + n) for n in range(10)]), 20, 50, State.STALLED),
    ("it had caught up within the window", _window(*[(5, n) for n in range(10)]), 10, 50, State.OK),
    ("the window is not full", _window(*[(5, 9)] * 9), 9, 50, State.OK),
    ("the end was not known before", _window((5, None), *[(5, 9)] * 9), 9, 50, State.OK),
    ("it is silent for longer than the window", _window(*[(n, 9 - n % 2) for n in range(10)]), 8, 91, State.STOPPED),
    ("it is silent for as long as the window", _window(*[(n, 9 - n % 2) for n in range(10)]), 8, 90, State.OK),
    ("a single commit, just now", _window((5, 9)), 9, 30, State.OK),
    ("a single commit, long ago", _window((5, 9)), 9, 31, State.STOPPED),
]


@each_row("window, behind, later, state", [one[1:] for one in JUDGED], ids=[one[0] for one in JUDGED])
def test_groups_are_judged_as_burrow_does(window: list[Commit], behind: int, later: float, state: State) -> None:
    assert judged(window, behind, NOW + later) is state


@each_row(
    "offset, state", [(lambda _: 5, State.STALLED), (lambda number: number, State.WARNING)], ids=["stuck", "slow"]
)
def test_a_group_that_commits_many_times_a_second_is_judged_by_more_than_its_newest_commit(
    offset: Callable[[int], int], state: State
) -> None:
    lag = GroupLag(9, Told())
    for number in range(60):
        at = NOW + number / 5
        lag.note_end(Partition("main", "t", 0), 100 + number, at)
        _says(lag, COMMIT, _places("g", range(1), committed_offset=offset(number)), at)
    assert [one.state for one in lag.standings(NOW + 12)] == [state]


def _says(lag: GroupLag, step: str, rows: list[dict[str, Any]], at: float = NOW) -> None:
    """An exchange of which all parts succeed."""
    blank = {"step": step, "topic": None, "topic_id": None, "transactional_id": None, "is_news": None}
    asked = [blank | {"part": str(number)} | row for number, row in enumerate(rows)]
    lag.read("main", asked, [{"part": row["part"], "error_code": 0} for row in asked], at)


def _places(group: str, partitions: range, **more: Any) -> list[dict[str, Any]]:
    of = {"group_id": group, "topic": "t", "committed_offset": 5, **more}
    return [of | {"partition": number} for number in partitions]


def _groups(lag: GroupLag) -> set[str]:
    return {one.place.group for one in lag.standings(NOW)}


def test_what_open_transactions_commit_is_bounded_and_the_oldest_makes_room_and_is_counted() -> None:
    lag = GroupLag(MOST_OPEN_PLACES, Told())
    _says(lag, COMMIT, _places("old", range(10), transactional_id="old"))
    half = MOST_OPEN_PLACES // 2
    _says(lag, COMMIT, _places("new", range(half), transactional_id="new"))
    assert lag.forgotten["transaction"] == 0
    _says(lag, COMMIT, _places("new", range(half, MOST_OPEN_PLACES), transactional_id="new"))
    assert lag.forgotten["transaction"] == 1
    for transaction in ("old", "new"):
        _says(lag, END_TXN, [{"transactional_id": transaction, "is_news": True}], NOW + 1)
    assert len([*lag.standings(NOW)]) == MOST_OPEN_PLACES
    assert _groups(lag) == {"new"}


def test_a_place_that_is_committed_again_and_again_in_a_transaction_is_one() -> None:
    lag = GroupLag(10, Told())
    for _ in range(2 * MOST_OPEN_PLACES):
        _says(lag, COMMIT, _places("g", range(1), transactional_id="x"))
    assert lag.forgotten["transaction"] == 0
    _says(lag, END_TXN, [{"transactional_id": "x", "is_news": True}], NOW + 1)
    assert _groups(lag) == {"g"}


def test_groups_that_one_request_deletes_are_gone_and_so_are_deleted_offsets() -> None:
    lag = GroupLag(10, Told())
    for group in ("a", "b", "c"):
        _says(lag, COMMIT, _places(group, range(2)))
    _says(lag, DELETE, [{"group_id": "a"}, {"group_id": "b"}])
    assert _groups(lag) == {"c"}
    _says(lag, DELETE, _places("c", range(1)))
    assert [one.place.partition.number for one in lag.standings(NOW)] == [1]


def test_what_nobody_names_for_a_day_is_forgotten() -> None:
    lag = GroupLag(10, Told())
    for group, at in (("old", NOW), ("new", NOW + 5.0)):
        _says(lag, COMMIT, _places(group, range(1)), at)
    lag.note_end(Partition("main", "t", 0), 9, NOW)
    lag.forget_idle(NOW + 1 + GROUP_IDLE_SECONDS)
    assert _groups(lag) == {"new"}
    assert not lag.ends
    # it was idle, and made no room for others
    assert sum(lag.forgotten.values()) == 0
