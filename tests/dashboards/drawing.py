"""Draws a dashboard as Grafana lays it out, from what a Prometheus has: a page of HTML, to be looked at.

It follows Grafana where that decides what a reader sees: the grid, units, legends with last and greatest value, levels
and their colours, words for values, stacks, bands of states, tables with the worst on top, gaps, and what stands where
nothing is.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from html import escape
from typing import Any

import altair
import vl_convert

from tests.dashboards.boards import BOARDS, Target, graphs, targets
from tests.dashboards.prometheus import EVERY, Prometheus, Series

Panel = dict[str, Any]

# Grafana's cell, with its margin, in pixels
CELL_WIDTH, CELL_HEIGHT, MARGIN = 60, 38, 8
COLORS = {"green": "#3d9a4f", "orange": "#e0752d", "red": "#d63b4f", "blue": "#3c6ec2"}
LINES = ["#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#c0d8ff", "#96d98d", "#ffee52"]
LINES += ["#caa98f", "#ffb357", "#e5a8e2", "#6ed0e0", "#8f3bb8", "#fade2a"]
STYLE = f"""
body {{ background: #111217; color: #ccccdc; font: 13px/1.35 sans-serif; margin: 12px; width: {24 * CELL_WIDTH}px }}
h1 {{ font-size: 20px; margin: 0 0 8px }}
.board {{ display: grid; grid-template-columns: repeat(24, 1fr) }}
.board {{ grid-auto-rows: {CELL_HEIGHT - MARGIN}px; gap: {MARGIN}px }}
.row {{ font-weight: bold; font-size: 15px; align-self: end }}
.panel {{ background: #181b1f; border: 1px solid #24272c; padding: 4px 8px; overflow: hidden; position: relative }}
.title {{ font-weight: 600; font-size: 13px; white-space: nowrap }}
.number {{ font-size: 27px; font-weight: 600; text-align: center; color: white; padding-top: 18px }}
.nothing {{ text-align: center; padding-top: 60px; color: #8e8e9e }}
table {{ border-collapse: collapse; width: 100%; font-size: 11.5px }}
th {{ text-align: left; color: #6e9fff; font-weight: 600; border-bottom: 1px solid #2c2f36; padding: 1px 6px }}
td {{ padding: 1px 6px; border-bottom: 1px solid #202328; white-space: nowrap }}
.legend {{ max-height: 88px; overflow: hidden }}
.swatch {{ display: inline-block; width: 12px; height: 3px; margin-right: 6px; vertical-align: middle }}
"""


def page(board: str, prometheus: Prometheus, since: float, until: float) -> str:
    """A dashboard over a stretch of time, in seconds since 1970."""
    found: dict[tuple[str, int], list[Series]] = {}
    places: dict[str, int] = {}
    of_board = [target for target in targets() if target.board == board]
    for target in of_board:
        place = places[target.panel] = places.get(target.panel, -1) + 1
        found[target.panel, place] = prometheus.shown(target, since, until)
    legends = {
        panel["title"]: [one for one in of_board if one.panel == panel["title"]] for panel in graphs(BOARDS[board])
    }
    parts = [_cell(panel, found, legends, (since, until)) for panel in BOARDS[board]["panels"]]
    title = escape(BOARDS[board]["title"])
    head = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><h1>{title}</h1>"
    return f"{head}<div class=board>{''.join(parts)}</div>"


def _cell(
    panel: Panel,
    found: Mapping[tuple[str, int], list[Series]],
    legends: Mapping[str, list[Target]],
    shown: tuple[float, float],
) -> str:
    at = panel["gridPos"]
    where = f"grid-area: {at['y'] + 1} / {at['x'] + 1} / span {at['h']} / span {at['w']}"
    title = escape(panel["title"])
    if panel["type"] == "row":
        return f'<div class=row style="{where}">▾ {title}</div>'
    series = [
        (target.legend, one)
        for place, target in enumerate(legends[panel["title"]])
        for one in found[panel["title"], place]
    ]
    size = (at["w"] * CELL_WIDTH - MARGIN - 18, at["h"] * CELL_HEIGHT - MARGIN - 26)
    if panel["type"] == "stat":
        color, text = _stat(panel, [one for _, one in series])
        return f'<div class=panel style="{where}; background: {color}"><div class=title>{title}</div>{text}</div>'
    if not series:
        nothing = panel["fieldConfig"]["defaults"].get("noValue", "No data")
        body = f"<div class=nothing>{escape(nothing)}</div>"
    elif panel["type"] == "table":
        body = _table(panel, [found[panel["title"], place] for place in range(len(legends[panel["title"]]))])
    elif panel["type"] == "state-timeline":
        body = _bands(panel, _named(series), size, shown)
    else:
        body = _lines(panel, _named(series), size, shown)
    return f'<div class=panel style="{where}"><div class=title>{title}</div>{body}</div>'


def _named(series: Iterable[tuple[str, Series]]) -> list[tuple[str, Series]]:
    return [(re.sub(r"\{\{(\w+)\}\}", partial(_label, one), legend), one) for legend, one in series]


def _label(series: Series, name: re.Match[str]) -> str:
    return series.labels.get(name[1], "")


# values


def text_of(value: float, unit: str, decimals: int | None = None) -> str:
    """A value with its unit, as Grafana writes it."""
    if math.isnan(value):
        return "NaN"
    if unit == "s":
        return _scaled(
            value, (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1), ("min", 60), ("hours", 3600), ("days", 86400))
        )
    if unit in ("bytes", "Bps"):
        steps = tuple(
            (f"{name}{'/s' if unit == 'Bps' else ''}", 1024.0**at) for at, name in enumerate(("B", "KiB", "MiB", "GiB"))
        )
        return _scaled(value, steps)
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    ends = {"reqps": " req/s", "cpm": " c/m", "wps": " w/s"}
    short = f"{value:.{decimals}f}" if decimals is not None else _scaled(value, (("", 1), ("K", 1e3), ("Mil", 1e6)))
    return short + ends.get(unit, "")


def _scaled(value: float, steps: tuple[tuple[str, float], ...]) -> str:
    fitting = [step for step in steps if abs(value) >= step[1]] or [steps[0]]
    name, size = fitting[-1] if value else steps[[one[1] for one in steps].index(1)]
    return f"{value / size:.{3 if abs(value / size) < 1000 else 4}g} {name}".strip()


def _level(steps: list[dict[str, Any]], value: float) -> str:
    name = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
    return COLORS[name]


def _word(mappings: list[dict[str, Any]], value: float) -> tuple[str, str] | None:
    for mapping in mappings:
        if (found := mapping["options"].get(f"{value:g}")) is not None:
            return found["text"], COLORS[found["color"]]
    return None


def _stat(panel: Panel, series: list[Series]) -> tuple[str, str]:
    defaults = panel["fieldConfig"]["defaults"]
    if not series:
        return "#181b1f", "<div class=nothing style='padding-top:20px'>No data</div>"
    value = series[0].points[-1][1]
    word = _word(defaults.get("mappings", []), value)
    text = word[0] if word else text_of(value, defaults["unit"], defaults.get("decimals"))
    color = word[1] if word else _level(defaults["thresholds"]["steps"], value)
    return color, f"<div class=number>{escape(text)}</div>"


# tables


def _table(panel: Panel, columns: list[list[Series]]) -> str:
    organize = panel["transformations"][1]["options"]
    titles = {name: title for name, title in organize["renameByName"].items() if not name.startswith("Value")}
    values = [f"Value #{chr(ord('A') + place)}" if len(columns) > 1 else "Value" for place in range(len(columns))]
    numbers = [organize["renameByName"].get(name, "") for name in values]
    looks = {
        one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    }
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for title, column in zip(numbers, columns, strict=True):
        for one in column:
            rows.setdefault(tuple(one.labels.get(label, "") for label in titles), {})[title] = one.points[-1][1]
    (sort,) = panel["options"]["sortBy"]
    key: Callable[[Any], Any] = (
        (lambda row: row[1].get(sort["displayName"], -math.inf))
        if sort["displayName"] in numbers
        else (lambda row: row[0][[*titles.values()].index(sort["displayName"])])
    )
    shown = [title for title in numbers if title]
    lines = [
        "<tr>"
        + "".join(f"<td>{escape(label)}</td>" for label in labels)
        + "".join(_cell_of(values.get(title), looks[title]) for title in shown)
        + "</tr>"
        for labels, values in sorted(rows.items(), key=key, reverse=sort["desc"])
    ]
    heads = "".join(f"<th>{escape(title)}</th>" for title in (*titles.values(), *shown))
    return f"<table><tr>{heads}</tr>{''.join(lines)}</table>"


def _cell_of(value: float | None, looks: dict[str, Any]) -> str:
    if value is None:
        return "<td></td>"
    word = _word(looks.get("mappings", []), value)
    color = word[1] if word else _level(looks["thresholds"]["steps"], value) if "thresholds" in looks else ""
    text = word[0] if word else text_of(value, looks["unit"])
    return f'<td style="background:{color}">{escape(text)}</td>'


# charts


def _svg(chart: Any, size: tuple[int, int]) -> str:
    shown = chart.properties(
        width=size[0], height=size[1], background="transparent", autosize={"type": "fit", "contains": "padding"}
    )
    shown = shown.configure_view(stroke=None).configure_axis(
        labelColor="#9fa7b3", gridColor="#24272c", domain=False, ticks=False, title=None, labelFontSize=10
    )
    return str(vl_convert.vegalite_to_svg(shown.to_dict()))


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _x(shown: tuple[float, float]) -> Any:
    domain = [_clock(at) for at in shown]
    return altair.X(
        "at:T", scale=altair.Scale(domain=domain), axis=altair.Axis(format="%H:%M:%S", tickCount=6, grid=False)
    )


def _lines(panel: Panel, series: list[tuple[str, Series]], size: tuple[int, int], shown: tuple[float, float]) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    custom, unit = defaults["custom"], defaults["unit"]
    colors = {name: LINES[at % len(LINES)] for at, (name, _) in enumerate(series)}
    points = [point for name, one in series for point in _points(name, one)]
    legend = _legend(series, colors, unit)
    if not points:
        return f"<div class=nothing>{escape(defaults.get('noValue', 'No data'))}</div>"
    greatest = max(abs(value) for _, one in series for _, value in one.points if math.isfinite(value))
    values = (
        [*defaults.get("thresholds", {}).get("steps", [])]
        if custom.get("thresholdsStyle", {}).get("mode", "off") != "off"
        else []
    )
    scale = altair.Scale(domainMin=defaults["min"]) if "min" in defaults else altair.Scale()
    if "max" in defaults:
        scale = altair.Scale(domain=[defaults.get("min", 0), defaults["max"]])
    elif greatest == 0:
        scale = altair.Scale(domain=[0, 1])
    base = altair.Chart(altair.Data(values=points)).encode(
        x=_x(shown),
        color=altair.Color("name:N", scale=altair.Scale(domain=[*colors], range=[*colors.values()]), legend=None),
    )
    is_stacked = custom.get("stacking", {}).get("mode") == "normal"
    y = altair.Y(
        "value:Q",
        scale=scale,
        stack="zero" if is_stacked else None,
        axis=altair.Axis(tickCount=4, labelExpr=_labels(unit)),
    )
    drawn: Any = (
        base.mark_area(opacity=custom["fillOpacity"] / 100, line={"strokeWidth": 1})
        if is_stacked
        else base.mark_line(strokeWidth=1.4)
    ).encode(y=y)
    for step in values:
        if step["value"] is not None and step["value"] <= 1.2 * max(greatest, defaults.get("max", 0)):
            rule = altair.Chart(altair.Data(values=[step])).mark_rule(color=COLORS[step["color"]], strokeDash=[6, 4])
            drawn += rule.encode(y=altair.Y("value:Q"))
    return _svg(drawn, (size[0], size[1] - min(88, 19 * (len(series) + 1)))) + legend


def _points(name: str, series: Series) -> Iterator[dict[str, Any]]:
    """A point without a value stands where points are missing: there the line is broken."""
    last = math.inf
    for at, value in series.points:
        if at - last > 1.5 * EVERY:
            yield {"at": _clock(last + EVERY), "value": None, "name": name}
        if math.isfinite(value):
            yield {"at": _clock(at), "value": value, "name": name}
            last = at


def _labels(unit: str) -> str:
    if unit in ("bytes", "Bps"):
        return "format(datum.value, '~s') + 'B'"
    if unit == "s":
        return (
            "datum.value == 0 ? '0 s' : abs(datum.value) < 0.001 ? format(datum.value * 1e6, '~r') + ' µs' : "
            "abs(datum.value) < 1 ? format(datum.value * 1000, '~r') + ' ms' : format(datum.value, '~r') + ' s'"
        )
    if unit == "percentunit":
        return "format(datum.value, '.0%')"
    return "format(datum.value, '~s')"


def _legend(series: list[tuple[str, Series]], colors: Mapping[str, str], unit: str) -> str:
    found = []
    for name, one in series:
        values = [value for _, value in one.points if math.isfinite(value)]
        if values:
            found.append((max(values), name, values[-1]))
    rows = "".join(
        f'<tr><td><span class=swatch style="background:{colors[name]}"></span>{escape(name)}</td>'
        f"<td>{escape(text_of(last, unit))}</td><td>{escape(text_of(most, unit))}</td></tr>"
        for most, name, last in sorted(found, reverse=True)
    )
    return f"<div class=legend><table><tr><th>Name</th><th>Last *</th><th>Max</th></tr>{rows}</table></div>"


def _bands(panel: Panel, series: list[tuple[str, Series]], size: tuple[int, int], shown: tuple[float, float]) -> str:
    mappings = panel["fieldConfig"]["defaults"]["mappings"]
    bands = []
    for name, one in series:
        begun, last, state = one.points[0][0], one.points[0][0], one.points[0][1]
        for at, value in [*one.points[1:], (math.inf, math.nan)]:
            if value != state:
                text, color = _word(mappings, state) or (f"{state:g}", COLORS["blue"])
                bands.append({"name": name, "at": _clock(begun), "to": _clock(last), "text": text, "color": color})
                begun, state = at, value
            last = at
    base = altair.Chart(altair.Data(values=bands)).encode(
        x=_x(shown),
        x2="to:T",
        y=altair.Y("name:N", axis=altair.Axis(labelLimit=260), scale=altair.Scale(paddingInner=0.2)),
    )
    bars = base.mark_bar().encode(color=altair.Color("color:N", scale=None))
    return _svg(bars + base.mark_text(align="left", dx=6, color="white", fontSize=11).encode(text="text:N"), size)
