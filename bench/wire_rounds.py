"""Functions compared by processor time: in every round each runs for a slice, each round beginning with another one."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from statistics import median
from time import process_time_ns
from types import MappingProxyType
from typing import Any

# Runs before a function is measured: compiles what is compiled on first use, and fills the interpreter's own caches.
WARM = 30


@dataclass(frozen=True)
class Ratios:
    """A function's times over another's, round by round."""

    values: tuple[float, ...]

    @cached_property
    def median(self) -> float:
        return median(self.values)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({min(self.values):.2f}-{max(self.values):.2f})"


@dataclass(frozen=True, slots=True)
class Rounds:
    """Nanoseconds a call, of each function in each round."""

    ns: Mapping[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        return median(self.ns[name])

    def ratios(self, name: str, to: str) -> Ratios:
        """How many times as long as `to` that one takes: what disturbs a round disturbs both."""
        return Ratios(tuple(mine / other for mine, other in zip(self.ns[name], self.ns[to], strict=True)))


def measure(
    functions: Mapping[str, Callable[[], Any]],
    rounds: int,
    seconds: float,
    timed: Mapping[str, Callable[[], float]] = MappingProxyType({}),
) -> Rounds:
    """Runs each function for about `seconds` a round. `timed`: what runs elsewhere, and returns nanoseconds a call.

    The garbage collector stays on, for everybody; what was there before is out of its sight, so that nobody pays for
    the modules of others.
    """
    calls = {name: _calls(function, seconds) for name, function in functions.items()}
    taken: dict[str, list[float]] = {name: [] for name in functions}
    taken |= {name: [] for name in timed}
    names = list(taken)
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            taken[name].append(timed[name]() if name in timed else _ns(functions[name], calls[name]))
    gc.unfreeze()
    return Rounds({name: tuple(values) for name, values in taken.items()})


def _calls(function: Callable[[], Any], seconds: float) -> int:
    return max(1, int(seconds * 1e9 / max(1.0, _ns(function, WARM))))


def _ns(function: Callable[[], Any], calls: int) -> float:
    """Processor time of one call: what else runs on the machine takes none of it."""
    begin = process_time_ns()
    for _ in repeat(None, calls):
        function()
    return (process_time_ns() - begin) / calls
