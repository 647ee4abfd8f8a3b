"""Values along the capture's timeline: lines, stacked bars, the cells of a heat map; with stretches of lost frames.

Times are UTC. This module does the stacking, because a specification of plain rectangles means the same in every
version of Vega.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from recorder.analysis.summary.bounds import Series, Timeline
from recorder.analysis.summary.sections.latency import HeatCell
from recorder.report.plots.log_axis import decades
from recorder.report.plots.shapes import BAD, HEAT, Line
from recorder.report.plots.style import Layer, Spec, layered

PADDING = {"left": 2, "right": 12, "top": 6, "bottom": 2}
# A label of the time axis takes some 60 pixels, and needs room beside it.
_PIXELS_A_TIME = 110
_MS = 10**6
# The shortest span (in ms) for each time format of d3.
_FORMATS = ((3 * 86_400_000, "%d %b"), (600_000, "%H:%M"), (0, "%H:%M:%S"))
# The room between bars that are wide enough for it.
_GAP = 0.12
# Cells of a heat map overlap with their neighbours, so that no background shows between them.
_OVERLAP = 0.1


@dataclass(frozen=True, slots=True)
class Canvas:
    """The frame of a plot over time: the timeline, and the size of the drawing with its axes, in pixels."""

    timeline: Timeline
    width: int
    height: int

    def x(self, field: str) -> alt.X:
        """The time axis, which always covers the whole timeline."""
        first, last = self.timeline.first_at_ns // _MS, self.timeline.last_at_ns // _MS
        shown = next(shown for least, shown in _FORMATS if last - first >= least)
        axis = alt.Axis(format=shown, tickCount=max(2, self.width // _PIXELS_A_TIME), grid=False, labelFlush=True)
        scale = alt.Scale(type="utc", domain=[first, last], nice=False)
        return alt.X(f"{field}:T", title=None, axis=axis, scale=scale)

    def drawn(self, *layers: Layer) -> Spec:
        """The specification of these layers."""
        fit = alt.AutoSizeParams(type="fit", contains="padding")
        return layered(layers, PADDING, width=self.width, height=self.height, autosize=fit)


def lines(canvas: Canvas, shown: Sequence[Line], unit: str, domain: tuple[float, float] | None = None) -> Spec:
    """A line for each series; on a logarithmic axis over `domain`, if it is given."""
    y = _log_axis(unit, domain) if domain else _linear_axis(unit)
    return canvas.drawn(*(layer for line in shown for layer in _line(canvas, line, y)))


def _line(canvas: Canvas, line: Line, y: alt.Y) -> Iterator[Layer]:
    rows = [*_points(canvas.timeline, line.series.values)]
    chart = alt.Chart().encode(x=canvas.x("at"), y=y)
    yield Layer(chart.mark_line(color=line.colour, strokeWidth=1.2 if line.is_thin else 1.8, strokeJoin="round"), rows)
    point = chart.mark_point(color=line.colour, filled=True, size=16, opacity=1)
    yield Layer(point, [row for row in rows if row["lone"]])


def _points(timeline: Timeline, values: Sequence[float | None]) -> Iterator[dict[str, Any]]:
    """A row for each bin, at its middle. `lone`: a value between two unknown ones, which a line would not show."""
    around = [None, *map(_known, values[: timeline.bins]), None]
    for at, value in enumerate(around[1:-1]):
        middle = (timeline.begin_ns(at) + timeline.bin_ns // 2) // _MS
        yield {
            "at": middle,
            "value": value,
            "lone": value is not None and around[at] is None and around[at + 2] is None,
        }


def _known(value: float | None) -> float | None:
    """The value; None if an axis can't show it: infinity, NaN, and values below 0."""
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def bars(canvas: Canvas, shown: Sequence[tuple[Series, str]], unit: str, lost: Series | None = None) -> Spec:
    """A bar for each bin, with the series stacked in their order. The ground is marked in bins with `lost` frames."""
    bar = _rectangle(canvas, _linear_axis(unit, "low"))
    marked = [_marked(canvas, lost)] if lost and any(lost.known) else []
    return canvas.drawn(*marked, Layer(bar, [*_stacked(canvas.timeline, shown)]))


def _rectangle(canvas: Canvas, y: alt.Y) -> alt.Chart:
    """A rectangle from one time to another, from `low` to `high`."""
    colour = alt.Color("colour:N", scale=None)
    marks = alt.Chart().mark_rect(strokeWidth=0)
    found: alt.Chart = marks.encode(x=canvas.x("from"), x2="to:T", y=y, y2="high:Q", color=colour)
    return found


def _stacked(timeline: Timeline, shown: Sequence[tuple[Series, str]]) -> Iterator[dict[str, Any]]:
    """A rectangle for each value that is not 0, series by series."""
    heights = [0.0] * timeline.bins
    for series, colour in shown:
        for at, value in enumerate(map(_known, series.values[: timeline.bins])):
            if value:
                low, heights[at] = heights[at], heights[at] + value
                yield {**_span(timeline, at, _GAP), "low": low, "high": heights[at], "colour": colour}


def _span(timeline: Timeline, at: int, gap: float = 0) -> dict[str, Any]:
    begin, length = timeline.begin_ns(at) / _MS, timeline.bin_ns / _MS
    return {"from": begin + length * gap / 2, "to": begin + length * (1 - gap / 2)}


def _marked(canvas: Canvas, lost: Series) -> Layer:
    """Marks over the whole height, for the stretches with lost frames."""
    stretches = [_span(canvas.timeline, at) for at, value in enumerate(lost.values[: canvas.timeline.bins]) if value]
    marks = alt.Chart().mark_rect(color=BAD, opacity=0.2, strokeWidth=0)
    return Layer(marks.encode(x=canvas.x("from"), x2="to:T"), stretches)


def heat(canvas: Canvas, cells: Iterable[HeatCell]) -> Spec:
    """A rectangle for each cell: the time, the duration, and the count as its colour."""
    found = [cell for cell in cells if 0 < cell.from_ms < cell.to_ms and cell.bin < canvas.timeline.bins]
    most = max((cell.count for cell in found), default=1)
    rows = [
        {**_span(canvas.timeline, cell.bin, -_OVERLAP), "low": cell.from_ms, "high": cell.to_ms, "colour": HEAT[level]}
        for level, cell in sorted(((level_of(cell.count, most), cell) for cell in found), key=lambda both: both[0])
    ]
    over = (min((row["low"] for row in rows), default=1), max((row["high"] for row in rows), default=10))
    return canvas.drawn(Layer(_rectangle(canvas, _log_axis("ms", over, "low")), rows))


def level_of(count: int, most: int) -> int:
    """The number of a count's colour, on a logarithmic scale up to `most`."""
    share = math.log(max(count, 1)) / math.log(most) if most > 1 else 1
    return min(int(share * len(HEAT)), len(HEAT) - 1)


def _linear_axis(unit: str, field: str = "value") -> alt.Y:
    axis = alt.Axis(format="~s", tickCount=4, tickMinStep=1, grid=True, titleAnchor="end", labelPadding=6)
    return alt.Y(f"{field}:Q", title=unit, axis=axis, scale=alt.Scale(zero=True, nice=True))


def _log_axis(unit: str, domain: tuple[float, float], field: str = "value") -> alt.Y:
    named = decades(domain)
    axis = alt.Axis(format="~g", values=named, grid=True, titleAnchor="end", labelPadding=6)
    return alt.Y(f"{field}:Q", title=unit, axis=axis, scale=alt.Scale(type="log", domain=list(domain), nice=False))
