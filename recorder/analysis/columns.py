"""The columns that only the analysis tables have; `recorder.capture.frames` names those of the capture.

Import as `from recorder.analysis import columns as t`, beside `from recorder.capture import frames as c`.
"""

from __future__ import annotations

from proxy.wire.long_polls import Wait
from recorder.capture.frames import CONNECTION, EXCHANGE, SESSION

# The columns that join a request to its response.
KEYS = [SESSION, CONNECTION, EXCHANGE]

# Columns of `exchanges`.
OUTCOME = "outcome"
ANSWERED_AT = "answered_at"
RESPONSE_SIZE = "response_size"
SERVICE_NS = "service_ns"
ERROR_CODES = "error_codes"
# UNREAD: the reason why a response's errors are unknown (`Unread`). WAIT: the kind of a long poll's wait (`Wait`).
UNREAD = "unread"
WAIT = "wait"
# The throttle time of the response, for a quota.
THROTTLE_MS = "throttle_ms"
# Values of WAIT in `latency_by_api`: all latencies of the row are waits, or it is unknown which of them are.
WAITING, INCLUDES_WAIT = "wait", Wait.INCLUDES_WAIT.value

# Columns of the tables by api.
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
# whether an error is a normal step of the protocol, and no fault
FLOW = "flow"
COUNT = "count"
EXCHANGES = "exchanges"
READ = "read"
BUCKET = "bucket"

# Columns of the tables of losses.
GAPS = "gaps"
CONNECTIONS = "connections"
