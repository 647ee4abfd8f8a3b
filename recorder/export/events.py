"""Findings as CloudEvents, and these events as Kafka messages in either mode of the Kafka binding.

An event's id depends only on the finding. Exporting a capture twice writes each event twice, with the same id and
source, so that a consumer can keep one. By default, the SDK takes `partitionkey` as the message's key. The binding
(3.1) requires the user's key, or none, unless the user asks for a mapper, so this module passes its own. A mapper
copies the attribute `partitionkey`; the event keeps it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from cloudevents.core.bindings import kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from proxy.terminal import printable
from recorder.analysis.decode.cloudevents import PARTITION_KEY
from recorder.analysis.summary.sections.findings import Finding
from recorder.export.message import Message, Mode

TYPE = "kafka-wiretap.finding."
# enough of a SHA-256 that no two findings ever share it
_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which findings become messages. `key`: the key of all messages; None for no key.

    `by_partition_key`: the key is the event's attribute `partitionkey`, in place of `key`.
    """

    source: str
    mode: Mode = Mode.BINARY
    key: str | None = None
    by_partition_key: bool = False

    def message(self, finding: Finding) -> Message:
        """The message of a finding."""
        write = kafka.to_binary if self.mode is Mode.BINARY else kafka.to_structured
        made = write(event(finding, self.source), JSONFormat(), self._key_mapper)
        key = made.key.encode() if isinstance(made.key, str) else made.key
        return Message(key, made.value, tuple(made.headers.items()))

    @property
    def _key_mapper(self) -> Callable[[Any], str | None]:
        return _partition_key if self.by_partition_key else lambda event: self.key


def _partition_key(event: Any) -> str | None:
    found: str | None = event.get_extension(PARTITION_KEY)
    return found


def event(finding: Finding, source: str) -> CloudEvent:
    """A finding as an event. Control characters in its subject are escaped, so that the text can be printed."""
    subject = printable(finding.subject) or finding.rule
    attributes = {
        "id": event_id(finding),
        "source": source,
        "type": f"{TYPE}{finding.rule}",
        "subject": subject,
        "datacontenttype": "application/json",
        PARTITION_KEY: subject,
        "severity": finding.severity.value,
    }
    made = CloudEvent(attributes, data(finding))
    # the SDK sets the present time, with which two exports of an event would differ
    del made.get_attributes()["time"]
    if finding.from_ns is not None:
        made.get_attributes()["time"] = _time(finding.from_ns)
    return made


def event_id(finding: Finding) -> str:
    """The id of a finding's event; every export of the same finding gives the same id."""
    named = json.dumps([finding.rule, finding.subject, finding.from_ns])
    return sha256(named.encode()).hexdigest()[:_ID_DIGITS]


def source_of(folder: str) -> str:
    """The source of a capture's events: the name of its folder, as a part of a URI."""
    name = os.path.basename(folder.rstrip("/"))
    return f"/kafka-wiretap/{quote(os.fsencode(name), safe='')}"


def data(finding: Finding) -> dict[str, Any]:
    """A finding, ready for JSON. `evidence`: ids for `kafka-wiretap inspect show`. `consequences`: further findings."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "sentence": finding.sentence,
        "advice": finding.advice,
        "from_ns": finding.from_ns,
        "to_ns": finding.to_ns,
        "measure": _finite(finding.measure),
        "threshold": _finite(finding.threshold),
        "unit": finding.unit.value,
        "share": _finite(finding.share),
        "worst_from_ns": finding.worst_from_ns,
        "worst_to_ns": finding.worst_to_ns,
        "clients": [*finding.clients],
        "nodes": [*finding.nodes],
        "evidence": [one.id for one in finding.evidence],
        "consequences": [data(one) for one in finding.consequences],
    }


def _finite(value: float | None) -> float | None:
    """The value; None for infinity and NaN, which JSON lacks."""
    return value if value is None or math.isfinite(value) else None


def _time(at_ns: int) -> datetime:
    """Nanoseconds since 1970 as a time in UTC, to the microsecond."""
    seconds, ns = divmod(at_ns, 10**9)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=ns // 1000)
