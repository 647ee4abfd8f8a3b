from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.semconv._incubating.attributes import (
    client_attributes,
    error_attributes,
    messaging_attributes,
    server_attributes,
)
from opentelemetry.trace import SpanKind, StatusCode

from proxy.terminal import is_visible
from proxy.wire.keys import API_VERSIONS
from proxy.wire.records import Compression
from recorder.capture import frames as c
from recorder.reading.elements import Told
from recorder.tracing.messages import MAX_RECORDS
from recorder.tracing.spans import MAX_LINKS, MAX_TEXT, NO_RESPONSE, Spans
from tests.hostile_text import TEXT
from tests.recorder.small_capture import request, response
from tests.recorder.tracing.traffic import (
    OTHER,
    PARENT,
    TRACE,
    TRACEPARENT,
    batch,
    commit,
    fetch,
    metadata,
    pair_of,
    produce,
    traced,
)

NS = 10**9
CONVENTIONS = {
    value
    for module in (messaging_attributes, error_attributes, server_attributes, client_attributes)
    for value in vars(module).values()
    if isinstance(value, str)
}


def attributes(span):
    return dict(span.attributes)


def test_a_produce_is_a_send_to_its_partition_with_its_offset_and_count(tmp_path: Path) -> None:
    rows = produce(batch([[], [], []]), base=40, listener="[::1]:19092")
    span = Spans(Told()).span(pair_of(tmp_path, rows))
    assert (span.name, span.kind, span.status.status_code) == ("send orders", SpanKind.CLIENT, StatusCode.UNSET)
    assert (span.start_time, span.end_time) == (rows[0]["at_ns"], rows[1]["at_ns"])
    found = attributes(span)
    assert {name: value for name, value in found.items() if not name.startswith("kafka_wiretap.")} == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "app",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 40,
        "messaging.batch.message_count": 3,
        "server.address": "::1",
        "server.port": 19092,
        "client.address": "127.0.0.1",
        "client.port": 50001,
    }
    assert found["kafka_wiretap.exchange"] == "20261121T120000Z-abc/1/e0"


def test_a_fetch_is_a_poll_of_the_partition_that_had_records(tmp_path: Path) -> None:
    found = attributes(Spans(Told()).span(pair_of(tmp_path, fetch(batch([[], []], base=7)))))
    assert (found["messaging.operation.name"], found["messaging.operation.type"]) == ("poll", "receive")
    assert (found["messaging.destination.partition.id"], found["messaging.kafka.offset"]) == ("0", 7)
    assert found["messaging.batch.message_count"] == 2


def test_a_commit_settles_for_its_group_and_another_api_is_named_alone(tmp_path: Path) -> None:
    span = Spans(Told()).span(pair_of(tmp_path / "commit", commit("billing", 12)))
    found = attributes(span)
    assert (span.name, found["messaging.operation.type"]) == ("commit orders", "settle")
    assert (found["messaging.consumer.group.name"], found["messaging.kafka.offset"]) == ("billing", 12)
    other = Spans(Told()).span(pair_of(tmp_path / "metadata", metadata()))
    assert other.name == "Metadata"
    assert "messaging.operation.type" not in attributes(other)


def test_several_partitions_have_no_partition_and_no_offset(tmp_path: Path) -> None:
    found = attributes(Spans(Told()).span(pair_of(tmp_path, produce(batch([[]]), batch([[], []])))))
    assert found["messaging.destination.name"] == "orders"
    assert not {"messaging.destination.partition.id", "messaging.kafka.offset"} & set(found)
    assert found["messaging.batch.message_count"] == 3


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_one_context_of_all_records_is_the_parent(tmp_path: Path, codec: Compression) -> None:
    rows = produce(batch([*traced(TRACEPARENT, TRACEPARENT), []], codec=codec))
    span = Spans(Told()).span(pair_of(tmp_path, rows))
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.context is not None
    assert span.context.trace_id == span.parent.trace_id
    assert not span.links


def test_several_contexts_are_links_and_the_trace_is_the_exchanges_own(tmp_path: Path) -> None:
    span = Spans(Told()).span(pair_of(tmp_path, fetch(batch(traced(TRACEPARENT, OTHER), base=7))))
    assert span.parent is None
    assert [f"{link.context.span_id:016x}" for link in span.links] == [PARENT, "aaaabbbbccccdddd"]


