"""Two values a row, on a logarithmic axis: recorded and replayed, or of two captures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import altair as alt

from recorder.report.plots.log_axis import decades
from recorder.report.plots.shapes import MUTED
from recorder.report.plots.style import Spec, dressed, label

# of a recording and its replay; of the capture before and the one after
FIRST, SECOND = "var(--recorded)", "var(--replayed)"
# Beside each other three plots fill a wide page; below each other one fills a phone.
WIDTH, ROW_HEIGHT = 215, 26
# A reader's letters may be wider than those that the drawing was measured with.
PADDING = {"left": 24, "right": 6, "top": 4, "bottom": 4}
# More rows would overlap.
MOST_ROWS = 20


class Pair(NamedTuple):
    """A row of a dumbbell plot: milliseconds on both sides."""

    label: str
    first_ms: float
    second_ms: float


def dumbbells(title: str, pairs: Sequence[Pair], domain: tuple[float, float]) -> Spec:
    """A line for each pair, from the first value to the second one, on a logarithmic axis over `domain`."""
    shown = [
        {"label": label(pair.label), "first": pair.first_ms, "second": pair.second_ms} for pair in pairs[:MOST_ROWS]
    ]
    axis = alt.Axis(values=decades(domain), format="~g")
    x = alt.X("first:Q", title="ms", axis=axis, scale=alt.Scale(type="log", domain=list(domain), nice=False))
    base = alt.Chart(alt.InlineData(values=shown)).encode(y=alt.Y("label:N", sort=None, title=None))
    chart = alt.layer(
        base.mark_rule(strokeWidth=2, color=MUTED, opacity=0.5).encode(x=x, x2="second:Q"),
        base.mark_point(color=FIRST, filled=False, strokeWidth=2, size=60, opacity=1).encode(x=x),
        base.mark_point(color=SECOND, filled=True, size=60, opacity=1).encode(x=alt.X("second:Q", title="ms")),
    )
    # Vega reads a title such as "if" as an expression, unless a space follows
    sized = chart.properties(title=f"{label(title)} ", width=WIDTH, height=ROW_HEIGHT * len(shown))
    return dressed(sized, PADDING)
