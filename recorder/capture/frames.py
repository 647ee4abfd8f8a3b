"""The columns of a capture: names, types, the format's number, and the step up from each older number.

The one place that names them: the compactor writes by this table, the reader and Spark read by it. Importing it
needs no pyarrow, so that the names serve where only Spark is installed. A change of meaning takes a new FORMAT and one
upgrade step; a capture is never rewritten. The meaning of each column stands in docs/capture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

# 2: frames of the APIs that carry records have row groups of their own
FORMAT = 2
# the formats that have the columns below
OF_THESE_COLUMNS = (1, 2)
# the key of a Parquet file's metadata that holds its format number
FORMAT_KEY = b"kafka_wiretap.format"

FRAMES_FOLDER = "frames"
EVENTS_FOLDER = "events"
# only in captures of a replay
ORIGINS_FOLDER = "origins"

SESSION = "session"
CLUSTER = "cluster"
CONNECTION = "connection"
SEQUENCE = "sequence"
EXCHANGE = "exchange"
DIALECT = "dialect"
KIND = "kind"
MADE_BY = "made_by"
AT = "at"
AT_NS = "at_ns"
MONO_NS = "mono_ns"
FIRST_MONO_NS = "first_mono_ns"
NODE = "node"
LISTENER = "listener"
CLIENT = "client"
PRINCIPAL = "principal"
API_KEY = "api_key"
API = "api"
API_VERSION = "api_version"
AWAITS = "awaits"
CORRELATION_ID = "correlation_id"
CLIENT_ID = "client_id"
SIZE = "size"
STORED = "stored"
FRAME = "frame"
MASKED = "masked"
OMITTED = "omitted"
REQUEST_SIZE = "request_size"
LATENCY_NS = "latency_ns"
QUEUED_NS = "queued_ns"
TRANSFER_NS = "transfer_ns"
NOTE = "note"

CAUSE = "cause"
FRAMES = "frames"
BYTES = "bytes"
DETAIL = "detail"

ORIGIN_SESSION = "origin_session"
ORIGIN_CONNECTION = "origin_connection"
ORIGIN_EXCHANGE = "origin_exchange"

# causes of gaps: the spool's queue was full, the recorder failed, what had been recorded can't be read any more
GAP_FULL = "queue_full"
GAP_FAULT = "recorder_fault"
GAP_DAMAGE = "spool_damaged"

# no count of frames or bytes is larger, in a log's facts and in an event's detail: sums of them are still an int64
MAX_COUNTED = 1 << 56

# the partition columns, which are folders and not in the files
DATE = "date"
HOUR = "hour"
HOUR_NS = 3600 * 10**9

# values of `kind` in frames
REQUEST = "request"
RESPONSE = "response"
TOKEN = "token"
UNFRAMED = "bytes"

# values of `made_by`
BY_CLIENT = "client"
BY_BROKER = "broker"
BY_PROXY = "proxy"

# how a `note` begins that says of a frame that it never came whole
CUT = "cut: "

# values of `dialect`
KAFKA = "kafka"
KAFKA_07 = "kafka-0.7"

# values of `kind` in events
EVENT_SESSION = "session"
EVENT_OPENED = "opened"
EVENT_LOGIN = "login"
EVENT_HALF_CLOSED = "half_closed"
EVENT_CLOSED = "closed"
EVENT_GAP = "gap"
EVENT_CLOCK = "clock"
EVENT_NODE = "node"

# column, type; `spans` are (start, length) pairs in offsets of the frame as it arrived
FRAME_COLUMNS: tuple[tuple[str, str], ...] = (
    (SESSION, "string"),
    (CLUSTER, "string"),
    (CONNECTION, "int64"),
    (SEQUENCE, "int64"),
    (EXCHANGE, "int64"),
    (DIALECT, "string"),
    (KIND, "string"),
    (MADE_BY, "string"),
    (AT, "timestamp"),
    (AT_NS, "int64"),
    (MONO_NS, "int64"),
    (FIRST_MONO_NS, "int64"),
    (NODE, "int32"),
    (LISTENER, "string"),
    (CLIENT, "string"),
    (PRINCIPAL, "string"),
    (API_KEY, "int16"),
    (API, "string"),
    (API_VERSION, "int16"),
    (AWAITS, "bool"),
    (CORRELATION_ID, "int32"),
    (CLIENT_ID, "string"),
    (SIZE, "int32"),
    (STORED, "int32"),
    (FRAME, "binary"),
    (MASKED, "spans"),
    (OMITTED, "spans"),
    (REQUEST_SIZE, "int32"),
    (LATENCY_NS, "int64"),
    (QUEUED_NS, "int64"),
    (TRANSFER_NS, "int64"),
    (NOTE, "string"),
)

EVENT_COLUMNS: tuple[tuple[str, str], ...] = (
    (SESSION, "string"),
    (CLUSTER, "string"),
    (CONNECTION, "int64"),
    (AT, "timestamp"),
    (AT_NS, "int64"),
    (MONO_NS, "int64"),
    (KIND, "string"),
    (CAUSE, "string"),
    (FRAMES, "int64"),
    (BYTES, "int64"),
    (DETAIL, "string"),
)

# an exchange of a replay, and the recorded one that it replays
ORIGIN_COLUMNS: tuple[tuple[str, str], ...] = (
    (SESSION, "string"),
    (CONNECTION, "int64"),
    (EXCHANGE, "int64"),
    (ORIGIN_SESSION, "string"),
    (ORIGIN_CONNECTION, "int64"),
    (ORIGIN_EXCHANGE, "int64"),
)

# an older format's number -> what makes a table of the next number of it
Upgrade = Callable[[Any], Any]
UPGRADES: Mapping[int, Upgrade] = {1: lambda table: table}


class Origin(NamedTuple):
    """An exchange of a capture: as in its columns."""

    session: str
    connection: int
    exchange: int


class UnknownFormatError(ValueError):
    """A file whose format number this program doesn't know: it was written by a newer one, or is no capture."""


