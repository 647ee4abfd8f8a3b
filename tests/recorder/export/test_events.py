"""Tests of findings as events: a second export makes no duplicates, in either mode, with any source of the key."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings import kafka
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.records import Record
from recorder.analysis.decode.cloudevents import event_in
from recorder.analysis.summary.sections.findings import Evidence, Finding, Severity, Unit
from recorder.export.events import Form, event_id, source_of
from recorder.export.message import Message, Mode
from tests import hostile_text

AT_NS = 1_795_262_400_123_456_789
FINDING = Finding(
    "slow",
    Severity.CRITICAL,
    "Fetch on node 2",
    "Fetch on node 2 took 400 ms",
    "look at it",
    AT_NS,
    AT_NS + 10**9,
    400.0,
    100.0,
    Unit.MS,
    0.5,
    (Evidence("s", 4, 8),),
)
MODES = pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)


def record(message: Message) -> Record:
    return Record(0, key=message.key, value=message.value, headers=tuple(message.headers))


def of_sdk(message: Message) -> Any:
    """Reads the event with the SDK, which takes any ce_ header for binary mode."""
    key = None if message.key is None else message.key.decode()
    return kafka.from_kafka_event(kafka.KafkaMessage(dict(message.headers), key, message.value))


@MODES
def test_a_finding_is_an_event_that_the_sdk_reads(mode: Mode) -> None:
    found = of_sdk(Form("/here", mode).message(FINDING))
    assert found.get_attributes() == {
        "specversion": "1.0",
        "id": event_id(FINDING),
        "source": "/here",
        "type": "kafka-wiretap.finding.slow",
        "subject": "Fetch on node 2",
        "time": datetime.fromtimestamp(AT_NS // 10**9, UTC).replace(microsecond=123456),
        "datacontenttype": "application/json",
        "partitionkey": "Fetch on node 2",
        "severity": "critical",
    }
    assert found.get_data() == {
        "rule": "slow",
        "severity": "critical",
        "subject": "Fetch on node 2",
        "sentence": "Fetch on node 2 took 400 ms",
        "advice": "look at it",
        "from_ns": AT_NS,
        "to_ns": AT_NS + 10**9,
        "measure": 400.0,
        "threshold": 100.0,
        "unit": "ms",
        "share": 0.5,
        "worst_from_ns": None,
        "worst_to_ns": None,
        "clients": [],
        "nodes": [],
        "evidence": ["s/4/e8"],
        "consequences": [],
    }


@MODES
def test_the_event_of_a_cause_holds_its_consequences(mode: Mode) -> None:
    caused = replace(FINDING, rule="churn", advice="", clients=("worker-* at 10.0.0.1",), worst_from_ns=AT_NS)
    found = of_sdk(Form("/here", mode).message(replace(FINDING, consequences=(caused,))))
    (one,) = found.get_data()["consequences"]
    assert (one["rule"], one["sentence"]) == ("churn", "Fetch on node 2 took 400 ms")
    assert (one["clients"], one["worst_from_ns"]) == (["worker-* at 10.0.0.1"], AT_NS)


@MODES
def test_a_finding_is_an_event_that_keeps_to_the_binding(mode: Mode) -> None:
    found = event_in(record(Form("/here", mode).message(FINDING)))
    assert found
    assert (found.mode.value, found.broken) == (mode.value, {})


@MODES
def test_the_same_finding_is_the_same_message_whenever_it_is_exported(mode: Mode) -> None:
    for finding in (FINDING, replace(FINDING, from_ns=None)):
        assert Form("/here", mode).message(finding) == Form("/here", mode).message(replace(finding))


def test_ids_tell_findings_apart() -> None:
    others: list[dict[str, Any]] = [
        {"rule": "errors"},
        {"subject": "Fetch on node 3"},
        {"from_ns": 1},
        {"from_ns": None},
    ]
    assert len({event_id(replace(FINDING, **other)) for other in others} | {event_id(FINDING)}) == 5
    assert event_id(replace(FINDING, to_ns=1, measure=1.0, sentence="other words")) == event_id(FINDING)


@MODES
def test_the_events_key_is_null_or_as_given_and_the_attribute_is_set_on_request(mode: Mode) -> None:
    """The SDK by itself takes the attribute as key (against 3.1 of the binding)."""
    assert Form("/here", mode).message(FINDING).key is None
    assert Form("/here", mode, "mine").message(FINDING).key == b"mine"
    mapped = Form("/here", mode, by_partition_key=True).message(FINDING)
    assert mapped.key == b"Fetch on node 2"
    found = event_in(record(mapped))
    assert found
    assert found.attributes["partitionkey"] == "Fetch on node 2", "a mapper does not change the event"


def test_a_structured_event_is_whole_without_headers() -> None:
    message = Form("/here", Mode.STRUCTURED).message(FINDING)
    assert [name for name, _ in message.headers] == ["content-type"]
    assert event_in(Record(0, value=message.value)) == event_in(record(message))


@MODES
@given(subject=st.text() | st.just(hostile_text.TEXT), measure=st.none() | st.floats())
def test_any_finding_is_an_event_that_keeps_to_the_binding(mode: Mode, subject: str, measure: float | None) -> None:
    finding = replace(FINDING, subject=subject, measure=measure)
    message = Form("/here", mode, by_partition_key=True).message(finding)
    found = event_in(record(message))
    assert found
    assert found.broken == {}
    assert found.attributes["subject"].isprintable()
    data = message.value if mode is Mode.BINARY else json.dumps(json.loads(message.value)["data"])
    assert json.loads(data)["subject"] == subject


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("/captures/today", "/kafka-wiretap/today"),
        ("/captures/my day/", "/kafka-wiretap/my%20day"),
        ("s3a://bucket/c\udcff", "/kafka-wiretap/c%FF"),
    ],
    ids=["name", "blank", "no UTF-8"],
)
def test_the_source_is_the_captures_folder(folder: str, source: str) -> None:
    assert source_of(folder) == source
