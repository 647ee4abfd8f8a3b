"""Two values a row, on a logarithmic axis: recorded and replayed, or of two captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import altair as alt
from markupsafe import Markup

from recorder.report.plots.drawing import svg
from recorder.report.plots.log_axis import decades, domain
from recorder.report.plots.shapes import MUTED
from recorder.report.plots.style import Spec, dressed, label
from recorder.terminal import milliseconds

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


def drawings(percentiles: Mapping[str, Iterable[Pair]], sides: str) -> list[Markup]:
    """A drawing for each percentile that has pairs; all share one domain. `sides`: what the two values are, in words.

    Zeros are left out: a logarithmic axis can't show them, and no real latency is 0.
    """
    known = {name: [one for one in pairs if one.first_ms > 0 < one.second_ms] for name, pairs in percentiles.items()}
    shown = {name: pairs[:MOST_ROWS] for name, pairs in known.items() if pairs}
    if not shown:
        return []
    over = domain([value for pairs in shown.values() for _, *values in pairs for value in values])
    return [svg(dumbbells(name, pairs, over), _words(name, pairs, sides)) for name, pairs in shown.items()]


def _words(percentile: str, pairs: Iterable[Pair], sides: str) -> str:
    each = (f"{pair.label} {milliseconds(pair.first_ms)} to {milliseconds(pair.second_ms)} ms" for pair in pairs)
    return f"{percentile} of the latency, {sides}: {', '.join(each)}"


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
