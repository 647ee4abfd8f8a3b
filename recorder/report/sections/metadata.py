"""The section on changes in the cluster's metadata: words, tables, a plot."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    UNKNOWN,
    ListingColumn,
    Words,
    clock,
    listing,
    moment_of,
    name,
)
from recorder.report.plots.shapes import Key, Plot, StackedBars, plot
from recorder.report.section import SectionText, section
from recorder.report.series import coloured, summed
from recorder.terminal import count


def metadata(summary: Summary) -> SectionText:
    """The section of changes in the cluster's metadata."""
    found, when = summary.metadata, clock(summary.timeline)
    several = len({row.cluster for row in found.changes}) > 1
    columns = (
        moment_of("at", lambda row: row.at_ns, when),
        name("what", lambda row: row.what),
        name("of", lambda row: row.subject, is_name=True),
        name("change", lambda row: f"{row.before or UNKNOWN} \N{RIGHTWARDS ARROW} {row.after or UNKNOWN}"),
        name("cluster", lambda row: row.cluster if several else None, is_spare=True),
    )
    lead = "As answers to Metadata told them: a client asks every few minutes, or when it is told an error."
    changes = listing("Changes", columns, found.changes)
    differ = listing("Leaders that differ by client", _of_contradictions(when), found.contradictions)
    leads = (lead,) if found.changes.rows or found.contradictions.rows else ()
    return section(
        "metadata",
        "Metadata changes",
        found,
        leads,
        changes,
        differ,
        nothing="No leader or replica changed.",
        plots=_plots(summary),
    )


def _of_contradictions(when: Words) -> tuple[ListingColumn, ...]:
    return (
        moment_of("first told", lambda row: row.at_ns, when),
        name("of", lambda row: row.subject, is_name=True),
        name("told to", lambda row: row.asker, is_name=True),
        name("leader", lambda row: row.leader),
        name("others are told", lambda row: row.others),
    )


def _plots(summary: Summary) -> Iterator[Plot]:
    line = summary.timeline
    shown = coloured(line, summary.metadata.over_time)
    if not shown:
        return
    changes = summed(line, [series for series, _ in shown]).values
    most, at = max((value or 0, -at) for at, value in enumerate(changes))
    when = clock(line)(line.begin_ns(-at))
    total = round(sum(value or 0 for value in changes))
    answer = f"{count(total, 'change')} of partitions and nodes, {count(round(most))} of them from {when} on."
    keys = tuple(Key(series.name, colour) for series, colour in shown)
    yield plot("When did the cluster change?", answer, StackedBars(line, 130, shown, "changes"), keys)
