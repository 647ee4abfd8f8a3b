"""Polls until a condition holds, for fixtures that wait for other processes. No test sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

# So short that it does not delay a start noticeably.
PAUSE_SECONDS = 0.05
# How long tests wait for other processes: only faults take so long, even where many processes share a core. Those that
# the project starts with the lowest priority may then wait for minutes. A test's own limit (pyproject.toml) is longer.
PATIENCE = 240


def wait_for(
    question: Callable[[], Answer | None],
    what: str,
    *,
    seconds: float = PATIENCE,
    hopeless: Callable[[], str | None] | None = None,
) -> Answer:
    """Poll until the answer is true, and return it.

    Args:
        what: completes "gave up waiting for ...".
        hopeless: returns a reason once waiting is pointless (the child has died).

    Errors: TimeoutError when the seconds are up; RuntimeError if it is hopeless.
    """
    deadline = time.monotonic() + seconds
    while True:
        if answer := question():
            return answer
        if hopeless and (reason := hopeless()):
            raise RuntimeError(f"no use in waiting for {what}: {reason}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what} after {seconds:.0f} s")
        time.sleep(PAUSE_SECONDS)
