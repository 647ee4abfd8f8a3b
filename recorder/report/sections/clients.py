"""The section on clients and their software: words, a table, a plot."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.analysis.summary.sections.clients import Client, SoftwareTotals
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    bytes_of,
    clock,
    listing,
    moment_of,
    name,
    number,
)
from recorder.report.plots.shapes import BAD, HUES, Bar, Bars, Key, Piece, Plot, plot
from recorder.report.section import SectionText, section
from recorder.terminal import count

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
    return section(
        "clients",
        "Clients",
        found,
        (lead,),
        by_client,
        nothing="No client was seen.",
        plots=_plots(summary),
    )


def software(row: Client | SoftwareTotals) -> str:
    """Name and version of a client's software."""
    return " ".join(part for part in (row.software, row.version) if part)


def _tone(row: Client) -> str:
    return _FATE_TONES.get(row.fate or "", "")


def _plots(summary: Summary) -> Iterator[Plot]:
    rows = [row for row in summary.clients.software if row.requests]
    if not rows:
        return
    cut = sum(row.cut for row in rows)
    answer = f"{count(cut, 'client')} would be refused by a broker of Kafka 4." if cut else ""
    keys = (Key("refused by Kafka 4", BAD),) if cut else ()
    bars = Bars(tuple(map(_bar, rows)))
    yield plot("With what software do clients come?", answer, bars, keys, words=answer or "Requests by software.")


def _bar(row: SoftwareTotals) -> Bar:
    return Bar(
        software(row),
        f"{count(row.clients, 'client')}, {count(row.requests, 'request')}",
        (Piece(row.requests, BAD if row.cut else HUES[0]),),
    )
