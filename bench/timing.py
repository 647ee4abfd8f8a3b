"""Wall-clock time of work that several processes do. The fastest round counts: other work on the machine only adds."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

ROUNDS = 3


def fastest(run: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest round."""
    return min(seconds(run) for _ in range(rounds))


def seconds(run: Callable[[], Any]) -> float:
    """Seconds of one round."""
    began = perf_counter()
    run()
    return perf_counter() - began
