"""A collector, which the SDK's exporter sends OTLP over HTTP.

The exporter retries for a while (`PATIENCE_SECONDS` in all), and then gives up. It says why only to its log, whose
first line on a batch names the cause.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from proxy.terminal import harmless

# how long a batch may take, with all tries
PATIENCE_SECONDS = 10.0
TRACES_PATH = "/v1/traces"
# letters of the reason why a batch was not taken
_MAX_WHY = 300


class NotTaken(Exception):
    """A collector did not take a batch. The message says why."""


class Collector:
    """Sends spans to a collector. All calls come from one thread, but for `close`.

    Args:
        url: its address, to which the signals' paths are added. headers: of each request.
        patience: seconds that a batch may take, with all tries.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, patience: float = PATIENCE_SECONDS) -> None:
        self._said = _FirstWords()
        # the exporter says there why it failed, and nobody else is to read it
        log = logging.getLogger("opentelemetry")
        log.handlers, log.propagate = [self._said], False
        self._spans = OTLPSpanExporter(url + TRACES_PATH, headers=dict(headers), timeout=patience)

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Sends spans. Blocks until they are taken, or patience is at its end. Errors: NotTaken."""
        self._said.line = ""
        if self._spans.export(spans) is not SpanExportResult.SUCCESS:
            raise NotTaken(harmless(self._said.line[:_MAX_WHY]) or "no reason was given")

    def close(self) -> None:
        """Gives up what is being sent."""
        self._spans.shutdown()  # type: ignore[no-untyped-call]


class _FirstWords(logging.Handler):
    """Keeps the first line of a log since it was emptied."""

    line = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.line = self.line or record.getMessage()
