"""One capture's side of a comparison, computed by Spark: the questions of `analyze`, and the rules of a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured
from recorder.analysis.change.facts import (
    ApiFacts,
    CaptureFacts,
    ClientFacts,
    ErrorFacts,
    ManyClients,
    TopicFacts,
    VersionFacts,
    together_ns,
)
from recorder.analysis.expressions import api, ns
from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.tables import Tables, family
from recorder.analysis.parallel_questions import ask_all
from recorder.analysis.questions.bins import firsts, span
from recorder.analysis.questions.coverage import coverage_by_api
from recorder.analysis.questions.latency import latency_by_api
from recorder.analysis.questions.sections.delivery import delivery
from recorder.analysis.questions.sections.groups import groups
from recorder.analysis.questions.sections.partitions import partitions
from recorder.analysis.report import missing
from recorder.analysis.report_decoders import OF_FINDINGS
from recorder.analysis.summary.bounds import Table, Timeline
from recorder.analysis.summary.sections.findings import Findings
from recorder.analysis.table_cache import Deferred, TableCache
from recorder.analysis.tables.deliveries import delivered
from recorder.analysis.tables.errors import errors
from recorder.capture import frames as c
from recorder.facts.frame import REQUEST
from recorder.facts.rows import SIDE

# how often `facts` calls `say`
STEPS = 3
_NO_FRAMES = "the capture holds no frames"


def facts(
    captured: Captured,
    folder: str,
    *,
    own: Mapping[str, float] | None = None,
    say: Callable[[str], None] = lambda step: None,
) -> CaptureFacts:
    """Returns the capture's side. `folder`: its shown name; `own`: thresholds by rule; `say`: called at each step."""
    keeping = replace(captured, cache=TableCache(), together=OF_FINDINGS)
    kept_events = Deferred(lambda: keeping.once("events", lambda: captured.events))
    within = replace(keeping, events_read=kept_events)
    say(f"looking at the time that {folder} spans")
    held = _held(within, folder)
    if not held.frames:
        return replace(held, findings=Findings(not_judged=_NO_FRAMES))
    tables, line = Tables(within), span(within) or Timeline()
    say(f"exchanges, errors, clients of {folder}")
    questions: Mapping[str, Callable[[], Any]] = {
        "missing": lambda: missing(within.frames, within.events),
        "apis": lambda: _apis(tables.kept),
        "read": lambda: _read(tables.kept),
        "errors": lambda: _errors(tables.kept),
        "versions": lambda: _versions(tables.clients),
        "clients": lambda: _clients(tables.clients),
        "topics": lambda: _topics(tables),
        "deliveries": lambda: delivery(delivered(tables.all_batches), line).topics,
        "groups": lambda: groups(tables.of_groups(line.bin_ns), line).groups,
        "nodes": lambda: partitions(within, tables.changes).nodes,
    }
    found = dict(zip(questions, ask_all([*questions.values()]), strict=True))
    say(f"rules on {folder}")
    return replace(held, findings=judge(tables, own=own or {}), **found)


def _held(captured: Captured, folder: str) -> CaptureFacts:
    """Returns the side with the capture's size and its recording time alone."""
    of_session = captured.chosen.groupBy(c.SESSION).agg(
        F.min(ns(c.AT)).alias("first"), F.max(ns(c.AT)).alias("last"), F.count("*").alias("n"), F.sum(c.SIZE).alias("b")
    )
    rows = of_session.collect()
    return CaptureFacts(
        capture=folder,
        first_at_ns=min((row["first"] for row in rows), default=None),
        recorded_ns=together_ns((row["first"], row["last"]) for row in rows),
        frames=sum(row["n"] for row in rows),
        bytes=sum(row["b"] or 0 for row in rows),
    )


def _apis(exchanges: DataFrame) -> tuple[ApiFacts, ...]:
    return tuple(
        ApiFacts(
            row[c.API], row[t.WAIT], row[t.REQUESTS], row[t.RESPONSES], row[t.UNANSWERED],
            row[t.REQUEST_BYTES], row[t.RESPONSE_BYTES], row[t.P50_MS], row[t.P95_MS], row[t.P99_MS],
        )
        for row in latency_by_api(exchanges).filter(F.col(c.API).isNotNull()).collect()
    )  # fmt: skip


def _read(exchanges: DataFrame) -> dict[str, int]:
    rows = coverage_by_api(exchanges).filter(F.col(c.API).isNotNull()).collect()
    return {row[c.API]: row[t.READ] for row in rows}


def _errors(exchanges: DataFrame) -> tuple[ErrorFacts, ...]:
    """Returns how many answers hold each code, by API. `errors` has a code once an answer, however often it occurs."""
    found = (
        errors(exchanges).groupBy(api().alias(c.API), t.ERROR, t.FLOW).agg(F.count("*").alias(t.EXCHANGES)).collect()
    )
    return tuple(
        ErrorFacts(row[c.API] or "unknown", row[t.ERROR], row[t.EXCHANGES], bool(row[t.FLOW])) for row in found
    )


def _versions(clients: DataFrame) -> tuple[VersionFacts, ...]:
    used = clients.filter(F.col(c.API).isNotNull()).groupBy(c.API, c.API_VERSION)
    return tuple(VersionFacts(*row) for row in used.agg(F.sum(t.REQUESTS)).collect())


def _topics(tables: Tables) -> Table[TopicFacts]:
    """Returns how each topic is written, the most batches first."""
    sent = tables.all_batches.filter((F.col(SIDE) == REQUEST) & F.col("topic").isNotNull() & ~F.col("is_control"))
    is_idempotent = F.col("producer_id").isNotNull() & F.col("base_sequence").isNotNull()
    batches = sent.groupBy("topic").agg(
        F.count("*").alias("batches"),
        F.count_if(is_idempotent).alias("idempotent"),
        F.count("records").alias("counted"),
        F.coalesce(F.sum("records"), F.lit(0)).alias("records"),
    )
    rows, total = firsts(batches.orderBy(F.desc("batches"), "topic"), Table.most)
    codecs = _counted(sent, "codec")
    written = tables.partitions.filter((F.col(SIDE) == REQUEST) & (F.col(c.API) == "Produce") & (F.col("bytes") > 0))
    acks = _counted(written, "acks")
    facts = (
        TopicFacts(**row.asDict(), codecs=codecs.get(row["topic"], {}), acks=acks.get(row["topic"], {})) for row in rows
    )
    return Table(tuple(facts), total)


def _counted(rows: DataFrame, column: str) -> dict[str, dict[str, int]]:
    """Returns how many rows have each value of the column, by topic."""
    known = rows.filter(F.col("topic").isNotNull() & F.col(column).isNotNull())
    found: dict[str, dict[str, int]] = {}
    for topic, value, number in known.groupBy("topic", F.col(column).cast("string")).count().collect():
        found.setdefault(topic, {})[value] = number
    return found


def _clients(clients: DataFrame) -> ManyClients:
    called = F.concat_ws(" ", "software", "software_version")
    software = F.when(F.col("software").isNotNull(), called).alias("software")
    used = clients.groupBy(family().alias(c.CLIENT_ID), software).agg(F.sum(t.REQUESTS).alias(t.REQUESTS))
    rows, total = firsts(used.orderBy(F.desc(t.REQUESTS), c.CLIENT_ID, "software"), ManyClients.most)
    return ManyClients(tuple(ClientFacts(*row) for row in rows), total)
