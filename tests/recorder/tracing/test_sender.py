"""Tests of the queue before a collector: nobody waits for the collector, and each span is counted once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from recorder.reading.elements import Told
from recorder.tracing.collector import Collector, NotTaken
from recorder.tracing.sender import BATCH, Counts, SpanSender
from recorder.tracing.spans import Spans
from tests.brokers.waiting import wait_for
from tests.recorder.tracing.receiver import receiver
from tests.recorder.tracing.traffic import metadata, pair_of


class Gate:
    """A collector that waits in `send` until it is let go, and then takes spans or refuses them."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Semaphore(0), threading.Semaphore(0)
        self.refuses = False
        self.batches: list[int] = []
        self.is_closed = False

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        self.entered.release()
        self.leave.acquire()
        self.batches.append(len(spans))
        if self.refuses:
            raise NotTaken("it is full")

    def close(self) -> None:
        self.is_closed = True
        self.leave.release()


def has_counted(sender: SpanSender, number: int) -> bool:
    return sum(sender.counts) == number


@pytest.fixture
def span(tmp_path: Path) -> ReadableSpan:
    return Spans(Told()).span(pair_of(tmp_path, metadata()))


def test_spans_are_dropped_and_counted_while_the_collector_hangs_and_nobody_waits(span: Any) -> None:
    gate = Gate()
    sender = SpanSender(gate, print, most=3, wait=0)
    sender.offer(span)
    gate.entered.acquire()
    for _ in range(10):
        sender.offer(span)
    assert sender.counts == Counts(0, 0, 7)
    gate.leave.release(9)
    sender.close()
    assert sender.counts == Counts(4, 0, 7)
    assert gate.is_closed


def test_what_is_refused_is_counted_and_said_once_until_spans_are_taken_again(span: Any) -> None:
    gate, said = Gate(), list[str]()
    sender = SpanSender(gate, said.append, wait=0)
    for number, refuses in enumerate((True, True, False, True), 1):
        gate.refuses = refuses
        sender.offer(span)
        gate.entered.acquire()
        gate.leave.release()
        wait_for(partial(has_counted, sender, number), "the answer")
    sender.close()
    assert sender.counts == Counts(1, 3, 0)
    assert said == [
        "the collector takes no spans: it is full",
        "the collector takes spans again",
        "the collector takes no spans: it is full",
    ]


def test_what_waits_is_sent_in_batches_at_the_end(span: Any) -> None:
    gate = Gate()
    sender = SpanSender(gate, print, wait=60)
    for _ in range(BATCH + 2):
        sender.offer(span)
    gate.leave.release(2)
    sender.close()
    assert gate.batches == [BATCH, 2]


def test_a_collector_that_hangs_keeps_no_process_from_its_end(span: Any) -> None:
    with receiver() as got:
        got.hang.clear()
        sender = SpanSender(Collector(got.url, {}), print, wait=0)
        sender.offer(span)
        got.wait_for(1)
        sender.close(patience=0.1)
        assert sender.counts == Counts(0, 0, 0)
