"""Decides how much of a property or a sweep a run tries: `make test` a part of it, `make test-long` all.

A property draws as many examples as the Hypothesis profile says: USUAL, or THOROUGH in `make test-long`. A property
that needs another number (`examples`) gets the same share of it. Redundant cases of a sweep are `long` (`mostly_long`).
A sweep within one test asks `is_thorough`; if the test is `real`, its mark `sweep` lets `make test-long` run it again.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

USUAL, THOROUGH = 10, 100
# the first example is always the simplest; fewer than these show little
FEWEST = 5


def examples(many: int, **more: Any) -> settings:
    """Draws `many` examples in the thorough profile, a share in the usual one. `more`: Hypothesis's settings."""
    return settings(max_examples=max(FEWEST, many * settings().max_examples // THOROUGH), **more)


def is_thorough() -> bool:
    return settings.get_current_profile_name() == "thorough"


def mostly_long(cases: Iterable[Any], usual: int | Callable[[Any], bool]) -> list[Any]:
    """A sweep's cases, `long` except for the usual ones: the first few, or those for which the function is true."""
    is_usual = usual if callable(usual) else lambda case: False
    first = 0 if callable(usual) else usual
    return [case if at < first or is_usual(case) else _long(case) for at, case in enumerate(cases)]


def _long(case: Any) -> Any:
    """`case`: a parameter's value, or a tuple of several parameters' values."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
