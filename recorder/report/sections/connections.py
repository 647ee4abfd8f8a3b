"""The section on connections, and how they begin and end: words, tables, a plot."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    bytes_of,
    listing,
    name,
    number,
    time_of,
)
from recorder.report.plots.shapes import HUES, Plot, StackedBars, plot
from recorder.report.section import SectionText, section
from recorder.report.sections.coverage import reasons
from recorder.report.series import busiest, counted
from recorder.terminal import count


def connections(summary: Summary) -> SectionText:
    """The section of connections: how they begin and end."""
    found = summary.connections
    columns = (
        name("client", lambda row: row.client, is_name=True),
        number("opened", lambda row: row.opened),
        number("still open", lambda row: row.open, is_spare=True),
        time_of("median life", lambda row: row.life_ms),
        bytes_of("bytes", lambda row: row.bytes, is_spare=True),
        name("ended", lambda row: reasons(row.causes), is_spare=True),
    )
    causes = (name("cause", lambda row: row.cause), number("connections", lambda row: row.connections))
    probes = f"; {count(found.probes)} of them were probes, which ended without a byte" if found.probes else ""
    lead = f"{count(found.total, 'connection')}{probes}." if found.total else ""
    return section(
        "connections",
        "Connections",
        found,
        (lead,),
        listing("By client", columns, found.clients),
        listing("Why they ended", causes, found.causes),
        nothing="No connection was seen.",
        plots=_plots(summary),
    )


def _plots(summary: Summary) -> Iterator[Plot]:
    opened = summary.connections.opened
    if any(opened.known):
        answer = busiest(summary.timeline, opened, counted("new connection"))
        bars = StackedBars(summary.timeline, 120, ((opened, HUES[0]),), "opened")
        yield plot("When did clients connect?", answer, bars)
