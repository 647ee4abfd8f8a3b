"""Tests of how groups are judged. What groups commit is read in the tests of metrics and of the page's counts."""

from __future__ import annotations

from recorder.group_lag import Commit, State, judged
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