def test_contexts_that_break_the_rules_are_none(tmp_path: Path) -> None:
    broken = traced("", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", TRACEPARENT[:-1], "\xff")
    span = Spans(Told()).span(pair_of(tmp_path, produce(batch([*broken, [("traceparent", None)]]))))
    assert span.parent is None
    assert not span.links


def test_links_and_records_that_are_looked_at_are_limited(tmp_path: Path) -> None:
    many = [f"00-{number:032x}-{number:016x}-01" for number in range(1, MAX_LINKS + 50)]
    span = Spans(Told()).span(pair_of(tmp_path / "links", produce(batch(traced(*many)))))
    assert len(span.links) == MAX_LINKS
    late = [*([[]] * MAX_RECORDS), *traced(TRACEPARENT)]
    assert Spans(Told()).span(pair_of(tmp_path / "late", produce(batch(late)))).parent is None


def test_records_that_are_not_kept_carry_no_context(tmp_path: Path) -> None:
    rows = produce(batch(traced(TRACEPARENT)))
    blank = rows[0]["frame"].replace(TRACEPARENT.encode(), bytes(len(TRACEPARENT)))
    assert Spans(Told()).span(pair_of(tmp_path, [rows[0] | {"frame": blank}, rows[1]])).parent is None


def test_an_error_that_is_no_normal_step_is_the_spans_and_so_is_a_missing_answer(tmp_path: Path) -> None:
    failed = Spans(Told()).span(pair_of(tmp_path / "failed", produce(batch([[]]), error=6)))
    assert attributes(failed)["error.type"] == "NOT_LEADER_OR_FOLLOWER"
    assert failed.status.status_code is StatusCode.ERROR
    lost = Spans(Told()).span(pair_of(tmp_path / "lost", produce(batch([[]]))[:1]))
    assert attributes(lost)["error.type"] == NO_RESPONSE
    assert lost.start_time == lost.end_time


def test_an_error_that_is_a_normal_step_is_none_of_the_spans(tmp_path: Path) -> None:
    rows = [
        request(0, 1, 0, API_VERSIONS, 3),
        response(1, 1, 1, API_VERSIONS, 0, values={"error_code": 35}, api_version=3),
    ]
    pair = pair_of(tmp_path, rows)
    assert pair.reading is not None
    assert [*pair.reading.codes] == [35]
    assert "error.type" not in attributes(Spans(Told()).span(pair))


def test_an_exchange_is_the_same_span_each_time_and_another_is_another(tmp_path: Path) -> None:
    first, second = pair_of(tmp_path / "1", metadata()), pair_of(tmp_path / "2", metadata())
    other = second._replace(request={**(second.request or {}), c.EXCHANGE: 9})
    contexts = [Spans(Told()).span(pair).context for pair in (first, second, other)]
    assert contexts[0] == contexts[1] != contexts[2]


def test_hostile_and_long_text_is_visible_and_cut(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, produce(batch([[]]), topic=TEXT[:100], client_id=TEXT + "x" * 10_000))
    span = Spans(Told()).span(pair)
    texts = [span.name, *(value for value in attributes(span).values() if isinstance(value, str))]
    assert all(is_visible(text) for text in texts)
    assert max(map(len, texts)) <= MAX_TEXT


def test_attributes_are_named_as_the_conventions_name_them(tmp_path: Path) -> None:
    for number, rows in enumerate((produce(batch([[]]), error=6), fetch(batch([[]])), commit("g", 1), metadata())):
        span = Spans(Told()).span(pair_of(tmp_path / str(number), rows))
        own = {name for name in attributes(span) if not name.startswith("kafka_wiretap.")}
        assert own <= CONVENTIONS


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_frames_makes_a_span(data: st.DataObject, tmp_path: Path) -> None:
    rows = data.draw(st.sampled_from([produce(batch(traced(TRACEPARENT))), fetch(batch([[]])), commit("billing", 1)]))
    for row in rows:
        frame = bytearray(row["frame"])
        for _ in range(data.draw(st.integers(0, 3))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        row["frame"] = bytes(frame[: data.draw(st.integers(0, len(frame)))] if data.draw(st.booleans()) else frame)
    span = Spans(Told()).span(pair_of(tmp_path, rows))
    assert span.end_time is not None
    assert attributes(span)["kafka_wiretap.exchange"] == "20261121T120000Z-abc/1/e0"


HEADER = st.binary(max_size=80) | st.just(TRACEPARENT.encode())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parent=HEADER, state=st.binary(max_size=80))
def test_any_bytes_of_headers_make_a_span(parent: bytes, state: bytes, tmp_path: Path) -> None:
    headers = [[("traceparent", parent), ("tracestate", state)]]
    span = Spans(Told()).span(pair_of(tmp_path, produce(batch(headers))))
    assert (span.parent is not None) >= (parent == TRACEPARENT.encode())