class DamagedFileError(ValueError):
    """A file of a capture that can't be read. Says which and why, in one line."""


def frames_schema() -> Any:
    """The pyarrow schema of `frames`."""
    return _schema(FRAME_COLUMNS)


def events_schema() -> Any:
    """The pyarrow schema of `events`."""
    return _schema(EVENT_COLUMNS)


def origins_schema() -> Any:
    """The pyarrow schema of `origins`."""
    return _schema(ORIGIN_COLUMNS)


def schema_of(kind: str) -> Any:
    """The pyarrow schema of a table, by its folder's name; of any other folder: that of `frames`."""
    return {EVENTS_FOLDER: events_schema, ORIGINS_FOLDER: origins_schema}.get(kind, frames_schema)()


def format_of(metadata: Mapping[bytes, bytes] | None) -> int:
    """The format number in a Parquet schema's metadata. Raises UnknownFormatError where there is none."""
    found = (metadata or {}).get(FORMAT_KEY, b"")
    if not found.isdigit():
        raise UnknownFormatError("this Parquet file has no format number: it is no part of a capture")
    return int(found)


def newer(number: int, newest: int = FORMAT) -> str:
    """What is said of a file whose format number is above `newest`."""
    return f"capture format {number}, this program knows up to {newest}: use a newer kafka-wiretap"


def upgraded(table: Any, number: int, steps: Mapping[int, Upgrade] = UPGRADES, newest: int = FORMAT) -> Any:
    """The table as the newest format has it. Raises UnknownFormatError for a number above `newest`."""
    if number > newest:
        raise UnknownFormatError(newer(number, newest))
    for step in range(number, newest):
        table = steps[step](table)
    return table


@cache
def _schema(columns: tuple[tuple[str, str], ...]) -> Any:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int64": pa.int64(),
        "int32": pa.int32(),
        "int16": pa.int16(),
        "bool": pa.bool_(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "spans": pa.list_(pa.struct([pa.field("start", pa.int32()), pa.field("length", pa.int32())])),
    }
    fields = [pa.field(name, types[kind]) for name, kind in columns]
    return pa.schema(fields, metadata={FORMAT_KEY: str(FORMAT).encode()})
