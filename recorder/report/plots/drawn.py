"""A plot's values -> drawings that stand in a page.

A plot that needs the page's whole width is drawn twice, for wide and for narrow screens: letters keep their size, and
the page's style shows one of the two.
"""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from recorder.report.plots import lanes, over_time
from recorder.report.plots.drawing import svg
from recorder.report.plots.over_time import Canvas
from recorder.report.plots.shapes import Bars, CellMap, HeatMap, Key, Lanes, Lines, Panel, Plot, Shape, StackedBars
from recorder.report.plots.style import Spec

# Widths in pixels: of a wide page's content, of a 380-pixel phone's content, and of a third of the former.
WIDE, NARROW, SMALL = 1000, 336, 322


class Drawing(NamedTuple):
    """A drawing. `narrow`: that for narrow screens; None: `wide` serves both. `name`: set if it has neighbours."""

    wide: Markup
    narrow: Markup | None = None
    name: str = ""


class DrawnPlot(NamedTuple):
    """A plot with drawings, for the page's template."""

    question: str
    answer: str
    drawings: tuple[Drawing, ...]
    keys: tuple[Key, ...] = ()


def drawn(plot: Plot) -> DrawnPlot:
    """The plot with drawings."""
    return DrawnPlot(plot.question, plot.answer, tuple(map(_drawing, plot.panels)), plot.keys)


def _drawing(panel: Panel) -> Drawing:
    if panel.name:
        return Drawing(_svg(panel, SMALL), name=panel.name)
    return Drawing(_svg(panel, WIDE), _svg(panel, NARROW))


def _svg(panel: Panel, width: int) -> Markup:
    return svg(specification(panel.shape, width), panel.words)


def specification(shape: Shape, width: int) -> Spec:
    """The specification of a shape that is so many pixels wide."""
    match shape:
        case Bars():
            return lanes.bars(shape.rows, width)
        case Lanes():
            return lanes.lanes(shape.timeline, shape.rows, width)
        case CellMap():
            return lanes.cells(shape.rows, width)
    canvas = Canvas(shape.timeline, width, shape.height)
    match shape:
        case Lines():
            return over_time.lines(canvas, shape.lines, shape.unit, shape.domain)
        case StackedBars():
            return over_time.bars(canvas, shape.series, shape.unit, shape.lost)
        case HeatMap():
            return over_time.heat(canvas, shape.cells)
