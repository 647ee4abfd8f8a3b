"""The section on latency, by API and by node: words, tables, plots."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.change.judged import ENOUGH
from recorder.analysis.change.rows import LatencyChange
from recorder.analysis.summary.bounds import Timeline
from recorder.analysis.summary.sections.latency import LONG_MS, LatencyOfApi
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    id_of,
    listing,
    milliseconds,
    name,
    number,
    share,
    time_of,
)
from recorder.report.plots.log_axis import domain
from recorder.report.plots.shapes import HEAT, HUES, MUTED, HeatMap, Key, Lines, Panel, Plot, plot
from recorder.report.section import SectionText, section
from recorder.report.series import percentile_lines
from recorder.terminal import count

# The most plots beside each other: a reader can't distinguish more.
_MOST_SMALL = 6
_WAITS = {"wait": "waiting", "includes_wait": "waiting or not"}


def latency(summary: Summary) -> SectionText:
    """The section of latency, by API and by node."""
    found = summary.latency
    lead = (
        "From the last byte of the request to the first byte of its response. Long polls that may wait for records or "
        "members stand apart: their time is no work.",
    )
    return section(
        "latency",
        "Latency",
        found,
        lead if found.apis.rows else (),
        listing("By API", _LATENCY, found.apis, is_small=True),
        listing("By API and node", _NODES, found.nodes),
        nothing="No request of this capture was answered.",
        plots=_plots(summary),
    )


def label_of(row: LatencyOfApi | LatencyChange) -> str:
    """The API's name, with a remark if its answers may include a wait."""
    return f"{row.api}, {_WAITS.get(row.wait, row.wait)}" if row.wait else row.api


PERCENTILES = (
    time_of("p50", lambda row: row.p50_ms),
    time_of("p95", lambda row: getattr(row, "p95_ms", None), is_spare=True),
    time_of("p99", lambda row: row.p99_ms),
    time_of("max", lambda row: row.most_ms, is_spare=True),
)
_LATENCY = (
    name("API", label_of, is_name=True),
    number("responses", lambda row: row.responses),
    *PERCENTILES,
)
_NODES = (
    name("API", lambda row: row.api, is_name=True),
    id_of("node", lambda row: row.node),
    number("responses", lambda row: row.responses),
    *PERCENTILES,
)


def slowest(rows: tuple[LatencyOfApi, ...]) -> str:
    """A sentence about the slowest API at the highest percentile for which several APIs have enough answers."""
    for field, least in reversed(ENOUGH.items()):
        known = [row for row in rows if row.wait is None and row.responses >= least and getattr(row, field) is not None]
        if len(known) > 1:
            return _slowest_of(known, field, least)
    return "No two APIs have enough answers to be compared"


def _slowest_of(rows: list[LatencyOfApi], field: str, least: int) -> str:
    worst = max(rows, key=lambda row: getattr(row, field))
    label, usual = field.removesuffix("_ms"), ""
    if worst.p50_ms is not None and label != "p50":
        usual = f", half of them within {milliseconds(worst.p50_ms)}"
    of = f"Of {count(len(rows), 'API')} with {count(least)} or more answers"
    return f"{of}, {worst.api} is the slowest at {label}: {milliseconds(getattr(worst, field))}{usual}"


def _plots(summary: Summary) -> Iterator[Plot]:
    rows = [row for row in summary.latency.apis if row.wait is None and any(row.slow_ms.known)][:_MOST_SMALL]
    if rows:
        values = [value for row in rows for one in (row.usual_ms, row.slow_ms) for value in one.known if value > 0]
        over = domain(values or [1])
        panels = tuple(_of_api(summary.timeline, row, over) for row in rows)
        keys = Key("p50, half of the answers", MUTED), Key("p99, the slowest hundredth", HUES[0])
        yield Plot("Which API was slow, and when?", f"{slowest(summary.latency.apis.rows)}.", panels, keys)
    yield from _heat(summary)


def _of_api(timeline: Timeline, row: LatencyOfApi, over: tuple[float, float]) -> Panel:
    lines = Lines(timeline, 120, percentile_lines(row.usual_ms, row.slow_ms), "ms", over)
    label, most = label_of(row), max(row.slow_ms.known)
    return Panel(lines, f"{label}: p99 up to {milliseconds(most)}", label)


def _heat(summary: Summary) -> Iterator[Plot]:
    cells, long = summary.latency.heat.rows, summary.latency.long
    if not cells:
        return
    total = sum(cell.count for cell in cells)
    answer = f"The latencies of {count(total, 'answer')}."
    if long is not None and total:
        answer = f"{count(long)} of {count(total, 'answer')} ({share(long / total)}) took {LONG_MS} ms or longer."
    most = max(cell.count for cell in cells)
    paler = tuple(Key("1 answer" if not at else "", colour) for at, colour in enumerate(HEAT[:-1]))
    keys = (*paler, Key(f"up to {count(most)}", HEAT[-1]))
    yield plot("Was all work slow, or only some?", answer, HeatMap(summary.timeline, 240, cells), keys)
