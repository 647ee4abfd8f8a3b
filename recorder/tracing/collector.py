"""A collector, which the SDK's exporter sends OTLP over HTTP.

The exporter retries for a while (`PATIENCE_SECONDS` in all), and then gives up. It says why only to its log, whose
first line on a batch names the cause. To it, a redirect is a success, and an answer is read whole, however long it is
and takes: `_Asking` stands between.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from proxy.terminal import harmless
from recorder.http_deadlines import Line, Session, within

# how long a batch may take, with all tries
PATIENCE_SECONDS = 10.0
TRACES_PATH, METRICS_PATH = "/v1/traces", "/v1/metrics"
# bytes of an answer's body that are read
_SMALL = 4096
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
        self._metrics = OTLPMetricExporter(
            url + METRICS_PATH, headers=dict(headers), timeout=patience, session=_Asking()
        )
        self._spans = OTLPSpanExporter(url + TRACES_PATH, headers=dict(headers), timeout=patience, session=_Asking())

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


class _Redirected(requests.RequestException):
    """The collector sends elsewhere, to where no headers go, since they may hold a secret."""


class _Asking(Session):
    """Reads little more than the head of an answer: the body of one tells nothing new."""

    def request(self, *given: Any, **named: Any) -> requests.Response:
        """Makes a request, which ends within its `timeout`. Errors: RequestException, NoThread."""
        try:
            ask = partial(super().request, *given, **named)
            answer = within(named["timeout"], lambda line: _with_head(ask(), line))
        except TimeoutError as error:
            raise requests.Timeout(str(error)) from error
        except requests.RequestException as error:
            # its text is that of Python's objects, around the reason
            raise type(error)(_reason(error)) from error
        # the SDK takes every status below 400 for success
        if answer.status_code >= 300 and answer.ok:
            raise _Redirected(f"it redirects with status {answer.status_code}: right would be the address there")
        return answer


def _with_head(answer: requests.Response, line: Line) -> requests.Response:
    """The answer, once its head has come. Errors: TimeoutError."""
    with answer:
        if line.is_cut:
            # a head that was cut looks like a short one
            raise TimeoutError("its answer takes too long")
        # small bodies come with the head; a connection on which there is more is not used again
        with suppress(requests.RequestException):
            next(answer.iter_content(_SMALL), b"")
    return answer


def _reason(error: BaseException) -> str:
    """What the first of the errors says that led to this one."""
    while first := error.__cause__ or error.__context__:
        error = first
    return getattr(error, "strerror", None) or str(error)


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
