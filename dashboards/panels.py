"""The kinds of panels. Each makes the settings that are the same wherever it is used; a dashboard says the rest.

A description says what the panel shows, then what to look at, then what comes next. Colours mean the same everywhere:
green is right, orange wants a look today, red wants one now, blue is neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"
# what a panel shows without series: there is nothing of the kind, and nothing is wrong
NOTHING = "none"
SOURCE = common.DataSourceRef("prometheus", "${datasource}")

# every panel has one of these sizes, in cells of a grid that is 24 wide
WIDE, HALF, THIRD, QUARTER, STAT = (24, 8), (12, 8), (8, 8), (6, 8), (3, 4)


class Query(NamedTuple):
    """An expression, and the legend of its series: `{{label}}` is a label's value."""

    expression: str
    legend: str


# from which value on a number has a colour; the first one has no value
Levels = tuple[tuple[float | None, str], ...]


def over(orange: float | None = None, red: float | None = None, *, below: str = GREEN) -> Levels:
    """Levels of what should be small."""
    return ((None, below), *((value, color) for value, color in ((orange, ORANGE), (red, RED)) if value is not None))


def under(orange: float, red: float) -> Levels:
    """Levels of what should be large."""
    return (None, RED), (red, ORANGE), (orange, GREEN)


ANY_IS_RED = over(red=1)
NO_LEVELS = over(below=BLUE)
ALWAYS_RED = over(below=RED)


def runbook(page: str, title: str) -> builders.DashboardLink:
    """A link to a page of docs/runbooks, under the address in the variable `docs`."""
    return _link(f"Runbook: {title}", f"${{docs}}/runbooks/{page}.md")


def dashboard(name: str, title: str) -> builders.DashboardLink:
    """A link to another dashboard, with the same choices and time."""
    return _link(f"Dashboard: {title}", f"/d/kafka-wiretap-{name}?${{__url_time_range}}&${{__all_variables}}")


def _link(title: str, url: str) -> builders.DashboardLink:
    return builders.DashboardLink(title).type(models.DashboardLinkType.LINK).url(url)


def _thresholds(levels: Levels) -> builders.ThresholdsConfig:
    steps = [models.Threshold(value, color) for value, color in levels]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _words(words: Mapping[int, tuple[str, str]]) -> list[models.ValueMapping]:
    """value -> (what stands in its place, its colour)."""
    options = {
        str(value): models.ValueMappingResult(text=text, color=color, index=number)
        for number, (value, (text, color)) in enumerate(words.items())
    }
    return [models.ValueMap(options=options)] if options else []


def _target(number: int, query: Query) -> prometheus.Dataquery:
    letter = chr(ord("A") + number)
    return prometheus.Dataquery().ref_id(letter).expr(query.expression).legend_format(query.legend).datasource(SOURCE)


