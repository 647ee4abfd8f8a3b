"""A capture's whole report, to JSON and back.

format, version   those of this document; readers ignore keys that they don't know
timeline          first_at_ns, bin_ns, bins: every series has one value per bin
coverage …        one object per section, with the fields of the section's class
                  (rows, total): a table with its first rows, and how many there are in all
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from recorder.analysis.summary.bounds import Timeline
from recorder.analysis.summary.sections.clients import Clients
from recorder.analysis.summary.sections.connections import Connections
from recorder.analysis.summary.sections.coverage import Coverage
from recorder.analysis.summary.sections.delivery import Delivery
from recorder.analysis.summary.sections.errors import Errors
from recorder.analysis.summary.sections.events import Events
from recorder.analysis.summary.sections.findings import Findings
from recorder.analysis.summary.sections.groups import Groups
from recorder.analysis.summary.sections.latency import Latency
from recorder.analysis.summary.sections.metadata import Metadata
from recorder.analysis.summary.sections.method import Method
from recorder.analysis.summary.sections.partitions import Partitions
from recorder.analysis.summary.sections.topics import Topics
from recorder.analysis.summary.sections.traffic import Traffic

FORMAT, VERSION = "kafka-wiretap capture report", 1


class NoSummary(ValueError):
    """The JSON is no report of a capture. The text says why."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A capture's report: the timeline and all sections."""

    timeline: Timeline = field(default_factory=Timeline)
    coverage: Coverage = field(default_factory=Coverage)
    findings: Findings = field(default_factory=Findings)
    latency: Latency = field(default_factory=Latency)
    delivery: Delivery = field(default_factory=Delivery)
    errors: Errors = field(default_factory=Errors)
    traffic: Traffic = field(default_factory=Traffic)
    topics: Topics = field(default_factory=Topics)
    groups: Groups = field(default_factory=Groups)
    partitions: Partitions = field(default_factory=Partitions)
    clients: Clients = field(default_factory=Clients)
    metadata: Metadata = field(default_factory=Metadata)
    connections: Connections = field(default_factory=Connections)
    events: Events = field(default_factory=Events)
    method: Method = field(default_factory=Method)

    def as_json(self) -> str:
        """Returns the report as indented JSON, ending with a line feed; ASCII, as a folder's name need not be UTF-8."""
        return as_document({"format": FORMAT, "version": VERSION, **msgspec.to_builtins(self)})


# The sections' names, in the report's order but for the findings, which stand first there. A section's name is that of
# its file in `sections/` here, in `questions/sections` and in `report/sections`, and its anchor in the page.
SECTIONS = tuple(one.name for one in fields(Summary) if one.name != "timeline")


def of_json(data: bytes | str) -> Summary:
    """Returns the report that `as_json` wrote. Errors: NoSummary."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NoSummary(f"no JSON: {error}") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise NoSummary("no report of `kafka-wiretap report`")
    if tree.get("version") != VERSION:
        raise NoSummary(f"version {str(tree.get('version'))[:20]} of the report; known is {VERSION}")
    try:
        return msgspec.convert(tree, Summary)
    except (ValueError, RecursionError) as error:
        raise NoSummary(f"no whole report of `kafka-wiretap report`: {error}") from None


def as_document(tree: dict[str, Any]) -> str:
    """Returns a report's JSON, in the form of `Summary.as_json`."""
    return json.dumps(_finite(tree), indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """Returns `value` with None for infinite numbers and NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
