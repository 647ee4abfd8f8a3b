"""Sections about the cluster's state, in words and tables: topics, groups, partitions, metadata."""

from __future__ import annotations

from collections.abc import Iterable

from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.groups import BEHIND_MS, Group
from recorder.analysis.summary.sections.partitions import NO_LEADER
from recorder.analysis.summary.sections.topics import TopicTotals, TopicUse
from recorder.analysis.summary.whole import Summary
from recorder.report.listings import (
    UNKNOWN,
    ListingColumn,
    Words,
    bytes_of,
    clock,
    id_of,
    listing,
    moment_of,
    name,
    number,
    time_of,
    times,
)
from recorder.report.sections.section import SectionText, section
from recorder.terminal import count, duration, size


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


# the words for `Group.is_behind`
_LATE_BY = duration(BEHIND_MS * 10**6)
LATE, LATE_IN_SHORT = f"behind by {_LATE_BY} or more", f"behind by {_LATE_BY}"


def groups(summary: Summary) -> SectionText:
    """The section of groups: their lag, and the causes of their rebalances."""
    found, when = summary.groups, clock(summary.timeline)
    columns = (
        name("group", lambda row: row.group, is_name=True),
        name("protocol", lambda row: row.protocol, is_spare=True),
        number("members", lambda row: row.members, is_spare=True),
        number("peak", lambda row: row.most_members, is_spare=True),
        number("lag", lambda row: row.last_lag, tone=_of_lag, note=_OF_LAG),
        number("peak lag", lambda row: row.most_lag),
        time_of("behind", lambda row: row.last_lag_ms, is_spare=True, note=_OF_BEHIND),
        number("rebalances", lambda row: row.rebalances, is_spare=True),
        number("commits", lambda row: row.commits, is_spare=True),
        moment_of("stalled", lambda row: row.stalled_from_ns, when, tone=lambda row: "bad", note=_OF_STALLED),
        name("topics", lambda row: ", ".join(row.topics), is_spare=True),
    )
    rebalances = (
        moment_of("began", lambda row: row.from_ns, when),
        name("group", lambda row: row.group, is_name=True),
        number("took", lambda row: row.to_ns and row.to_ns - row.from_ns, duration),
        name("cause", lambda row: row.cause.replace("_", " ")),
        number("members", lambda row: row.members, is_spare=True),
        id_of("generation", lambda row: row.generation, is_spare=True),
        name("members say", lambda row: row.reason, is_spare=True),
    )
    behind = [one for one in found.groups if one.is_behind]
    lead = f"{count(found.groups.total, 'group')}, {count(len(behind))} {LATE} at the end." if found.groups.rows else ""
    return section(
        "groups",
        "Groups",
        found,
        (lead,),
        listing("By group", columns, found.groups, note=_OF_GROUPS, is_small=True),
        listing("Rebalances", rebalances, found.rebalances),
        nothing="No consumer group was seen.",
    )


_OF_GROUPS = "At the end, with peaks."
_OF_LAG = "Lag: records between the last commit and the end of the log, as kafka-consumer-groups counts them."
_OF_BEHIND = "Behind: how long ago the log ended at the commit."
_OF_STALLED = "Stalled: nothing was committed since."


def _of_lag(row: Group) -> str:
    return "warn" if row.is_behind else ""


def partitions(summary: Summary) -> SectionText:
    """The section of partitions: their load, and the partitions that lack replicas."""
    found = summary.partitions
    short = [one for one in found.partitions if one.is_short_of_replicas]
    uneven = sorted((one for one in found.partitions if one.skew), key=lambda one: -(one.skew or 0))
    lead = ""
    if found.partitions.rows:
        lead = f"{count(found.partitions.total, 'partition')} on {count(len(found.nodes), 'node')}"
        lead += f"; {count(len(short))} short of replicas." if short else "."
    return section(
        "partitions",
        "Partitions",
        found,
        (lead,),
        listing("Short of replicas", _PARTITIONS, Table(tuple(short))),
        listing("Busiest for their topic", _PARTITIONS, Table(tuple(uneven[:_BUSIEST]), total=len(uneven))),
        listing("Nodes", _NODES, found.nodes),
        nothing="No partition was written to or read from.",
    )


# Rows of the table of uneven partitions: the map shows the others.
_BUSIEST = 20
_PARTITIONS = (
    name("topic", lambda row: row.topic, is_name=True),
    id_of("partition", lambda row: row.partition),
    name("leader", lambda row: "none" if row.leader == NO_LEADER else row.leader, is_spare=True, is_fixed=True),
    number("of an even share", lambda row: row.skew, times),
    bytes_of("written", lambda row: row.written_bytes, is_spare=True),
    bytes_of("read", lambda row: row.read_bytes, is_spare=True),
    number("in sync", lambda row: row.in_sync, is_spare=True),
    number("replicas", lambda row: row.replicas, is_spare=True),
)
_NODES = (
    id_of("node", lambda row: row.node),
    number("leads partitions", lambda row: row.partitions),
    bytes_of("written", lambda row: row.written_bytes),
    bytes_of("read", lambda row: row.read_bytes),
)


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
        "metadata", "Metadata changes", found, leads, changes, differ, nothing="No leader or replica changed."
    )


def _of_contradictions(when: Words) -> tuple[ListingColumn, ...]:
    return (
        moment_of("first told", lambda row: row.at_ns, when),
        name("of", lambda row: row.subject, is_name=True),
        name("told to", lambda row: row.asker, is_name=True),
        name("leader", lambda row: row.leader),
        name("others are told", lambda row: row.others),
    )
