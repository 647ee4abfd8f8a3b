"""Logs are events with keys: `log(INFO, "connection closed", connection=7, cause="bad_length")`.

Only the proxy's own faults are logged with a stack trace, never the faults of peers.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from proxy.terminal import harmless, harmless_json, harmless_lines

logger = logging.getLogger("kafka-wiretap")


def log(level: int, event: str, *, trace: bool = False, **keys: object) -> None:
    """Logs one event. `trace`: with the stack trace of the current exception.

    A key whose value is None is left out: there is nothing to say. In text, values are printed as people write them
    (`said`), and quoted as in JSON unless they are one plain word.
    """
    if logger.isEnabledFor(level):
        known = {name: value for name, value in keys.items() if value is not None}
        logger.log(level, event, extra={"keys": known}, exc_info=trace)


def said(value: object) -> str:
    """A value in words: nothing of it is Python's notation."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return said(value.value)
    if isinstance(value, Mapping):
        return ", ".join(f"{said(name)} {said(each)}" for name, each in value.items())
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_fields"):
        return ", ".join(map(said, value))
    return str(value)


class _Events(logging.Formatter):
    """A formatter of events. `always`: keys of every event."""

    def __init__(self, always: Mapping[str, object] = MappingProxyType({})) -> None:
        super().__init__()
        self._always = always

    def _keys(self, record: logging.LogRecord) -> dict[str, object]:
        return {**self._always, **getattr(record, "keys", {})}


class KeyFormatter(_Events):
    """`2026-11-21T12:00:00.123Z warning upstream is down  node=2 upstream=b2:9092`"""

    def format(self, record: logging.LogRecord) -> str:
        keys = "".join(f" {name}={_quoted(value)}" for name, value in self._keys(record).items())
        line = f"{_at(record)} {record.levelname.lower()} {harmless(record.getMessage())}"
        return line + (" " + keys if keys else "") + self._trace(record)

    def _trace(self, record: logging.LogRecord) -> str:
        if not record.exc_info or not record.exc_info[0]:
            return ""
        # an error's text stays one line, even if it quotes several
        message = str(record.exc_info[1])
        return "\n" + harmless_lines(self.formatException(record.exc_info).replace(message, harmless(message)))


class JsonFormatter(_Events):
    """`{"at": "2026-11-21T12:00:00.123Z", "level": "warning", "event": "upstream is down", "node": 2}`"""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {"at": _at(record), "level": record.levelname.lower(), "event": record.getMessage()}
        event |= {name: _plain(value) for name, value in self._keys(record).items() if name not in event}
        if record.exc_info and record.exc_info[0]:
            event["trace"] = self.formatException(record.exc_info)
        return json.dumps(event)


FORMATTERS: dict[str, type[_Events]] = {"text": KeyFormatter, "json": JsonFormatter}


def log_to_stderr(level: str, log_format: str = "text", **always: object) -> None:
    """Sends the program's events to standard error.

    Args:
        level: the lowest level that is logged: "debug", "info", ...
        log_format: "text" or "json".
        always: keys of every event.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[log_format](always))
    root = logging.getLogger()
    root.handlers = [handler]
    # other libraries log warnings only
    root.setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    logger.setLevel(level.upper())


def _at(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _plain(value: object) -> object:
    return value if type(value) in (bool, int, float) else said(value)


def _quoted(value: object) -> str:
    """Quotes a value unless it is one plain word, so that an event stays one line, even with a peer's text."""
    text = said(value)
    is_plain = text and text == harmless(text) and not any(character in text for character in ' "=')
    return text if is_plain else harmless_json(json.dumps(text, ensure_ascii=False))
