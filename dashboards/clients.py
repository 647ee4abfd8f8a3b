"""Which client and which topic get errors, and which load the cluster: choose some with `topic` and `client_id`.

All of it comes from the process that `[live]` starts; the last row says how far it can be trusted.
"""

from __future__ import annotations

from dashboards.board import board
from dashboards.panels import GREEN, HALF, QUARTER, RED, Column, Query, graph, over, rows, runbook, states
from dashboards.promql import (
    CHOSEN,
    RANGE,
    most_events,
    named,
    now,
    or_zero,
    per_minute,
    per_second,
    steadily_per_minute,
    top,
    total_per_minute,
)
from proxy.metrics import table

_ERRORS = [runbook("errors", "many responses have errors")]
_TOPIC = {"topic": CHOSEN["topic"]}
_CLIENT = {"client_id": CHOSEN["client_id"]}
_BY_CLIENT = ("cluster", "client_id", "api", "error")
_BY_TOPIC = ("cluster", "topic", "api", "error")
_OFF = "Empty unless `live.{}` is set."


ERRORS = (
    rows(
        "Clients with errors",
        "In the time shown: codes at topics, partitions and committed offsets, without normal steps of the "
        "protocol. Look: the topmost. Next: `kafka-wiretap top`, or `inspect exchanges --filter` with this client "
        "id, shows the exchanges. " + _OFF.format("clients"),
        {"cluster": "cluster", "client_id": "client", "api": "API", "error": "error"},
        Column(
            most_events(table.CLIENT_ERRORS, *_BY_CLIENT, window=RANGE, most=100, where=_CLIENT),
            "errors",
            levels=over(orange=1, red=100),
        ),
        sort="errors",
        links=_ERRORS,
    ),
    rows(
        "Topics with errors",
        "As for clients, by topic. Look: one topic alone was deleted, or may not be used; many of one API are a "
        "broker. " + _OFF.format("topics"),
        {"cluster": "cluster", "topic": "topic", "api": "API", "error": "error"},
        Column(
            most_events(table.TOPIC_ERRORS, *_BY_TOPIC, window=RANGE, most=100, where=_TOPIC),
            "errors",
            levels=over(orange=1, red=100),
        ),
        sort="errors",
        links=_ERRORS,
    ),
    graph(
        "Errors a minute, by client",
        "The ten with most. Look: one client alone is wrong itself; all at once is the cluster. "
        + _OFF.format("clients"),
        Query(total_per_minute(table.CLIENT_ERRORS, where=_CLIENT), "all"),
        Query(
            named(top(per_minute(table.CLIENT_ERRORS, "client_id", "error", where=_CLIENT)), "client_id"),
            "{{client_id}} {{error}}",
        ),
        unit="cpm",
        size=HALF,
        links=_ERRORS,
    ),
    graph(
        "Errors a minute, by topic",
        "The ten with most. Look: when it began. " + _OFF.format("topics"),
        Query(total_per_minute(table.TOPIC_ERRORS, where=_TOPIC), "all"),
        Query(top(per_minute(table.TOPIC_ERRORS, "topic", "error", where=_TOPIC)), "{{topic}} {{error}}"),
        unit="cpm",
        size=HALF,
        links=_ERRORS,
    ),
)

CLIENTS = (
    graph(
        "Requests by client",
        "The ten that ask most. Look: a client that asks far more than it moves polls too often. "
        + _OFF.format("clients"),
        Query(named(top(per_second(table.CLIENT_REQUESTS, "client_id", where=_CLIENT)), "client_id"), "{{client_id}}"),
        unit="reqps",
    ),
    graph(
        "Bytes that clients send",
        "The ten that send most. Look: who has begun to write more. " + _OFF.format("clients"),
        Query(
            named(top(per_second(table.CLIENT_REQUEST_BYTES, "client_id", where=_CLIENT)), "client_id"), "{{client_id}}"
        ),
        unit="Bps",
    ),
    graph(
        "Bytes that clients receive",
        "The ten that receive most. Look: a consumer that reads all anew. " + _OFF.format("clients"),
        Query(
            named(top(per_second(table.CLIENT_RESPONSE_BYTES, "client_id", where=_CLIENT)), "client_id"),
            "{{client_id}}",
        ),
        unit="Bps",
    ),
    rows(
        "Libraries",
        "By the name and version that the connection's ApiVersions told; empty names did not say. Look: versions "
        "that an upgrade of "
        "the brokers would shut out (docs/upgrade.md). " + _OFF.format("clients"),
        {"cluster": "cluster", "software": "library", "version": "version"},
        Column(per_second(table.SOFTWARE_REQUESTS, "cluster", "software", "version"), "requests", "reqps"),
        Column(per_second(table.SOFTWARE_REQUEST_BYTES, "cluster", "software", "version"), "sent", "Bps"),
        Column(per_second(table.SOFTWARE_RESPONSE_BYTES, "cluster", "software", "version"), "received", "Bps"),
        sort="requests",
        size=(24, 6),
    ),
)

