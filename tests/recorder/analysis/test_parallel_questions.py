"""Tests of concurrent questions: answers in the questions' order, or the first error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Barrier, Event
from typing import Any

import pytest

from recorder.analysis import parallel_questions
from recorder.analysis.parallel_questions import THREADS, ask_all


def test_answers_come_in_the_order_of_their_questions_however_late_the_first_one_is() -> None:
    last_is_answered = Event()

    def first() -> str:
        assert last_is_answered.wait(60)
        return "first"

    def last() -> str:
        last_is_answered.set()
        return "last"

    assert ask_all([first, last]) == ["first", "last"]
    assert ask_all([]) == []


def test_as_many_questions_run_concurrently_as_there_are_threads() -> None:
    all_are_asked = Barrier(THREADS)
    assert sorted(ask_all([partial(all_are_asked.wait, 60)] * THREADS)) == [*range(THREADS)]


def test_an_error_is_raised_and_no_further_question_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_questions, "THREADS", 1)  # so no question is running when the error comes
    asked: list[int] = []

    def wrong() -> None:
        raise ValueError("no such column")

    questions: list[Callable[[], None]] = [wrong, *(partial(asked.append, number) for number in range(1000))]
    with pytest.raises(ValueError, match="no such column"):
        ask_all(questions)
    assert asked == []


def test_ctrl_c_does_not_wait_for_a_running_question(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm_has_ended = Event()

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel_questions, "wait", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask_all([partial(jvm_has_ended.wait, 60)] * 2)
        assert not jvm_has_ended.is_set()
    finally:
        jvm_has_ended.set()
