"""A capture's report as values: all sections, each reduced by Spark, and the findings.

Tables that several sections or rules read are computed once (`cache`). A section is an entry of QUESTIONS, a rule one
of RULES. They don't depend on each other, and several run at a time (`at_once`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from recorder.analysis.bodies import Captured
from recorder.analysis.expressions import ns
from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rule import Rule
from recorder.analysis.findings.rules import RULES
from recorder.analysis.findings.tables import Tables
from recorder.analysis.parallel_questions import ask_all
from recorder.analysis.questions.bins import span
from recorder.analysis.questions.sections.clients import clients
from recorder.analysis.questions.sections.connections import connections
from recorder.analysis.questions.sections.coverage import coverage
from recorder.analysis.questions.sections.delivery import delivery
from recorder.analysis.questions.sections.errors import errors
from recorder.analysis.questions.sections.events import events
from recorder.analysis.questions.sections.groups import groups
from recorder.analysis.questions.sections.latency import latency
from recorder.analysis.questions.sections.metadata import metadata
from recorder.analysis.questions.sections.partitions import partitions
from recorder.analysis.questions.sections.topics import topics
from recorder.analysis.questions.sections.traffic import traffic
from recorder.analysis.report import missing
from recorder.analysis.report_decoders import OF_FINDINGS, OF_REPORT
from recorder.analysis.summary.bounds import Table, Timeline
from recorder.analysis.summary.sections.coverage import Coverage
from recorder.analysis.summary.sections.findings import Findings
from recorder.analysis.summary.sections.method import Method, Threshold
from recorder.analysis.summary.whole import Summary
from recorder.analysis.table_cache import Deferred, TableCache
from recorder.analysis.tables.deliveries import delivered
from recorder.capture import frames as c
from recorder.facts.rows import Decoder

_NO_FRAMES = "no frame of the capture arrived in the time that was asked for"
Say = Callable[[str], None]


class SectionInput(NamedTuple):
    """The input of a section's function."""

    captured: Captured
    tables: Tables
    line: Timeline
    folder: str


# The sections that Spark fills, by their names in `whole.SECTIONS`. Those that read bodies alternate with those that
# don't.
QUESTIONS: Mapping[str, Callable[[SectionInput], Any]] = {
    "topics": lambda of: topics(of.captured),
    "coverage": lambda of: coverage(
        of.captured, of.tables.kept, of.line, folder=of.folder, lost=missing(of.captured.frames, of.captured.events)
    ),
    "clients": lambda of: clients(of.captured, of.tables.kept),
    "latency": lambda of: latency(of.tables.kept, of.line),
    "partitions": lambda of: partitions(of.captured, of.tables.changes),
    "errors": lambda of: errors(of.tables.kept, of.tables.kept_errors, of.line),
    "traffic": lambda of: traffic(of.tables.kept, of.line),
    "connections": lambda of: connections(of.captured, of.tables.kept, of.line),
    "events": lambda of: events(of.captured),
    "delivery": lambda of: delivery(delivered(of.tables.all_batches), of.line),
    "groups": lambda of: groups(of.tables.of_groups(of.line.bin_ns), of.line),
    "metadata": lambda of: metadata(of.tables.changes, of.line),
}


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
    """Returns the report. `folder`: the capture's name in it; `own`: thresholds by rule; `say`: is told each step."""
    began = time.time_ns()
    within = _within(captured, since_ns, until_ns, OF_REPORT)
    say("looking at the time that the capture spans")
    line = span(within)
    if line is None:
        return Summary(coverage=Coverage(not_judged=_NO_FRAMES), findings=Findings(not_judged=_NO_FRAMES))
    tables = Tables(within)
    sections = _sections(SectionInput(within, tables, line, folder), say)
    say(f"{len(RULES)} rules")
    findings = judge(tables, own=own or {})
    return Summary(timeline=line, findings=findings, method=_method(tables, began, own or {}, options), **sections)


def findings(
    captured: Captured,
    *,
    since_ns: int | None = None,
    until_ns: int | None = None,
    own: Mapping[str, float] | None = None,
) -> Findings:
    """Returns the findings alone: those of a report with the same time and thresholds."""
    within = _within(captured, since_ns, until_ns, OF_FINDINGS)
    if span(within) is None:
        return Findings(not_judged=_NO_FRAMES)
    return judge(Tables(within), own=own or {})


def _sections(of: SectionInput, say: Say) -> dict[str, Any]:
    """Returns the sections by their names."""
    return dict(zip(QUESTIONS, ask_all([partial(_section, of, name, say) for name in QUESTIONS]), strict=True))


def _section(of: SectionInput, name: str, say: Say) -> Any:
    say(name)
    return QUESTIONS[name](of)


def _within(captured: Captured, since_ns: int | None, until_ns: int | None, together: tuple[Decoder, ...]) -> Captured:
    """Returns the capture with the frames and events of this time; the decoders of `together` share one pass."""
    found = replace(captured, since_ns=since_ns, until_ns=until_ns, cache=TableCache(), together=together)

    def events() -> DataFrame:
        every = captured.events
        if since_ns is not None:
            every = every.filter(ns(c.AT) >= since_ns)
        return every if until_ns is None else every.filter(ns(c.AT) < until_ns)

    return replace(found, events_read=Deferred(lambda: found.once("events", events)))


def _method(tables: Tables, began: int, own: Mapping[str, float], options: tuple[str, ...]) -> Method:
    return Method(
        program=f"kafka-wiretap {version('kafka-wiretap')}",
        made_at_ns=began,
        took_ns=time.time_ns() - began,
        window_ns=tables.windows.length_ns,
        options=options,
        thresholds=Table(tuple(threshold(rule, own) for rule in RULES)),
    )


def threshold(rule: Rule, own: Mapping[str, float]) -> Threshold:
    """Returns the rule's threshold for the report; `own`: the user's, by rule."""
    return Threshold(
        rule.name, own.get(rule.name, rule.threshold), rule.unit, is_own=rule.name in own, must_last=rule.must_last
    )
