"""The section on the recorded traffic and its losses: words, tables, a plot."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.coverage import Coverage
from recorder.analysis.summary.whole import Summary
from recorder.capture.frames import LOST_FROM_LOG
from recorder.missing import Missing, chosen_parts
from recorder.report.listings import (
    bytes_of,
    listing,
    name,
    number,
    short,
)
from recorder.report.plots.shapes import HUES, Plot, StackedBars, plot
from recorder.report.section import SectionText, section
from recorder.report.series import busiest, counted
from recorder.terminal import count, duration, moment, size


def coverage(summary: Summary) -> SectionText:
    """The section of coverage: the amount of recorded traffic, and the losses."""
    found = summary.coverage
    lead = (_held(found), lacking(found.missing)) if found.frames or found.missing else ()
    unread = [one for one in found.read if one.read < one.responses]
    return section(
        "coverage",
        "What was recorded",
        found,
        lead,
        listing("What is missing", _MISSING, Table(tuple(_missing(found.missing))), is_small=True),
        listing("Responses whose body could not be read", _UNREAD, Table(tuple(unread)), note=_OF_UNREAD),
        nothing="The capture holds no frames.",
        plots=_plots(summary),
    )


def _held(found: Coverage) -> str:
    if not found.frames:
        return ""
    held = f"{count(found.frames, 'frame')} ({size(found.bytes)}) of {count(found.exchanges, 'exchange')}"
    sessions = f"in {count(found.sessions.total, 'session')}" if found.sessions.total else ""
    sessions += f" of {count(len(found.clusters), 'cluster')}" if len(found.clusters) > 1 else ""
    if found.first_at_ns is None or found.last_at_ns is None:
        return f"{held} {sessions}".rstrip() + "."
    lasted = duration(found.last_at_ns - found.first_at_ns) or "0 s"
    return f"{held} {sessions}".rstrip() + f", from {moment(found.first_at_ns)} UTC on, over {lasted}."


def lacking(missing: Missing) -> str:
    """The losses in a sentence."""
    if not missing:
        return "Nothing is missing: no gaps, nothing left out, every session ended in order."
    gaps = sum(gap.gaps for gap in missing.gaps)
    if not gaps:
        return "No gaps, but not all of the traffic is here."
    lost = sum(gap.frames for gap in missing.gaps)
    are = "is" if lost == 1 else "are"
    return f"At least {count(lost, 'frame')} {are} missing in {count(gaps, 'gap')}: all counts below are lower bounds."


def _missing(missing: Missing) -> Iterator[tuple[str, int | None, int | None]]:
    """(kind of loss, frames, bytes) for each loss."""
    for gap in sorted(missing.gaps, key=lambda gap: -gap.frames):
        how = "lost from the log" if gap.cause in LOST_FROM_LOG else "not recorded"
        yield f"{how}: {gap.cause}, {count(gap.gaps, 'gap')}", gap.frames, gap.bytes
    if missing.left_out:
        yield "left out by the settings", missing.left_out, None
    if missing.cut_frames:
        yield "kept in part, by the settings", missing.cut_frames, missing.cut_bytes
    if missing.without_records:
        yield "records left out or hashed, by the settings", missing.without_records, None
    for sentence in chosen_parts(missing.samples, missing.only_topics):
        yield sentence, None, None
    for session in missing.died:
        yield f"session {session} died: what its proxy had not written yet", None, None
    for note in missing.notes:
        yield note, None, None


_MISSING = (
    name("what", lambda row: row[0]),
    number("frames", lambda row: row[1]),
    bytes_of("bytes", lambda row: row[2]),
)
_UNREAD = (
    name("API", lambda row: row.api),
    number("responses", lambda row: row.responses, is_spare=True),
    number("read", lambda row: row.read),
    name("not read, by reason", lambda row: reasons(row.unread), is_name=True),
)
_OF_UNREAD = "What is told of bodies below (errors, topics, records, lag) lacks these."


def reasons(counts: dict[str, int]) -> str:
    """Reasons with their numbers, the most frequent first."""
    shown = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{short(reason)} {count(number)}" for reason, number in shown if number)


def _plots(summary: Summary) -> Iterator[Plot]:
    found = summary.coverage
    if not any(found.exchanges_over_time.known):
        return
    lost = found.lost_over_time
    answer = busiest(summary.timeline, found.exchanges_over_time, counted("request"))
    answer += " Frames are missing where the ground is red." if any(lost.known) else ""
    bars = StackedBars(summary.timeline, 130, ((found.exchanges_over_time, HUES[0]),), "requests", lost)
    yield plot("How busy was it, and is all of it here?", answer, bars)
