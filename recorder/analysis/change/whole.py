"""All changes between two captures, the verdict, and their JSON.

format, version     those of this document; readers ignore keys that they don't know
before, after       each capture: when, how long, how much, what is missing
tolerance, enough   what counts: a share, and answers by percentile
latency …           tables as (rows, total); `change` is one of `judged.Change`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from recorder.analysis.change import pairs
from recorder.analysis.change.facts import CaptureFacts
from recorder.analysis.change.judged import ENOUGH, TOLERANCE, Change
from recorder.analysis.change.rows import (
    ClientChange,
    DeliveryChange,
    ErrorChange,
    FindingChange,
    GroupChange,
    LatencyChange,
    NodeChange,
    TopicChange,
    TrafficChange,
    VersionChange,
)
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.whole import as_document

FORMAT, VERSION = "kafka-wiretap captures compared", 1
# Fields of a side that the tables of changes already hold, paired.
_PAIRED = (
    "apis", "read", "errors", "versions", "clients", "topics", "deliveries", "groups", "nodes", "findings",
)  # fmt: skip
_GOOD, _BAD = (Change.BETTER, Change.GONE), (Change.WORSE, Change.NEW)


class Verdict(StrEnum):
    """The overall outcome. Reports show the value."""

    BETTER = "better"
    WORSE = "worse"
    MIXED = "better and worse"
    NO_DIFFERENCE = "no difference"
    TOO_LITTLE = "too little to tell"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True)
class Changes:
    """Two captures compared. `before` and `after`: the sides; `latency`: that of work; `waits`: that of long polls."""

    before: CaptureFacts
    after: CaptureFacts
    tolerance: float = TOLERANCE
    findings: Table[FindingChange] = field(default_factory=Table)
    latency: Table[LatencyChange] = field(default_factory=Table)
    waits: Table[LatencyChange] = field(default_factory=Table)
    errors: Table[ErrorChange] = field(default_factory=Table)
    traffic: Table[TrafficChange] = field(default_factory=Table)
    versions: Table[VersionChange] = field(default_factory=Table)
    clients: Table[ClientChange] = field(default_factory=Table)
    topics: Table[TopicChange] = field(default_factory=Table)
    deliveries: Table[DeliveryChange] = field(default_factory=Table)
    groups: Table[GroupChange] = field(default_factory=Table)
    nodes: Table[NodeChange] = field(default_factory=Table)

    @property
    def judged(self) -> list[FindingChange | LatencyChange | ErrorChange | DeliveryChange]:
        """The rows that can be good or bad; errors of the normal flow are left out."""
        errors = (row for row in self.errors if not row.is_flow)
        return [*self.findings, *self.latency, *errors, *self.deliveries]

    @property
    def verdict(self) -> Verdict:
        """BETTER if something is better and nothing is worse; WORSE likewise; MIXED if both occur."""
        if not (self.before.frames and self.after.frames):
            return Verdict.NOT_COMPARED
        found = {row.change for row in self.judged}
        if found <= {Change.UNKNOWN}:
            return Verdict.TOO_LITTLE
        is_mixed = Change.MIXED in found
        is_better, is_worse = (is_mixed or bool(found & {*some}) for some in (_GOOD, _BAD))
        if is_better and is_worse:
            return Verdict.MIXED
        return Verdict.BETTER if is_better else Verdict.WORSE if is_worse else Verdict.NO_DIFFERENCE

    def as_json(self) -> str:
        """Returns the whole comparison as indented JSON with a line feed at its end."""
        tree = msgspec.to_builtins(self)
        for name in ("before", "after"):
            tree[name] = _side(getattr(self, name), tree[name])
        head = {"format": FORMAT, "version": VERSION, "verdict": self.verdict.value, "enough": ENOUGH}
        return as_document(head | tree)


def _side(side: CaptureFacts, tree: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in tree.items() if name not in _PAIRED}
    return kept | {"seconds": side.seconds, "exchanges": side.exchanges}


def changes(before: CaptureFacts, after: CaptureFacts, tolerance: float = TOLERANCE) -> Changes:
    """Returns the changes from one capture to another. `tolerance`: the share up to which a difference is ignored."""
    latency = pairs.latency(before, after, tolerance)
    return Changes(
        before,
        after,
        tolerance,
        findings=_table(pairs.findings(before, after, tolerance)),
        latency=_table([row for row in latency if row.wait is None]),
        waits=_table([row for row in latency if row.wait is not None]),
        errors=_table(pairs.errors(before, after, tolerance)),
        traffic=_table(pairs.traffic(before, after, tolerance)),
        versions=_table(pairs.versions(before, after, tolerance)),
        clients=_table(pairs.clients(before, after)),
        topics=_table(pairs.topics(before, after, tolerance)),
        deliveries=_table(pairs.deliveries(before, after, tolerance)),
        groups=_table(pairs.groups(before, after, tolerance)),
        nodes=_table(pairs.nodes(before, after, tolerance)),
    )


def _table(rows: list[Any]) -> Table[Any]:
    return Table(tuple(rows))
