"""The plots of two captures side by side: latencies before and after, a drawing for each percentile."""

from __future__ import annotations

from markupsafe import Markup

from recorder.analysis.change.judged import ENOUGH
from recorder.analysis.change.whole import Changes
from recorder.report.change_sections import compared
from recorder.report.plots.drawing import svg
from recorder.report.plots.dumbbells import MOST_ROWS, Pair, dumbbells
from recorder.report.plots.log_axis import domain
from recorder.terminal import milliseconds


def latency_plots(found: Changes) -> list[Markup]:
    """A drawing for each percentile for which both captures have enough answers; all share one domain."""
    pairs = {field.removesuffix("_ms"): _pairs(found, field) for field in ENOUGH}
    values = [value for some in pairs.values() for pair in some for value in pair[1:]]
    if not values:
        return []
    over = domain(values)
    return [svg(dumbbells(name, some, over), _said(name, some)) for name, some in pairs.items() if some]


def _pairs(found: Changes, field: str) -> list[Pair]:
    """The pairs of one percentile, without zeros, which a logarithmic axis can't show; no real latency is 0."""
    pairs = [Pair(row.api, before, after) for row, before, after in compared(found, field) if before > 0 and after > 0]
    return pairs[:MOST_ROWS]


def _said(percentile: str, pairs: list[Pair]) -> str:
    """A plot's content in words."""
    each = (f"{pair.label} {milliseconds(pair.first_ms)} to {milliseconds(pair.second_ms)} ms" for pair in pairs)
    return f"{percentile} of the latency, before and after: {', '.join(each)}"
