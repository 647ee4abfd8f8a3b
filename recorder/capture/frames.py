"""The schemas of a capture's tables: columns, types, the format's number, and the upgrades of older formats.

The compactor writes, and the reader and Spark read, by these schemas. Importing the module needs no pyarrow, because
Spark jobs need the names where pyarrow is missing. A change of a column's meaning takes a new FORMAT and an upgrade
step; a capture is never rewritten. docs/capture.md explains each column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from recorder.hashing.batches import TOLD_TYPES

# 2: frames of the APIs that carry records have row groups of their own
# 3: rules for records: the columns DROPPED and RECORDS; FRAME lacks the bytes of the former
FORMAT = 3
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
DROPPED = "dropped"
RECORDS = "records"
BATCHES = "batches"
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

# causes of gaps: the tap's queue was full, the recorder failed, a part of the log is missing or unreadable, the volume
# was too full, the key of an encrypted log is gone; of a packet dump: bytes that it lacks, the beginning of an older
# connection
GAP_FULL = "queue_full"
GAP_FAULT = "recorder_fault"
GAP_DAMAGE = "spool_damaged"
GAP_KEEP = "keep"
GAP_NOT_CAPTURED = "not_captured"
GAP_BEFORE_DUMP = "before_dump"
GAP_KEY = "key_lost"
# the causes of gaps of which the log had the frames
LOST_FROM_LOG = (GAP_DAMAGE, GAP_KEY)

# the largest count of frames or bytes in a log entry and in an event's detail: sums of them are still an int64
MAX_COUNTED = 1 << 56

# the partition columns, which are in the names of folders and not in the files
DATE = "date"
HOUR = "hour"
HOUR_NS = 3600 * 10**9

# values of `kind` in frames
REQUEST = "request"
RESPONSE = "response"
TOKEN = "token"
UNFRAMED = "bytes"

# values of `records`: the rule by which something of the records is not kept as it was; null: all is
DROP = "drop"
HASH = "hash"

# values of `made_by`
BY_CLIENT = "client"
BY_BROKER = "broker"
BY_PROXY = "proxy"

# the beginning of the `note` of a frame that never came whole
CUT = "cut: "
# the beginning of the `note` of a frame whose batches are only counted from some number on
COUNTED = "only counted beyond 65536 batches: "

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
EVENT_CLUSTER = "cluster"
EVENT_REMOVED = "removed"
EVENT_SETTINGS = "settings"

# causes of EVENT_SETTINGS; null: the event repeats what is in force
SETTINGS_STARTED = "started"
SETTINGS_CHANGED = "changed"
# keys of its detail: settings and versions, each name -> text, and the keys that have changed
SETTINGS = "settings"
VERSIONS = "versions"
CHANGED = "changed"

# the key of the detail of a session's beginning that holds the fingerprint of the key of hashes
HASH_KEY = "hash_key"

# keys of the detail of EVENT_CLUSTER, each with a list: the cluster's id (ids, if another cluster took its place), and
# the addresses of its brokers and of the recording's listeners, as named and as resolved
CLUSTER_IDS = "ids"
UPSTREAMS = "upstreams"
LISTENERS = "listeners"
# further keys, of what brokers told clients: their nodes with racks, and the features that the cluster has finalized
NODES = "nodes"
FEATURES = "features"

# (column, type). A value of `spans` is a list of (start, length), in offsets of the frame as it arrived; where records
# are hashed, of the frame as it is kept. A value of `batches` is a list of what each batch was before (`hashing.Told`)
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
    (DROPPED, "spans"),
    (RECORDS, "string"),
    (BATCHES, "batches"),
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

# an exchange of a replay, and the recorded exchange that it replays
ORIGIN_COLUMNS: tuple[tuple[str, str], ...] = (
    (SESSION, "string"),
    (CONNECTION, "int64"),
    (EXCHANGE, "int64"),
    (ORIGIN_SESSION, "string"),
    (ORIGIN_CONNECTION, "int64"),
    (ORIGIN_EXCHANGE, "int64"),
)

# an older format's number -> the function that makes the next format's table of its table
Upgrade = Callable[[Any], Any]
UPGRADES: Mapping[int, Upgrade] = {1: lambda table: table, 2: lambda table: _with_nothing_dropped(table)}
# columns of frames that older formats lack -> the first format that has them
COLUMNS_SINCE: Mapping[str, int] = {DROPPED: 3, RECORDS: 3, BATCHES: 3}


class Origin(NamedTuple):
    """The recorded exchange that an exchange of a replay replays. The fields are columns of the recorded frames."""

    session: str
    connection: int
    exchange: int


class UnknownFormatError(ValueError):
    """A file that is no part of a capture, or that a program with a newer format has written."""


# what is said of a file that was listed and has gone
REMOVED_MEANWHILE = "it was removed meanwhile, and asked again the command reads what is left"


class DamagedFileError(ValueError):
    """A file of a capture that can't be read. The message says why, in one line; a reader adds the file's path."""


def frames_schema() -> Any:
    """The pyarrow schema of `frames`."""
    return _schema(FRAME_COLUMNS)


def events_schema() -> Any:
    """The pyarrow schema of `events`."""
    return _schema(EVENT_COLUMNS)


def origins_schema() -> Any:
    """The pyarrow schema of `origins`."""
    return _schema(ORIGIN_COLUMNS)


def schema_of(table_name: str) -> Any:
    """The pyarrow schema of the table with this name; for any other name, that of `frames`."""
    return {EVENTS_FOLDER: events_schema, ORIGINS_FOLDER: origins_schema}.get(table_name, frames_schema)()


def format_of(metadata: Mapping[bytes, bytes] | None) -> int:
    """The format number in a Parquet schema's metadata. Raises UnknownFormatError if there is none."""
    number = (metadata or {}).get(FORMAT_KEY, b"")
    if not number.isdigit():
        raise UnknownFormatError("this Parquet file has no format number: it is no part of a capture")
    return int(number)


def newer_format_message(number: int, newest: int = FORMAT) -> str:
    """The message for a file whose format number is above `newest`."""
    return f"capture format {number}, this program knows up to {newest}: use a newer kafka-wiretap"


def upgraded(table: Any, number: int, steps: Mapping[int, Upgrade] = UPGRADES, newest: int = FORMAT) -> Any:
    """A table of format `number`, upgraded to the newest format. Raises UnknownFormatError for a number above it."""
    if number > newest:
        raise UnknownFormatError(newer_format_message(number, newest))
    for step in range(number, newest):
        table = steps[step](table)
    return table


def _with_nothing_dropped(table: Any) -> Any:
    """A table of frames with the columns of rules for records, which were all kept; another table as it is."""
    if STORED not in table.column_names:
        return table
    import pyarrow as pa

    schema = frames_schema()
    for name in COLUMNS_SINCE.keys() - {*table.column_names}:
        table = table.append_column(schema.field(name), pa.nulls(len(table), schema.field(name).type))
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
    types["batches"] = pa.list_(pa.struct([pa.field(name, types[kind]) for name, kind in TOLD_TYPES.items()]))
    fields = [pa.field(name, types[kind]) for name, kind in columns]
    return pa.schema(fields, metadata={FORMAT_KEY: str(FORMAT).encode()})
