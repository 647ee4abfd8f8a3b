"""Tests of a replay's progress: redrawn on a terminal, as lines elsewhere."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from recorder import terminal
from recorder.replay.outcome import Progress
from recorder.replay.results.live import EVERY_NS, STANDSTILL_NS, LiveProgress, Standstill, drawn
from tests.recorder.replay import drawn as looks
from tests.tables import each_row

NOW = Progress(12_345, 12_300, 12, 3_400_000, 3, 2, 1_204 * 10**9, 3_725 * 10**9)
BEYOND = replace(NOW, position_ns=9 * 10**18)
SAID = "20 min 4 s of 1 h 2 min: 12 345 sent, 12 300 answered, 12 late (now 3.4 ms), 3 withheld, 2 differ"


def shown(*, terminal: bool) -> tuple[str, int]:
    paper = StringIO()
    with LiveProgress(Console(file=paper, width=40, force_terminal=terminal)) as live:
        live.show(Progress())
        live.show(NOW)
        return paper.getvalue(), live.every_ns


def test_progress_in_a_pipe_is_unbroken_lines() -> None:
    written, every_ns = shown(terminal=False)
    assert written.splitlines()[1] == SAID
    assert every_ns == terminal.EVERY_SECONDS * 10**9


def test_progress_on_a_terminal_is_redrawn() -> None:
    written, every_ns = shown(terminal=True)
    assert "\x1b[1A" in written
    assert every_ns == EVERY_NS


@each_row("width", looks.WIDTHS)
@each_row("now", [Progress(), NOW, replace(NOW, position_ns=9 * 10**18)], ids=["begun", "amid", "beyond"])
def test_the_live_progress_fits_the_terminal(now: Progress, width: int) -> None:
    looks.check(looks.drawn([drawn(now)], width), width)


WAITS = {"the target's answer to JoinGroup": 2, "what Heartbeat lacks": 1, "a": 1, "b": 1}
SAID_OF_WAITS = "waits for the target's answer to JoinGroup (2); a; b and 1 more"


def test_the_awaited_answers_follow_the_counts() -> None:
    paper = StringIO()
    with LiveProgress(Console(file=paper, width=40)) as live:
        live.show(NOW, WAITS)
    assert paper.getvalue() == f"{SAID}; {SAID_OF_WAITS}\n"


@pytest.mark.parametrize("width", looks.WIDTHS)
def test_the_awaited_answers_fit_a_terminal(width: int) -> None:
    text = looks.drawn([drawn(NOW, WAITS)], width)
    looks.check(text, width)
    assert " ".join(text.split()).endswith(SAID_OF_WAITS)


def test_a_replay_stands_still_once_nothing_has_changed_for_a_while() -> None:
    standstill = Standstill()
    times = [(NOW, 0), (NOW, STANDSTILL_NS - 1), (NOW, STANDSTILL_NS), (Progress(), STANDSTILL_NS + 1)]
    assert [standstill.lasts(now, at) for now, at in times] == [False, False, True, False]


def test_a_replay_that_counts_on_in_the_same_progress_does_not_stand_still() -> None:
    standstill, now = Standstill(), replace(NOW)
    assert not standstill.lasts(now, 0)
    now.sent += 1
    assert not standstill.lasts(now, STANDSTILL_NS)
