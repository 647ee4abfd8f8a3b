"""Sends each n-th exchange of the stream to a collector, as a span, and the proxy's metrics once a minute.

Both go by `recorder.tracing`, each in a thread of its own. The metrics are what the admin page shows: a thread asks it
as Prometheus would, so the proxy does nothing else for them.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException

from prometheus_client.metrics_core import Metric as Family

from proxy.threads import start_thread
from recorder.live.consumer import Missed, Part
from recorder.live.metrics import of_pushes, of_spans
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair
from recorder.tracing.collector import Collector, NotTaken
from recorder.tracing.numbers import metrics_data
from recorder.tracing.sender import SpanSender
from recorder.tracing.spans import Spans

EVERY_SECONDS = 60.0
# how long the page may take for each step of its answer, in seconds
_PATIENCE_SECONDS = 10.0


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

    def is_behind(self, seconds: float) -> None:
        """Nothing: nobody looks at this consumer."""

    def close(self) -> None:
        """Sends what waits, and no more."""
        if self._pusher is not None:
            self._pusher.close()
        self._sender.close()


class MetricsPusher:
    """Sends metrics until it is closed.

    Args:
        page: the URL of the page. every: seconds from one time to the next.
    """

    def __init__(self, collector: Collector, page: str, every: float = EVERY_SECONDS) -> None:
        self._collector, self._page, self._every = collector, page, every
        self._counts = dict.fromkeys(("sent", "refused", "unread"), 0)
        self._is_over = threading.Event()
        start_thread(self._run, "metrics pusher")

    @property
    def counts(self) -> Mapping[str, int]:
        """How often metrics were sent; refused by the collector; or could not be read, by outcome."""
        return dict(self._counts)

    def close(self) -> None:
        """Sends no more."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(self._every):
            self._counts[self._push()] += 1

    def _push(self) -> str:
        try:
            with _DIRECTLY.open(self._page, timeout=_PATIENCE_SECONDS) as answer:
                data = metrics_data(answer.read().decode(), time.time_ns())
        except (OSError, ValueError, HTTPException):
            return "unread"
        try:
            self._collector.send_metrics(data)
        except NotTaken:
            return "refused"
        return "sent"


# the page is of this machine: no proxy of the environment stands before it
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def otlp_part(
    told: Told, url: str, headers: Mapping[str, str], every: int, page: str | None, say: Callable[[str], None]
) -> Part:
    """What sends to the collector.

    Args:
        told, every, say: as of `SpanConsumer`. url, headers: as of `Collector`.
        page: the URL of the proxy's metrics; None: they are not sent.
    """
    collector = Collector(url, headers)
    pusher = None if page is None else MetricsPusher(collector, page)
    consumer = SpanConsumer(told, collector, every, say, pusher)

    def families() -> Iterator[Family]:
        yield of_spans(consumer.counts)
        if pusher is not None:
            yield of_pushes(pusher.counts)

    return Part([consumer], families=families)
