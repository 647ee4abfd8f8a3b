"""The letters and sizes of all plots; and labels, which are foreign text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from proxy.terminal import printable
from recorder.report.plots.shapes import INK, LINE, MUTED

# Letters of a label: the longest name of an API has 27.
LONGEST_LABEL = 28
FONT_SIZE = 11

Spec = dict[str, Any]
# altair's charts have no common type with the methods that `dressed` needs
Chart = alt.LayerChart | alt.FacetChart

_AXIS = {
    "labelColor": MUTED,
    "labelFontSize": FONT_SIZE,
    "labelLimit": 220,
    "titleColor": MUTED,
    "titleFontSize": FONT_SIZE,
    "titleFontWeight": "normal",
    "gridColor": LINE,
    "domainColor": LINE,
    "tickColor": LINE,
}


def dressed(chart: Chart, padding: dict[str, int]) -> Spec:
    """The specification, in the page's colours and letters."""
    found: Spec = (
        chart.configure(background="transparent", font="system-ui, sans-serif", padding=padding)
        .configure_view(stroke=None)
        .configure_mark(aria=False)
        .configure_title(color=INK, fontSize=13, anchor="start", fontWeight=600)
        .configure_axis(**_AXIS)
        .configure_axisY(grid=False, ticks=False, domain=False, labelColor=INK, labelPadding=8)
        .to_dict()
    )
    return found


class Layer(NamedTuple):
    """Marks without their data, and the rows of data."""

    marks: alt.Chart
    rows: Sequence[dict[str, Any]]


def layered(
    layers: Sequence[Layer], padding: dict[str, int], axes: dict[str, Any] | None = None, **properties: Any
) -> Spec:
    """The specification of stacked layers. `axes`: the axes that all of them share.

    The rows are added last: altair copies and checks all data in each step, which takes seconds for thousands of rows.
    """
    names = [f"rows{at}" for at in range(len(layers))]
    named = [layer.marks.properties(data=alt.NamedData(name)) for name, layer in zip(names, layers, strict=True)]
    spec = dressed(alt.layer(*named).encode(**axes or {}).properties(**properties), padding)
    return {**spec, "datasets": {name: list(layer.rows) for name, layer in zip(names, layers, strict=True)}}


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """The text, printable and not too long. A character that XML lacks would end the whole process that draws it."""
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[:longest]}…"