TOPICS = (
    graph(
        "Bytes produced, by topic",
        "The ten that get most, refused batches included. Look: who fills the disks. " + _OFF.format("topics"),
        Query(top(per_second(table.TOPIC_PRODUCED_BYTES, "topic", where=_TOPIC)), "{{topic}}"),
        unit="Bps",
        size=HALF,
    ),
    graph(
        "Bytes fetched, by topic",
        "The ten that are read most. Look: many times what is produced are many readers, or one that begins anew. "
        + _OFF.format("topics"),
        Query(top(per_second(table.TOPIC_FETCHED_BYTES, "topic", where=_TOPIC)), "{{topic}}"),
        unit="Bps",
        size=HALF,
    ),
    graph(
        "Records produced, by topic",
        "Look: a fall to 0 is a producer that is gone. " + _OFF.format("topics"),
        Query(top(per_second(table.TOPIC_PRODUCED_RECORDS, "topic", where=_TOPIC)), "{{topic}}"),
        unit="wps",
        size=HALF,
    ),
    graph(
        "Records fetched, by topic",
        "Look: a fall to 0 with records produced is a reader that is gone. Next: the groups' dashboard. "
        + _OFF.format("topics"),
        Query(top(per_second(table.TOPIC_FETCHED_RECORDS, "topic", where=_TOPIC)), "{{topic}}"),
        unit="wps",
        size=HALF,
    ),
)

TRUST = (
    states(
        "The process that reads",
        "Whether it answers. Empty unless a key of `[live]` is set. Next: the proxy's standard error (`live:`) "
        "says why it ended.",
        Query(now(table.LIVE_RUNS, "instance", how="min"), "{{instance}}"),
        words={1: ("reads", GREEN), 0: ("GONE", RED)},
        size=QUARTER,
    ),
    graph(
        "How old it is",
        "How old the counts shown are, and how far the process is behind the traffic. Look: a line that climbs is "
        "a process that does not keep up: then counts come late, or are missing.",
        Query(now(table.LIVE_AGE, "instance", how="max"), "{{instance}}: age of the counts"),
        Query(now(table.LIVE_BEHIND, "instance", how="max"), "{{instance}}: behind"),
        unit="s",
        size=QUARTER,
    ),
    graph(
        "Missed a minute",
        "Frames that it could not read in time, and those that it could not open: 0 if the counts are whole. "
        "Gaps: how often. Look: above 0, the counts are too small; but what came too late for top, the page and spans "
        "is in them.",
        Query(steadily_per_minute(table.LIVE_MISSED_FRAMES), "frames missed"),
        Query(steadily_per_minute(table.LIVE_GAPS_SEEN), "times"),
        Query(steadily_per_minute(table.LIVE_UNREAD), "frames not opened"),
        Query(steadily_per_minute(table.LIVE_PASSED_OVER), "frames too late for top, page and spans"),
        Query(steadily_per_minute(table.LIVE_GAPS), "gaps in the feed"),
        Query(steadily_per_minute(table.LIVE_RESTARTS), "restarts: counts begin anew"),
        Query(steadily_per_minute(table.LIVE_HUNG), "of these, as it hung"),
        unit="cpm",
        size=QUARTER,
    ),
    graph(
        "Values without a row, a minute",
        "How often a table had no room for a value: `other` counts a topic, client or software then; of all else, what "
        "was idle longest made room. Next: a larger limit of `[live]`: `topics` for `topic`, `clients` for `client_id` "
        "and `software`, `groups` for `group` and `partition`. No setting governs the others.",
        Query(or_zero(steadily_per_minute(table.LABEL_OVERFLOW)), "all"),
        Query(steadily_per_minute(table.LABEL_OVERFLOW, "label"), "{{label}}"),
        unit="cpm",
        size=QUARTER,
    ),
    graph(
        "The feed",
        "Where nothing is recorded: bytes in memory that are not read yet. Look: at 64 MiB bytes are dropped.",
        Query(now(table.LIVE_SPOOL, "instance"), "{{instance}}"),
        unit="bytes",
        size=QUARTER,
    ),
    graph(
        "Dropped of the feed",
        "Bytes that found no room there. Look: above 0, the counts are too small.",
        Query(per_second(table.LIVE_DROPPED, "instance"), "{{instance}}"),
        unit="Bps",
        size=QUARTER,
    ),
    graph(
        "Spans to the collector, a minute",
        "Exchanges that `live.otlp` sends as spans, by outcome. Look: refused is a collector that is gone or says "
        "no; dropped is one that is too slow. Empty unless it is set.",
        Query(per_minute(table.LIVE_SPANS, "outcome"), "{{outcome}}"),
        unit="cpm",
        size=QUARTER,
    ),
    graph(
        "Metrics to the collector, a minute",
        "Times that `live.otlp` has sent these metrics, by outcome. Look: refused is a collector that is gone or "
        "says no. Empty unless it is set.",
        Query(per_minute(table.LIVE_PUSHES, "outcome"), "{{outcome}}"),
        unit="cpm",
        size=QUARTER,
    ),
)

BOARD = board(
    "clients",
    "clients and topics",
    "Which client and which topic get errors, and which load the cluster? Needs `live.clients` and `live.topics`.",
    {
        "Who gets errors?": ERRORS,
        "Which client loads the cluster?": CLIENTS,
        "Which topic?": TOPICS,
        "Can this be trusted?": TRUST,
    },
    also=("topic", "client_id"),
)
