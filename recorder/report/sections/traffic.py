"""The section on traffic, requests and bytes by API: words, a table, a plot."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    Listing,
    bytes_of,
    listing,
    name,
    number,
    share,
)
from recorder.report.plots.shapes import Plot
from recorder.report.section import SectionText, section
from recorder.report.series import stacked
from recorder.terminal import size


def traffic(summary: Summary) -> SectionText:
    """The section of traffic: requests and bytes by API."""
    found = summary.traffic
    lead = ""
    if found.apis.rows:
        busiest = max(found.apis, key=lambda row: row.bytes)
        total = sum(row.bytes for row in found.apis) + (found.apis.other.bytes if found.apis.other else 0)
        lead = f"{busiest.api} carries {share(busiest.bytes / total)} of {size(total)}." if total else ""
    return section(
        "traffic",
        "Traffic",
        found,
        (lead,),
        _by_api(summary),
        nothing="No exchange was recorded.",
        plots=_plots(summary),
    )


def _by_api(summary: Summary) -> Listing:
    top = summary.traffic.apis
    rows = Table((*top.rows, *([top.other] if top.other else [])), total=top.total)
    return listing("By API", _TRAFFIC, rows, is_small=True)


_TRAFFIC = (
    name("API", lambda row: row.api, is_name=True),
    number("requests", lambda row: row.requests),
    number("responses", lambda row: row.responses, is_spare=True),
    number("unanswered", lambda row: row.unanswered or None, tone=lambda row: "warn"),
    number("with errors", lambda row: row.errors or None, is_spare=True),
    bytes_of("sent", lambda row: row.request_bytes),
    bytes_of("received", lambda row: row.response_bytes),
)


def _plots(summary: Summary) -> Iterator[Plot]:
    found = summary.traffic.bytes_over_time
    return stacked(summary.timeline, found, "Which APIs carry the bytes, and when?", "bytes", size)
