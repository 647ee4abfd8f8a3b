"""A collector, which the SDK's exporter sends OTLP over HTTP.

The exporter retries for a while (`PATIENCE_SECONDS` in all), and then gives up. It says why only to its log, whose
first line on a batch names the cause.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import get_ident

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from proxy.terminal import harmless

# how long a batch may take, with all tries
PATIENCE_SECONDS = 10.0
TRACES_PATH, METRICS_PATH = "/v1/traces", "/v1/metrics"
# letters of the reason why a batch was not taken
_MAX_WHY = 300


class NotTaken(Exception):
    """A collector did not take a batch. The message says why."""


class Collector:
    """Sends spans and metrics to a collector. Spans come from one thread, metrics from one; `close` from any.

    Args:
        url: its address, to which the signals' paths are added. headers: of each request.
        patience: seconds that a batch may take, with all tries.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, patience: float = PATIENCE_SECONDS) -> None:
        # exporters say there why they failed, and nobody else is to read it
        log = logging.getLogger("opentelemetry")
        log.handlers, log.propagate = [_SAID], False
        self._metrics = OTLPMetricExporter(url + METRICS_PATH, headers=dict(headers), timeout=patience)
        self._spans = OTLPSpanExporter(url + TRACES_PATH, headers=dict(headers), timeout=patience)

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Sends spans. Blocks until they are taken, or patience is at its end. Errors: NotTaken."""
        _SAID.forget()
        if self._spans.export(spans) is not SpanExportResult.SUCCESS:
            raise _SAID.failure()

    def send_metrics(self, metrics: MetricsData) -> None:
        """Sends metrics, as `send` does spans. Errors: NotTaken."""
        _SAID.forget()
        if self._metrics.export(metrics) is not MetricExportResult.SUCCESS:
            raise _SAID.failure()

    def close(self) -> None:
        """Gives up what is being sent."""
        self._spans.shutdown()  # type: ignore[no-untyped-call]
        self._metrics.shutdown()


class _FirstWords(logging.Handler):
    """Keeps the first line that each thread has logged since it forgot its last one."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[int | None, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.setdefault(record.thread, record.getMessage())

    def forget(self) -> None:
        """Forgets the calling thread's line."""
        self._lines.pop(get_ident(), None)

    def failure(self) -> NotTaken:
        """The error that the calling thread's line makes."""
        line = self._lines.get(get_ident(), "no reason was given")
        return NotTaken(harmless(line[:_MAX_WHY]))


_SAID = _FirstWords()
