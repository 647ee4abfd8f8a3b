"""Sends spans in a thread of its own, so that whoever makes them never waits for the collector.

A queue of limited length stands between. What finds no room in it is dropped, and so is what the collector does not
take; both are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import NamedTuple, Protocol

from opentelemetry.sdk.trace import ReadableSpan

from proxy.threads import start_thread
from recorder.tracing.collector import NotTaken

# spans that wait, each of some kilobytes
MAX_WAITING = 4096
# spans of a request; how long the first of them waits for others, in seconds
BATCH, WAIT_SECONDS = 500, 1.0
# how long `close` waits for what is left
CLOSE_SECONDS = 5.0


class Takes(Protocol):
    """What spans are sent to: a `Collector`."""

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Sends spans. Errors: NotTaken."""

    def close(self) -> None:
        """Gives up what is being sent."""


class Counts(NamedTuple):
    """How many spans were sent; refused by the collector, or not answered in time; dropped as the queue was full."""

    sent: int
    refused: int
    dropped: int


class SpanSender:
    """Sends spans until it is closed. One thread calls `offer` and `close`; any thread may read the counts.

    Args:
        say: is told in a sentence when the collector stops taking spans, and when it takes them again.
        most: the length of the queue. wait: as WAIT_SECONDS.
    """

    def __init__(
        self, collector: Takes, say: Callable[[str], None], *, most: int = MAX_WAITING, wait: float = WAIT_SECONDS
    ) -> None:
        self._collector, self._say, self._wait = collector, say, wait
        self._queue: Queue[ReadableSpan | None] = Queue(most)
        self._sent = self._refused = self._dropped = 0
        self._is_failing = False
        self._thread = start_thread(self._run, "spans")

    @property
    def counts(self) -> Counts:
        """What became of the spans so far."""
        return Counts(self._sent, self._refused, self._dropped)

    def offer(self, span: ReadableSpan) -> None:
        """Queues a span, or drops it. Never blocks."""
        try:
            self._queue.put_nowait(span)
        except Full:
            self._dropped += 1

    def close(self, patience: float = CLOSE_SECONDS) -> None:
        """Sends what waits, for `patience` seconds at most; gives up the rest."""
        until = time.monotonic() + patience
        with suppress(Full):
            self._queue.put(None, timeout=patience)
        self._thread.join(max(until - time.monotonic(), 0))
        self._collector.close()

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._batch()
            if batch:
                self._send(batch)

    def _batch(self) -> tuple[list[ReadableSpan], bool]:
        """The next spans, and False if none follow them. Waits for the first."""
        batch: list[ReadableSpan] = []
        until = None
        while len(batch) < BATCH:
            try:
                span = self._queue.get(timeout=None if until is None else max(until - time.monotonic(), 0))
            except Empty:
                break
            if span is None:
                return batch, False
            batch.append(span)
            until = until or time.monotonic() + self._wait
        return batch, True

    def _send(self, batch: Sequence[ReadableSpan]) -> None:
        try:
            self._collector.send(batch)
        except NotTaken as error:
            self._refused += len(batch)
            if not self._is_failing:
                self._say(f"the collector takes no spans: {error}")
            self._is_failing = True
        else:
            self._sent += len(batch)
            if self._is_failing:
                self._say("the collector takes spans again")
            self._is_failing = False
