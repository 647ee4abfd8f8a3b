"""A collector: its address, the headers that it wants, and the SDK's exporter, which sends it OTLP over HTTP.

The exporter retries for a while (`PATIENCE_SECONDS` in all), and then gives up. It says why only to its log, whose
first line on a batch names the cause.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from proxy.limited_files import UnusableFile, text_of
from proxy.terminal import harmless

# how long a batch may take, with all tries
PATIENCE_SECONDS = 10.0
TRACES_PATH = "/v1/traces"
# letters of the reason why a batch was not taken
_MAX_WHY = 300
# names of headers (RFC 9110), and values that a header may have
_NAME, _VALUE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(r"[\x20-\x7e\t]*")


class WrongHeaders(ValueError):
    """A file of headers can't be used. The message says why, and follows the file's name."""


class NotTaken(Exception):
    """A collector did not take a batch. The message says why."""


def headers_in(path: Path) -> Mapping[str, str]:
    """The headers in a file, `NAME: VALUE` a line. Errors: WrongHeaders; it does not repeat values."""
    try:
        lines = [line.strip() for line in text_of(path).splitlines()]
    except UnusableFile as error:
        raise WrongHeaders(str(error)) from None
    found = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not line or line.startswith("#"):
            continue
        if not colon or not _NAME.fullmatch(name.strip()) or not _VALUE.fullmatch(value.strip()):
            raise WrongHeaders(f"has no header in line {number}; right would be Authorization: Bearer ...")
        found[name.strip()] = value.strip()
    return found


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
