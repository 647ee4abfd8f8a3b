"""A capture's report as values: all sections, each reduced by Spark, and the findings.

The exchanges are made once and kept, in memory or on disk; bodies are read for the sections that need them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version

from recorder.analysis.bodies import Captured
from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.findings.tables import Tables
from recorder.analysis.questions.sections import cluster, peers, traffic
from recorder.analysis.questions.sections.bins import ns
from recorder.analysis.report import missing
from recorder.analysis.summary.bounds import Table, Timeline
from recorder.analysis.summary.cluster import Groups, Metadata
from recorder.analysis.summary.finding import Findings
from recorder.analysis.summary.peers import Method, Threshold
from recorder.analysis.summary.traffic import Coverage, Delivery
from recorder.analysis.summary.whole import Summary
from recorder.capture import frames as c

# Sections whose tables are to come.
_NO_TABLE = "this version does not work it out yet"
_NO_FRAMES = "no frame of the capture arrived in the time that was asked for"
Say = Callable[[str], None]


def summary(
    captured: Captured,
    folder: str,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    own: Mapping[str, float] | None = None,
    options: tuple[str, ...] = (),
    say: Say = lambda step: None,
) -> Summary:
    """The report. `folder`: as the report names the capture; `own`: thresholds by rule; `say`: told each step."""
    began = time.time_ns()
    within = _within(captured, since_ns, until_ns)
    say("looking at the time that the capture spans")
    line = traffic.span(within)
    if line is None:
        return Summary(coverage=Coverage(not_judged=_NO_FRAMES), findings=Findings(not_judged=_NO_FRAMES))
    tables = Tables(within)
    try:
        found = _sections(within, tables, folder, line, own or {}, say)
    finally:
        tables.close()
    return replace(found, method=_method(tables, began, own or {}, options))


def _sections(
    captured: Captured, tables: Tables, folder: str, line: Timeline, own: Mapping[str, float], say: Say
) -> Summary:
    kept = tables.kept
    say("pairing requests with answers")
    coverage = traffic.coverage(captured, kept, line, folder=folder, lost=missing(captured.frames, captured.events))
    say("latency, errors, traffic")
    latency, errors, shares = traffic.latency(kept, line), traffic.failures(kept, line), traffic.traffic(kept, line)
    say("clients and connections")
    clients, connections = peers.software_and_clients(captured, kept), peers.sockets(captured, kept, line)
    say("topics and partitions")
    topics, partitions = cluster.topics(captured), cluster.partitions(captured)
    say(f"{len(RULES)} rules")
    return Summary(
        timeline=line,
        coverage=coverage,
        findings=judge(tables, own=own),
        latency=latency,
        delivery=Delivery(not_judged=_NO_TABLE),
        errors=errors,
        traffic=shares,
        topics=topics,
        groups=Groups(not_judged=_NO_TABLE),
        partitions=partitions,
        clients=clients,
        metadata=Metadata(not_judged=_NO_TABLE),
        connections=connections,
        events=peers.happenings(captured),
    )


def _within(captured: Captured, since_ns: int | None, until_ns: int | None) -> Captured:
    """The frames and the events of the time that was asked for."""
    events = captured.events
    if since_ns is not None:
        events = events.filter(ns(c.AT) >= since_ns)
    if until_ns is not None:
        events = events.filter(ns(c.AT) < until_ns)
    return replace(captured, events=events, since_ns=since_ns, until_ns=until_ns)


def _method(tables: Tables, began: int, own: Mapping[str, float], options: tuple[str, ...]) -> Method:
    limits = [Threshold(rule.name, own.get(rule.name, rule.threshold), rule.unit, rule.name in own) for rule in RULES]
    return Method(
        program=f"kafka-wiretap {version('kafka-wiretap')}",
        made_at_ns=began,
        took_ns=time.time_ns() - began,
        window_ns=tables.windows.length_ns,
        options=options,
        thresholds=Table(tuple(limits)),
    )
