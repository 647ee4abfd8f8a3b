"""The section on other events: a table."""

from __future__ import annotations

from recorder.analysis.summary.whole import Summary
from recorder.report.listings import clock, listing, moment_of, name
from recorder.report.section import SectionText, section


def events(summary: Summary) -> SectionText:
    """The section of other events."""
    found, when = summary.events, clock(summary.timeline)
    columns = (
        moment_of("at", lambda row: row.at_ns, when),
        name("event", lambda row: row.kind),
        name("connection", lambda row: row.connection, is_spare=True),
        name("what happened", lambda row: row.sentence),
    )
    return section(
        "events", "Events", found, (), listing("Events", columns, found.events), nothing="No event to tell of."
    )
