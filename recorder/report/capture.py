"""A capture's report: one HTML page, or Markdown for a pull request or a chat.

The page begins with the findings, in sentences; then come the sections, each with plots and tables. Its only script
sorts tables. It is part of the page, and the page's content security policy allows no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.analysis.summary.sections.findings import Findings
from recorder.analysis.summary.whole import Summary
from recorder.report.every_section import sections
from recorder.report.figure import Figure
from recorder.report.listings import short
from recorder.report.section import SectionText
from recorder.report.sections import findings as words
from recorder.report.sections.groups import LATE_IN_SHORT
from recorder.terminal import count, duration, moment, size

# A browser opens a page of this size at once, and a mail can carry it. Foreign names decide how long a row is, so a
# page that would be larger gets shorter tables.
MAX_BYTES = 4_000_000
_ROWS = (200, 100, 50, 25)


def html(summary: Summary, path: str | None = None) -> str:
    """The page. `path`: the capture's folder in the page's commands; None: as the summary names it."""
    # packages of an extra, which Markdown does without
    from recorder.report.page import hashed, page, script
    from recorder.report.plots.drawn import drawn

    every, sort = sections(summary), script("sort.js")
    values = {
        "title": f"Capture: {words.verdict(summary.findings)}",
        "verdict": words.verdict(summary.findings),
        "tone": _tone(summary.findings),
        "lead": lead(summary),
        "figures": [*_figures(summary)],
        "judged": words.judged(summary.findings),
        "plots": {one.id: [*map(drawn, one.plots)] for one in every},
        "script": sort,
        "script_hash": hashed(sort),
    }
    folder = path if path is not None else summary.coverage.capture
    for most in _ROWS:
        found = page("capture.html", **values, **_rows(summary, every, folder, most))
        if len(found.encode()) <= MAX_BYTES:
            break
    return found


def _rows(summary: Summary, every: list[SectionText], folder: str, most: int) -> dict[str, Any]:
    """The values of the page that have rows, with at most `most` rows each."""
    found = words.findings(summary, folder)[:most]
    left_out = summary.findings.found.total - len(found)
    return {
        "findings": found,
        "more": count(left_out, "further finding") if left_out else "",
        "sections": [one.with_rows(most) for one in every],
    }


def markdown(summary: Summary, path: str | None = None) -> str:
    """The findings and the small tables as Markdown. `path`: as for `html`."""
    from recorder.report.markdown import text

    return text(summary, path if path is not None else summary.coverage.capture)


def _tone(found: Findings) -> str:
    """The colour of the verdict."""
    if found.not_judged is not None:
        return "warn"
    worst = min((one.severity for one in found.found), key=lambda severity: severity.rank, default=None)
    return words.TONES[worst] if worst else "good"


def lead(summary: Summary) -> str:
    """A sentence: what was recorded, when, and for how long."""
    found = summary.coverage
    if found.first_at_ns is None or found.last_at_ns is None:
        return short(found.capture, 200)
    lasted = duration(found.last_at_ns - found.first_at_ns) or "0 s"
    return f"{short(found.capture, 200)}: {lasted} of traffic from {moment(found.first_at_ns)} UTC on."


def _figures(summary: Summary) -> Iterator[Figure]:
    coverage = summary.coverage
    lost = sum(gap.frames for gap in coverage.missing.gaps)
    beside = (
        f"{count(lost, 'frame')} missing" if lost else "nothing missing" if not coverage.missing else "not complete"
    )
    yield Figure(
        "exchanges", count(coverage.exchanges), beside, "bad" if lost else "good" if not coverage.missing else "warn"
    )
    yield Figure("bytes", size(coverage.bytes), f"{count(coverage.frames)} frames")
    yield Figure("connections", count(summary.connections.total), f"{count(summary.clients.clients.total, 'client')}")
    yield from _of_cluster(summary)


def _of_cluster(summary: Summary) -> Iterator[Figure]:
    """The figures that are read from bodies, if there are any."""
    if summary.topics.totals.total:
        yield Figure(
            "topics", count(summary.topics.totals.total), count(summary.partitions.partitions.total, "partition")
        )
    if summary.groups.groups.total:
        behind = sum(one.is_behind for one in summary.groups.groups)
        beside = f"{count(behind)} {LATE_IN_SHORT}"
        yield Figure("groups", count(summary.groups.groups.total), beside, "warn" if behind else "good")
    real = sum(one.count for one in summary.errors.errors if not one.is_flow)
    if summary.errors.not_judged is None:
        normal = "but normal ones" if summary.errors.errors.rows and not real else ""
        yield Figure("errors", count(real), normal, "good")
