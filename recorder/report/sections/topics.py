"""The section on topics, their writers and readers: words, tables, a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recorder.analysis.summary.sections.topics import TopicTotals, TopicUse
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    ListingColumn,
    bytes_of,
    clock,
    listing,
    moment_of,
    name,
    number,
    short,
)
from recorder.report.plots.shapes import HUES, Bar, Bars, Key, Piece, Plot, plot
from recorder.report.section import SectionText, section
from recorder.terminal import count, size


def topics(summary: Summary) -> SectionText:
    """The section of topics: the writers and readers of each."""
    found, when = summary.topics, clock(summary.timeline)
    columns = (
        name("topic", lambda row: row.topic, is_name=True),
        name("does", lambda row: row.side.value, is_fixed=True),
        name("client id", lambda row: row.client_id, is_name=True),
        name("software", lambda row: row.software, is_spare=True),
        name("principal", lambda row: row.principal, is_spare=True),
        name("group", lambda row: row.group, is_spare=True),
        bytes_of("bytes", lambda row: row.bytes),
        number("records", lambda row: row.records),
        *_not_accepted(found.use),
        moment_of("last", lambda row: row.last_at_ns, when, is_spare=True),
    )
    lead = ""
    if found.totals.rows:
        lead = f"{count(found.totals.total, 'topic')}: {_carried(found.totals.rows)}."
    return section(
        "topics",
        "Topics",
        found,
        (lead,),
        listing("Topics", (*_TOPICS, *_not_accepted(found.totals)), found.totals, is_small=True),
        listing("Who writes, who reads", columns, found.use),
        listing("CloudEvents", _EVENTS, found.cloudevents, note=_OF_CLAUSES, is_small=True),
        nothing="No records were written or read.",
        plots=_plots(summary),
    )


def _carried(rows: tuple[TopicTotals, ...]) -> str:
    written, read = sum(row.written_bytes for row in rows), sum(row.read_bytes for row in rows)
    others = (
        ("refused", sum(row.refused_records or 0 for row in rows)),
        ("sent again", sum(row.retried_records or 0 for row in rows)),
        ("without an answer", sum(row.unanswered_records or 0 for row in rows)),
    )
    also = "".join(f"; records {what}: {count(records)}" for what, records in others if records)
    return f"{size(written)} written, {size(read)} read{also}"


_NOT_ACCEPTED = (
    number(
        "refused",
        lambda row: row.refused_records,
        is_spare=True,
        note="Refused: records that brokers answered with an error.",
    ),
    number(
        "sent again",
        lambda row: row.retried_records,
        is_spare=True,
        note="Sent again: records that count already.",
    ),
    number(
        "unanswered",
        lambda row: row.unanswered_records,
        is_spare=True,
        note="Unanswered: records sent with acks=0, or whose answer is not in the capture.",
    ),
)


def _not_accepted(rows: Iterable[TopicTotals | TopicUse]) -> tuple[ListingColumn, ...]:
    """The columns of records that brokers did not accept, as far as there are any."""
    every = [*rows]
    return tuple(column for column in _NOT_ACCEPTED if any(map(column.value, every)))


_TOPICS = (
    name("topic", lambda row: row.topic, is_name=True),
    number("partitions", lambda row: row.partitions, is_spare=True),
    number("writers", lambda row: row.writers, is_spare=True),
    number("readers", lambda row: row.readers, is_spare=True),
    bytes_of("written", lambda row: row.written_bytes),
    bytes_of("read", lambda row: row.read_bytes),
    number("records written", lambda row: row.written_records, is_spare=True),
    number("records read", lambda row: row.read_records, is_spare=True),
)
_EVENTS = (
    name("topic", lambda row: row.topic, is_name=True),
    name("mode", lambda row: row.mode, is_fixed=True),
    name("breaks clause", lambda row: row.clause, is_fixed=True, tone=lambda row: "bad"),
    name("how", lambda row: row.reason),
    number("written", lambda row: row.written),
    number("read", lambda row: row.read),
)
_OF_CLAUSES = "Clauses are those of the CloudEvents binding for Kafka; an event that breaks several counts with each."


def _plots(summary: Summary) -> Iterator[Plot]:
    rows = [row for row in summary.topics.totals if row.kept_bytes or row.read_bytes]
    if not rows:
        return
    unread = [row.topic for row in rows if row.kept_bytes and not row.read_bytes]
    were = "was" if len(unread) == 1 else "were"
    answer = f"{count(len(unread))} of {count(len(rows), 'topic')} {were} written and never read"
    answer += f": {', '.join(short(name, 40) for name in unread[:3])}." if unread else "."
    keys = Key("written", HUES[0]), Key("read", HUES[1])
    yield plot("What is written, and how often is it read?", answer, Bars(tuple(map(_bar, rows))), keys)


def _bar(row: TopicTotals) -> Bar:
    written = f"{count(row.writers, 'writer')} {size(row.kept_bytes)}"
    read = f"{count(row.readers, 'reader')} {size(row.read_bytes)}"
    return Bar(row.topic, f"{written}, {read}", (Piece(row.kept_bytes, HUES[0]), Piece(row.read_bytes, HUES[1])))
