"""The names of the columns that the analysis reads and makes, in one place.

Read as `from recorder.analysis import columns as c`. Those of the capture's `frames` are taken over from there; the
others exist only in the tables made of them.
"""

from __future__ import annotations

from proxy.wire.long_polls import Wait
from recorder.capture.frames import (
    API,
    API_KEY,
    API_VERSION,
    AT,
    AWAITS,
    BYTES,
    CAUSE,
    CLIENT,
    CLIENT_ID,
    CLUSTER,
    CONNECTION,
    CORRELATION_ID,
    DETAIL,
    DIALECT,
    EXCHANGE,
    FRAME,
    FRAMES,
    KIND,
    LATENCY_NS,
    LISTENER,
    MADE_BY,
    MASKED,
    NODE,
    NOTE,
    PRINCIPAL,
    QUEUED_NS,
    REQUEST_SIZE,
    SEQUENCE,
    SESSION,
    SIZE,
    STORED,
    TRANSFER_NS,
)

# What joins a request to its response.
KEYS = [SESSION, CONNECTION, EXCHANGE]

# Of `exchanges`.
OUTCOME = "outcome"
ANSWERED_AT = "answered_at"
RESPONSE_SIZE = "response_size"
ERROR_CODES = "error_codes"
# why a response's errors are unknown (`Unread`); whether a long poll's latency is a wait (`Wait`)
UNREAD = "unread"
WAIT = "wait"
# its values in `latency_by_api`: the latencies of such a row are waits; or nobody can tell which of them are
WAITING, INCLUDES_WAIT = "wait", Wait.INCLUDES_WAIT.value

# Of the tables by api.
WINDOW_START = "window_start"
REQUESTS = "requests"
RESPONSES = "responses"
UNANSWERED = "unanswered"
ERRORS = "errors"
REQUEST_BYTES = "request_bytes"
RESPONSE_BYTES = "response_bytes"
P50_MS = "p50_ms"
P95_MS = "p95_ms"
P99_MS = "p99_ms"
ERROR_CODE = "error_code"
ERROR = "error"
RETRIABLE = "retriable"
COUNT = "count"
EXCHANGES = "exchanges"
READ = "read"

# Of the tables of what is missing.
GAPS = "gaps"
CONNECTIONS = "connections"

__all__ = [
    "ANSWERED_AT",
    "API",
    "API_KEY",
    "API_VERSION",
    "AT",
    "AWAITS",
    "BYTES",
    "CAUSE",
    "CLIENT",
    "CLIENT_ID",
    "CLUSTER",
    "CONNECTION",
    "CONNECTIONS",
    "CORRELATION_ID",
    "COUNT",
    "DETAIL",
    "DIALECT",
    "ERROR",
    "ERRORS",
    "ERROR_CODE",
    "ERROR_CODES",
    "EXCHANGE",
    "EXCHANGES",
    "FRAME",
    "FRAMES",
    "GAPS",
    "INCLUDES_WAIT",
    "KEYS",
    "KIND",
    "LATENCY_NS",
    "LISTENER",
    "MADE_BY",
    "MASKED",
    "NODE",
    "NOTE",
    "OUTCOME",
    "P50_MS",
    "P95_MS",
    "P99_MS",
    "PRINCIPAL",
    "QUEUED_NS",
    "READ",
    "REQUESTS",
    "REQUEST_BYTES",
    "REQUEST_SIZE",
    "RESPONSES",
    "RESPONSE_BYTES",
    "RESPONSE_SIZE",
    "RETRIABLE",
    "SEQUENCE",
    "SESSION",
    "SIZE",
    "STORED",
    "TRANSFER_NS",
    "UNANSWERED",
    "UNREAD",
    "WAIT",
    "WAITING",
    "WINDOW_START",
]
