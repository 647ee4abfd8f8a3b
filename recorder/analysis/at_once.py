"""Independent questions, asked of Spark by a few threads: while one is planned, another one's tasks run.

A question of a small capture is mostly planning, which Spark does in the thread that asks. So one thread leaves the
other cores idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from typing import TypeVar

# Questions at a time: on two cores a third one gains nothing, on many it keeps wide tasks from waiting for a plan.
THREADS = 3
Answer = TypeVar("Answer")


def ask_all(questions: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """The answers, in the questions' order. Errors: the first one that a question raises; no further one is asked."""
    errors: list[Exception] = []

    def ask(question: Callable[[], Answer]) -> Answer:
        if errors:  # looked at here, since short questions may all have begun before the waiting thread wakes up
            raise CancelledError
        try:
            return question()
        except Exception as error:
            errors.append(error)
            raise

    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="question")
    answers = [pool.submit(ask, question) for question in questions]
    try:
        wait(answers, return_when=FIRST_EXCEPTION)
        pool.shutdown(wait=True, cancel_futures=True)
        if errors:
            raise errors[0]
        return [answer.result() for answer in answers]
    finally:
        # behind Ctrl-C nobody waits for what runs: it ends with the JVM
        pool.shutdown(wait=False, cancel_futures=True)
