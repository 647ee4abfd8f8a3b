"""Sections about clients, connections and events, in words and tables; and about the method of the report."""

from __future__ import annotations

from recorder.analysis.summary.sections.clients import Client
from recorder.analysis.summary.sections.findings import LASTING, MIN_CASES, MIN_OF, NEAR
from recorder.analysis.summary.whole import Summary
from recorder.analysis.summary.words import measure
from recorder.report.listings import bytes_of, clock, listing, moment_of, name, number, short, time_of
from recorder.report.sections.section import SectionText, section
from recorder.report.sections.traffic import reasons
from recorder.terminal import count, duration, moment

_FATES = {"cut": "refused", "held_back": "by the broker's age", "unsure": "not known"}
_FATE_TONES = {"cut": "bad", "unsure": "warn"}


def clients(summary: Summary) -> SectionText:
    """The section of clients: their software, and whether a broker of release 4 still serves it."""
    found, when = summary.clients, clock(summary.timeline)
    columns = (
        name("client id", lambda row: row.client_id, is_name=True),
        name("software", software),
        name("principal", lambda row: row.principal, is_spare=True),
        name("host", lambda row: row.host, is_spare=True),
        number("connections", lambda row: row.connections, is_spare=True),
        number("requests", lambda row: row.requests),
        bytes_of("bytes", lambda row: row.bytes),
        name("at Kafka 4", lambda row: _FATES.get(row.fate or "", row.fate), tone=_tone),
        name("because", lambda row: row.oldest, is_spare=True),
        moment_of("last seen", lambda row: row.last_at_ns, when, is_spare=True),
    )
    lead = ""
    if found.clients.rows:
        cut = sum(row.fate == "cut" for row in found.clients)
        fate = f"; a broker of Kafka 4 would refuse {count(cut)}" if cut else ""
        lead = f"{count(found.clients.total, 'client')} by client id, software, principal and host{fate}."
    by_client = listing("By client", columns, found.clients)
    return section("clients", "Clients", found, (lead,), by_client, nothing="No client was seen.")


def software(row: Client) -> str:
    """Name and version of a client's software."""
    return " ".join(part for part in (row.software, row.version) if part)


def _tone(row: Client) -> str:
    return _FATE_TONES.get(row.fate or "", "")


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
    )


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


_LASTING = f"in {LASTING} of {NEAR} windows"
_CASES = f"A rule that must last also needs {MIN_CASES} cases, and {MIN_OF} chances if its measure is a share."


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
