"""Two values a row: the recorded and the replayed one, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import altair as alt

from recorder.report.plots.style import MUTED, Spec, dressed, label

RECORDED, REPLAYED = "var(--recorded)", "var(--replayed)"
# Beside each other three plots fill a wide page; below each other one fills a phone.
WIDTH, ROW_HEIGHT = 215, 26
# A reader's letters may be wider than those that the drawing was measured with.
PADDING = {"left": 24, "right": 6, "top": 4, "bottom": 4}
# What is more would be drawn on top of each other.
MOST_ROWS = 20


class Pair(NamedTuple):
    """A row of a dumbbell plot: milliseconds on both sides."""

    label: str
    recorded_ms: float
    replayed_ms: float


def dumbbells(title: str, pairs: Sequence[Pair], domain: tuple[float, float]) -> Spec:
    """A line a pair, from the recorded value to the replayed one, on a logarithmic axis over `domain`."""
    shown = [
        {"label": label(pair.label), "recorded": pair.recorded_ms, "replayed": pair.replayed_ms}
        for pair in pairs[:MOST_ROWS]
    ]
    axis = alt.Axis(values=decades(domain), format="~g")
    x = alt.X("recorded:Q", title="ms", axis=axis, scale=alt.Scale(type="log", domain=list(domain), nice=False))
    base = alt.Chart(alt.InlineData(values=shown)).encode(y=alt.Y("label:N", sort=None, title=None))
    chart = alt.layer(
        base.mark_rule(strokeWidth=2, color=MUTED, opacity=0.5).encode(x=x, x2="replayed:Q"),
        base.mark_point(color=RECORDED, filled=False, strokeWidth=2, size=60, opacity=1).encode(x=x),
        base.mark_point(color=REPLAYED, filled=True, size=60, opacity=1).encode(x=alt.X("replayed:Q", title="ms")),
    )
    sized = chart.properties(title=label(title), width=WIDTH, height=ROW_HEIGHT * len(shown))
    return dressed(sized, PADDING)


def domain(values: Sequence[float]) -> tuple[float, float]:
    """Where an axis begins and ends that shows all of these (above 0), with room for a point at either end."""
    return min(values) / 1.3, max(values) * 1.3


def decades(domain: tuple[float, float]) -> list[float]:
    """The labelled values of a logarithmic axis: powers of ten; of an axis within one or two of them 2 and 5 too."""
    first, last = domain
    powers = [10.0**power for power in range(-7, 10)]
    within = [value for value in powers if first <= value <= last]
    if len(within) < 3:
        return [value * step for value in powers for step in (1, 2, 5) if first <= value * step <= last]
    return within
