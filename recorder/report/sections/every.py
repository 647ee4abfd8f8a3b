"""Every section of a report, in its order."""

from __future__ import annotations

from recorder.analysis.summary.whole import Summary
from recorder.report.sections import cluster, peers, traffic
from recorder.report.sections.section import SectionText

_SECTIONS = (
    traffic.coverage,
    traffic.latency,
    traffic.delivery,
    traffic.errors,
    traffic.traffic,
    cluster.topics,
    cluster.groups,
    cluster.partitions,
    peers.clients,
    cluster.metadata,
    peers.connections,
    peers.events,
    peers.method,
)


def sections(summary: Summary) -> list[SectionText]:
    """The sections below the findings."""
    return [section(summary) for section in _SECTIONS]
