"""Plots as SVG that stands in a page: Vega-Lite by altair, drawn without a browser by vl-convert.

A plot is a specification, which tests read as data, and `svg` draws it. Its colours are the page's CSS variables, so
that one drawing suits light, dark and paper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import vl_convert
from markupsafe import Markup, escape

from proxy.terminal import printable

INK, MUTED, LINE = "var(--ink)", "var(--muted)", "var(--line)"
RECORDED, REPLAYED = "var(--recorded)", "var(--replayed)"
# Beside each other three plots fill a wide page; below each other one fills a phone.
WIDTH, ROW_HEIGHT = 215, 26
# A reader's letters may be wider than those that the drawing was measured with.
PADDING = {"left": 24, "right": 6, "top": 4, "bottom": 4}
# Letters of a label: the longest name of an API has 27.
_LONGEST_LABEL = 28
# What is more would be drawn on top of each other.
MOST_ROWS = 20
_SIZE = re.compile(r' (?:width|height)="[\d.]+"')


_AXIS = {
    "labelColor": MUTED,
    "labelFontSize": 11,
    "labelLimit": 220,
    "titleColor": MUTED,
    "titleFontSize": 11,
    "titleFontWeight": "normal",
    "gridColor": LINE,
    "domainColor": LINE,
    "tickColor": LINE,
}
Spec = dict[str, Any]


class Pair(NamedTuple):
    """A row of a dumbbell plot: milliseconds on both sides."""

    label: str
    recorded_ms: float
    replayed_ms: float


def dumbbells(title: str, pairs: Sequence[Pair], domain: tuple[float, float]) -> Spec:
    """A line a pair, from the recorded value to the replayed one, on a logarithmic axis over `domain`."""
    shown = [
        {"label": _label(pair.label), "recorded": pair.recorded_ms, "replayed": pair.replayed_ms}
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
    return _dressed(chart.properties(title=_label(title), width=WIDTH, height=ROW_HEIGHT * len(shown)))


def _dressed(chart: alt.LayerChart | alt.FacetChart) -> Spec:
    """The specification, in the page's colours and letters."""
    found: Spec = (
        chart.configure(background="transparent", font="system-ui, sans-serif", padding=PADDING)
        .configure_view(stroke=None)
        .configure_title(color=INK, fontSize=13, anchor="start", fontWeight=600)
        .configure_axis(**_AXIS)
        .configure_axisY(grid=False, ticks=False, domain=False, labelColor=INK, labelPadding=8)
        .to_dict()
    )
    return found


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


def svg(spec: Spec, summary: str) -> Markup:
    """The drawing, as wide as there is room; `summary`: what it shows, for those who don't see it."""
    drawn: str = vl_convert.vegalite_to_svg(vl_spec=spec)
    head, rest = drawn[drawn.index("<svg") :].split(">", 1)
    # only a picture of its own needs its name space; in a page the view box gives the size
    own = _SIZE.sub("", re.sub(r' (?:xmlns(?::\w+)?|version|class)="[^"]*"', "", head))
    size = re.search(r'width="([\d.]+)"', head)
    style = f' style="max-width:{size[1]}px"' if size else ""
    return Markup(f'{own} role="img" aria-label="{escape(printable(summary))}"{style}>{rest}')


def _label(label: str) -> str:
    """Printable, and not too long: what XML has no character for ends the whole process that draws it."""
    shown = printable(label)
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[:_LONGEST_LABEL]}…"
