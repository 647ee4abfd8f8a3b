"""Every section of a capture's report below the findings, in its order."""

from __future__ import annotations

from recorder.analysis.summary.whole import Summary
from recorder.report.section import SectionText
from recorder.report.sections.clients import clients
from recorder.report.sections.connections import connections
from recorder.report.sections.coverage import coverage
from recorder.report.sections.delivery import delivery
from recorder.report.sections.errors import errors
from recorder.report.sections.events import events
from recorder.report.sections.groups import groups
from recorder.report.sections.latency import latency
from recorder.report.sections.metadata import metadata
from recorder.report.sections.method import method
from recorder.report.sections.partitions import partitions
from recorder.report.sections.topics import topics
from recorder.report.sections.traffic import traffic

_SECTIONS = (
    coverage,
    latency,
    delivery,
    errors,
    traffic,
    topics,
    groups,
    partitions,
    clients,
    metadata,
    connections,
    events,
    method,
)


def sections(summary: Summary) -> list[SectionText]:
    """The sections below the findings."""
    return [section(summary) for section in _SECTIONS]
