"""Sends each n-th exchange of the stream to a collector, as a span (`recorder.tracing`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from recorder.live.consumer import Missed
from recorder.live.pushing import MetricsPusher
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair
from recorder.tracing.collector import Collector
from recorder.tracing.sender import SpanSender
from recorder.tracing.spans import Spans


class SpanConsumer:
    """A consumer of the stream.

    Args:
        told: what other frames tell. every: 1 sends each exchange.
        collector, say: as of `SpanSender`.
        pusher: what sends metrics to the same collector; ends with this.
    """

    is_asked = True

    def __init__(
        self,
        told: Told,
        collector: Collector,
        every: int,
        say: Callable[[str], None],
        pusher: MetricsPusher | None = None,
    ) -> None:
        self._pusher = pusher
        self._spans, self._every, self._taken = Spans(told), every, 0
        self._sender = SpanSender(collector, say)

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of the spans so far, by outcome."""
        return self._sender.counts._asdict()

    def take(self, pair: Pair) -> None:
        """Sends an exchange if it is an n-th one."""
        if self._taken % self._every == 0:
            self._sender.offer(self._spans.span(pair))
        self._taken += 1

    def missed(self, missed: Missed) -> None:
        """Nothing: what the stream misses is counted for all consumers."""

    def close(self) -> None:
        """Sends what waits, and no more."""
        if self._pusher is not None:
            self._pusher.close()
        self._sender.close()
