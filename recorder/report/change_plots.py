"""The plots of two captures side by side: latencies before and after, a drawing for each percentile."""

from __future__ import annotations

from markupsafe import Markup

from recorder.analysis.change.judged import ENOUGH
from recorder.analysis.change.whole import Changes
from recorder.report.change_sections import compared
from recorder.report.plots.dumbbells import Pair, drawings


def latency_plots(found: Changes) -> list[Markup]:
    """A drawing for each percentile for which both captures have enough answers."""
    return drawings({field.removesuffix("_ms"): _pairs(found, field) for field in ENOUGH}, "before and after")


def _pairs(found: Changes, field: str) -> list[Pair]:
    return [Pair(row.api, before, after) for row, before, after in compared(found, field)]
