"""Logarithmic axes: where they begin and end, and which of their values have labels."""

from __future__ import annotations

from collections.abc import Sequence

# Milliseconds that an axis may label.
_POWERS = [10.0**power for power in range(-7, 10)]


def domain(values: Sequence[float]) -> tuple[float, float]:
    """The first and last value of an axis that shows all values (above 0), with room for a point at either end."""
    return min(values) / 1.3, max(values) * 1.3


def stepped(values: Sequence[float]) -> tuple[float, float]:
    """As `domain`, but from one labelled value to another, so that the axis has at least two labels."""
    steps = [value * step for value in _POWERS for step in (1, 2, 5)]
    first = max((step for step in steps if step <= min(values)), default=min(values))
    return first, min((step for step in steps if step > max(values)), default=max(values))


def decades(domain: tuple[float, float]) -> list[float]:
    """The labelled values of a logarithmic axis: powers of ten; if fewer than three, also twice and five times them."""
    first, last = domain
    within = [value for value in _POWERS if first <= value <= last]
    if len(within) < 3:
        return [value * step for value in _POWERS for step in (1, 2, 5) if first <= value * step <= last]
    return within
