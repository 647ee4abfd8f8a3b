"""Tests of exchanges of the stream as spans: each n-th one is sent, and nothing waits for the collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.live.otlp import SpanConsumer
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair
from recorder.tracing.collector import Collector
from tests.recorder.tracing.receiver import attributes, receiver
from tests.recorder.tracing.traffic import TRACEPARENT, batch, pair_of, produce, traced


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return pair_of(tmp_path, produce(batch(traced(TRACEPARENT))))


def numbered(pair: Pair, number: int) -> Pair:
    """The exchange with another number."""
    assert pair.request is not None
    return pair._replace(request={**pair.request, "exchange": number})


def test_each_third_exchange_is_sent_from_the_first_on_and_all_are_sent_at_the_end(pair: Pair) -> None:
    with receiver() as got:
        consumer = SpanConsumer(Told(), Collector(got.url, {}), 3, print)
        for number in range(10):
            consumer.take(numbered(pair, number))
        consumer.close()
        assert consumer.counts == {"sent": 4, "refused": 0, "dropped": 0}
    found = [attributes(span)["kafka_wiretap.exchange"].rpartition("/e")[2] for span in got.spans]
    assert found == ["0", "3", "6", "9"]


def test_a_collector_that_is_gone_is_said_once_and_its_spans_are_counted(pair: Pair) -> None:
    with receiver() as got:
        pass
    said = list[str]()
    consumer = SpanConsumer(Told(), Collector(got.url, {}, patience=0.2), 1, said.append)
    for number in range(10):
        consumer.take(numbered(pair, number))
    consumer.close()
    assert consumer.counts == {"sent": 0, "refused": 10, "dropped": 0}
    (line,) = said
    assert line.startswith("the collector takes no spans: ")
