"""Runs independent Spark questions in a few threads: while Spark plans one, another one's tasks run.

For a small capture most of a question's time is planning, and Spark plans in the calling thread. A single thread would
leave the other cores idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from typing import TypeVar

# Questions at a time. With two cores a third one gains nothing; with many it keeps them busy while a plan is made.
THREADS = 3
Answer = TypeVar("Answer")


def ask_all(questions: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Returns the answers, in the questions' order.

    Errors: the first exception that a question raises; questions that have not started by then never start.
    """
    errors: list[Exception] = []

    def ask(question: Callable[[], Answer]) -> Answer:
        if errors:  # checked here: short questions may all have started before the waiting thread wakes up
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
        # after Ctrl-C, do not wait for running questions: they end with the JVM
        pool.shutdown(wait=False, cancel_futures=True)
