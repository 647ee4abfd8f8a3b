"""Sections of exchanges in words and tables: coverage, latency, delivery, errors, traffic."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.change.judged import ENOUGH
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.coverage import Coverage
from recorder.analysis.summary.sections.errors import ErrorOfApi
from recorder.analysis.summary.sections.latency import LatencyOfApi
from recorder.analysis.summary.whole import Summary
from recorder.capture.frames import GAP_DAMAGE
from recorder.missing import Missing
from recorder.report.listings import (
    Listing,
    bytes_of,
    clock,
    id_of,
    listing,
    milliseconds,
    moment_of,
    name,
    number,
    share,
    short,
    time_of,
)
from recorder.report.sections.section import SectionText, section
from recorder.terminal import count, duration, moment, size

_WAITS = {"wait": "waiting", "includes_wait": "waiting or not"}


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
        how = "lost from the log" if gap.cause == GAP_DAMAGE else "not recorded"
        yield f"{how}: {gap.cause}, {count(gap.gaps, 'gap')}", gap.frames, gap.bytes
    if missing.left_out:
        yield "left out by the settings", missing.left_out, None
    if missing.cut_frames:
        yield "kept in part, by the settings", missing.cut_frames, missing.cut_bytes
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


def label_of(row: LatencyOfApi) -> str:
    """The API's name, with a remark if its answers may include a wait."""
    return f"{row.api}, {_WAITS.get(row.wait, row.wait)}" if row.wait else row.api


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
    )


_PERCENTILES = (
    time_of("p50", lambda row: row.p50_ms),
    time_of("p95", lambda row: getattr(row, "p95_ms", None), is_spare=True),
    time_of("p99", lambda row: row.p99_ms),
    time_of("max", lambda row: row.most_ms, is_spare=True),
)
_LATENCY = (
    name("API", label_of, is_name=True),
    number("responses", lambda row: row.responses),
    *_PERCENTILES,
)
_NODES = (
    name("API", lambda row: row.api, is_name=True),
    id_of("node", lambda row: row.node),
    number("responses", lambda row: row.responses),
    *_PERCENTILES,
)


def delivery(summary: Summary) -> SectionText:
    """The section of delivery: the time of records from producer to consumer."""
    found = summary.delivery
    lead = "From the Produce request to the first Fetch response with the batch, both by one clock: the proxy's."
    return section(
        "delivery",
        "Delivery",
        found,
        (lead,) if found.topics.rows else (),
        listing("By topic", _DELIVERY, found.topics),
        nothing="No batch was seen both on its way to a broker and on its way to a consumer.",
    )


_OF_AGE = "Age: from the records' own timestamp, by the producer's clock."
_DELIVERY = (
    name("topic", lambda row: row.topic, is_name=True),
    number("batches", lambda row: row.batches),
    *_PERCENTILES,
    time_of("age p50", lambda row: row.age_p50_ms, is_spare=True, note=_OF_AGE),
)


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
    return section("errors", "Errors", found, (lead,), by_api, nothing="No response holds an error.")


_OF_EXAMPLES = "Examples are ids for kafka-wiretap inspect show."


def _error(row: ErrorOfApi) -> str:
    kind = " (normal)" if row.is_flow else " (retriable)" if row.is_retriable else ""
    return f"{row.error}{kind}"


def _tone(row: ErrorOfApi) -> str:
    return "" if row.is_flow else "warn" if row.is_retriable else "bad"


def traffic(summary: Summary) -> SectionText:
    """The section of traffic: requests and bytes by API."""
    found = summary.traffic
    lead = ""
    if found.apis.rows:
        busiest = max(found.apis, key=lambda row: row.bytes)
        total = sum(row.bytes for row in found.apis) + (found.apis.other.bytes if found.apis.other else 0)
        lead = f"{busiest.api} carries {share(busiest.bytes / total)} of {size(total)}." if total else ""
    return section("traffic", "Traffic", found, (lead,), _by_api(summary), nothing="No exchange was recorded.")


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
