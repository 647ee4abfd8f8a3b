"""The section on the report's method, with each rule's threshold: words and tables."""

from __future__ import annotations

from recorder.analysis.summary.sections.findings import LASTING, MIN_CASES, MIN_OF, NEAR
from recorder.analysis.summary.whole import Summary
from recorder.analysis.summary.words import measure
from recorder.report.listings import listing, name, short
from recorder.report.section import SectionText, section
from recorder.terminal import duration, moment

_LASTING = f"in {LASTING} of {NEAR} windows"
_CASES = f"A rule that must last also needs {MIN_CASES} cases, and {MIN_OF} chances if its measure is a share."


def method(summary: Summary) -> SectionText:
    """The section of the report's method, with each rule's threshold."""
    found = summary.method
    columns = (
        name("rule", lambda row: row.rule, is_name=True),
        name("fires from", lambda row: measure(row.value, row.unit)),
        name("lasting", lambda row: _LASTING if row.must_last else None, note=_CASES),
        name("", lambda row: "as --thresholds says" if row.is_own else None),
    )
    unjudged = (name("rule", lambda row: row.rule, is_name=True), name("why", lambda row: row.reason))
    return section(
        "method",
        "Method",
        found,
        (_made(summary), *(short(note, 400) for note in found.notes)),
        listing("Rules that could not be judged", unjudged, summary.findings.unjudged),
        listing("Thresholds", columns, found.thresholds),
        nothing="Nothing is known of how this report was made.",
    )


def _made(summary: Summary) -> str:
    found = summary.method
    if not found.program:
        return ""
    at = f" at {moment(found.made_at_ns)} UTC" if found.made_at_ns is not None else ""
    took = f", in {duration(found.took_ns)}" if found.took_ns else ""
    window = f" Rules look at windows of {duration(found.window_ns)}." if found.window_ns else ""
    chosen = f" Chosen: {', '.join(map(short, found.options))}." if found.options else ""
    return (
        f"Made by {short(found.program)}{at}{took}.{window}{chosen} Plots have bins of {_bin(summary)}; times are UTC."
    )


def _bin(summary: Summary) -> str:
    return duration(summary.timeline.bin_ns)
