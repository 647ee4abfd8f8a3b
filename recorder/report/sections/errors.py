"""The section on errors in responses: words, a table, a plot."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.summary.sections.errors import ErrorOfApi
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    clock,
    listing,
    moment_of,
    name,
    number,
    share,
)
from recorder.report.plots.shapes import Plot
from recorder.report.section import SectionText, section
from recorder.report.series import counted, stacked
from recorder.terminal import count


def errors(summary: Summary) -> SectionText:
    """The section of errors in brokers' responses."""
    found, when = summary.errors, clock(summary.timeline)
    real = sum(one.count for one in found.errors if not one.is_flow)
    flow = sum(one.count for one in found.errors if one.is_flow)
    normal = f" {count(flow)} more belong to the protocol's normal course." if flow else ""
    lead = f"{count(real, 'error')} in responses.{normal}" if found.errors.rows else ""
    columns = (
        name("API", lambda row: row.api, is_name=True),
        name("error", _error, tone=_tone, is_name=True),
        number("count", lambda row: row.count),
        number("of responses", lambda row: row.share, share),
        name("about", lambda row: row.subject, is_spare=True),
        moment_of("first", lambda row: row.first_at_ns, when, is_spare=True),
        moment_of("last", lambda row: row.last_at_ns, when, is_spare=True),
        name("example", lambda row: row.example, is_name=True, is_spare=True, note=_OF_EXAMPLES),
    )
    by_api = listing("By API", columns, found.errors, is_small=True)
    return section(
        "errors",
        "Errors",
        found,
        (lead,),
        by_api,
        nothing="No response holds an error.",
        plots=_plots(summary),
    )


_OF_EXAMPLES = "Examples are ids for kafka-wiretap inspect show."


def _error(row: ErrorOfApi) -> str:
    kind = " (normal)" if row.is_flow else " (retriable)" if row.is_retriable else ""
    return f"{row.error}{kind}"


def _tone(row: ErrorOfApi) -> str:
    return "" if row.is_flow else "warn" if row.is_retriable else "bad"


def _plots(summary: Summary) -> Iterator[Plot]:
    found = summary.errors.over_time
    return stacked(summary.timeline, found, "When were errors answered?", "errors", counted("error"))