def number(
    title: str,
    says: str,
    expression: str,
    *,
    unit: str = "short",
    levels: Levels = NO_LEVELS,
    words: Mapping[int, tuple[str, str]] | None = None,
    decimals: int | None = None,
    size: tuple[int, int] = STAT,
    links: Sequence[builders.DashboardLink] = (),
) -> stat.Panel:
    """One number, whose background is its level."""
    panel = (
        stat.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .thresholds(_thresholds(levels))
        .mappings(_words(words or {}))
        .color_scheme(builders.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .span(size[0])
        .height(size[1])
        .links(list(links))
        .with_target(_target(0, Query(expression, "")).instant())
    )
    return panel if decimals is None else panel.decimals(decimals)


def graph(
    title: str,
    says: str,
    *queries: Query,
    unit: str = "short",
    most: float | None = None,
    levels: Levels | None = None,
    stacked: bool = False,
    bars: bool = False,
    both_ways: bool = False,
    size: tuple[int, int] = THIRD,
    links: Sequence[builders.DashboardLink] = (),
) -> timeseries.Panel:
    """Lines over time, or areas on each other (`stacked`), or `bars` of events.

    most: the axis' end, if it is known. levels: drawn as lines. both_ways: the axis goes below 0, too.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .no_value(NOTHING)
        .line_width(1)
        .fill_opacity(60 if bars else 25 if stacked else 8)
        .show_points(common.VisibilityMode.NEVER)
        .draw_style(common.GraphDrawStyle.BARS if bars else common.GraphDrawStyle.LINE)
        .stacking(
            common_builders.StackingConfig().mode(common.StackingMode.NORMAL if stacked else common.StackingMode.NONE)
        )
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
            .sort_by("Max")
            .sort_desc(True)
        )
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
        .span(size[0])
        .height(size[1])
        .links(list(links))
    )
    for place, query in enumerate(queries):
        panel = panel.with_target(_target(place, query))
    if not both_ways:
        panel = panel.min(0)
    if most is not None:
        panel = panel.max(most)
    if levels is not None:
        style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(_thresholds(levels)).thresholds_style(style)
    return panel


def states(
    title: str,
    says: str,
    *queries: Query,
    words: Mapping[int, tuple[str, str]],
    size: tuple[int, int] = THIRD,
    links: Sequence[builders.DashboardLink] = (),
) -> statetimeline.Panel:
    """A band for each series, whose colour is its state."""
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit("short")
        .no_value(NOTHING)
        .mappings(_words(words))
        .color_scheme(builders.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .thresholds(_thresholds(NO_LEVELS))
        .show_value(common.VisibilityMode.AUTO)
        .row_height(0.8)
        .fill_opacity(80)
        .line_width(0)
        .legend(common_builders.VizLegendOptions().show_legend(False))
        .span(size[0])
        .height(size[1])
        .links(list(links))
    )
    for place, query in enumerate(queries):
        panel = panel.with_target(_target(place, query))
    return panel


class Column(NamedTuple):
    """A column of numbers: its expression, title, unit, levels that colour it. Without a title it only makes rows."""

    expression: str
    title: str
    unit: str = "short"
    levels: Levels | None = None
    words: Mapping[int, tuple[str, str]] | None = None


def rows(
    title: str,
    says: str,
    labels: Mapping[str, str],
    *columns: Column,
    sort: str,
    falling: bool = True,
    size: tuple[int, int] = HALF,
    links: Sequence[builders.DashboardLink] = (),
) -> table.Panel:
    """A table: a row for each combination of labels, the worst first.

    Args:
        labels: label -> title of its column.
        sort: the title of the column by which the worst are on top: the greatest, or the least if not `falling`.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit("short")
        .no_value(NOTHING)
        .show_header(True)
        .sort_by([common_builders.TableSortByFieldState().display_name(sort).desc(falling)])
        .span(size[0])
        .height(size[1])
        .links(list(links))
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(_columns(labels, columns))
    )
    for place, column in enumerate(columns):
        panel = panel.with_target(_target(place, Query(column.expression, "")).instant().format(PromQueryFormat.TABLE))
        if column.title:
            panel = panel.override_by_name(column.title, _looks(column))
    return panel


def _columns(labels: Mapping[str, str], columns: Sequence[Column]) -> models.DataTransformerConfig:
    """Names the columns and puts them in order; those that are not named go."""
    # Grafana names a query's only value "Value", and those of several by their letters
    values = [f"Value #{chr(ord('A') + place)}" if len(columns) > 1 else "Value" for place in range(len(columns))]
    numbers = {value: column.title for value, column in zip(values, columns, strict=True)}
    titles = {name: title for name, title in {**labels, **numbers}.items() if title}
    hidden = ["Time", *(name for name, title in numbers.items() if not title)]
    options: dict[str, Any] = {
        "excludeByName": dict.fromkeys(hidden, True),
        "renameByName": titles,
        "indexByName": {name: place for place, name in enumerate(titles)},
    }
    return models.DataTransformerConfig(id_val="organize", options=options)


def _looks(column: Column) -> list[models.DynamicConfigValue]:
    looks = [models.DynamicConfigValue("unit", column.unit)]
    if column.words:
        looks.append(models.DynamicConfigValue("mappings", _words(column.words)))
    if column.levels or column.words:
        looks.append(models.DynamicConfigValue("thresholds", _thresholds(column.levels or NO_LEVELS).build()))
        looks.append(models.DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"}))
    return looks
