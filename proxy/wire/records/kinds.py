"""The enums of record formats. An enum's value is its label; the number on the wire is its index.

Source: Kafka's `CompressionType`, `TimestampType`, `ControlRecordType`.
"""

from enum import Enum


class Compression(Enum):
    """The compression of a batch's records (bits 0-2 of its attributes); zstd never in magic 0 and 1."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"
    UNKNOWN = "unknown"


class TimestampType(Enum):
    """The source of a record's timestamp: its producer, or the broker that appended it. Magic 0 has no timestamp."""

    NONE = "none"
    CREATE = "create"
    LOG_APPEND = "log_append"


class ControlType(Enum):
    """The type of a control record. UNKNOWN: a version or type that this list lacks; no error."""

    ABORT = "abort"
    COMMIT = "commit"
    LEADER_CHANGE = "leader_change"
    SNAPSHOT_HEADER = "snapshot_header"
    SNAPSHOT_FOOTER = "snapshot_footer"
    KRAFT_VERSION = "kraft_version"
    KRAFT_VOTERS = "kraft_voters"
    UNKNOWN = "unknown"


# attributes & 7 -> Compression
CODECS = (
    Compression.NONE,
    Compression.GZIP,
    Compression.SNAPPY,
    Compression.LZ4,
    Compression.ZSTD,
    Compression.UNKNOWN,
    Compression.UNKNOWN,
    Compression.UNKNOWN,
)
# the type in a control record's key -> ControlType
CONTROL_TYPES = tuple(kind for kind in ControlType if kind is not ControlType.UNKNOWN)

# the bits of the compression in a batch's attributes, and in a message's
CODEC_BITS = 7
LOG_APPEND_BIT = 1 << 3
TRANSACTIONAL_BIT = 1 << 4
CONTROL_BIT = 1 << 5
DELETE_HORIZON_BIT = 1 << 6
