"""Records of internal topics and of control batches: the messages in their keys and values, and their type numbers.

    log                                          key                     value
    __consumer_offsets, __transaction_state,     int16 type, its body    int16 version, its body
    __share_group_state
    __cluster_metadata, __remote_log_metadata    none                    unsigned varints: frame version 1, type,
                                                                         version; then its body
    control batches of any partition             int16 version, type     its body, which begins with its version;
                                                                         EndTxnMarker: int16 version, its body

Key and value have the same type number. A value of null is a tombstone: it deletes the key's entry. Bytes behind a
body are kept in `Embedded.rest`. Source: Kafka's `CoordinatorRecordSerde`, `AbstractApiMessageSerde`,
`ControlRecordType`; KIP-98, KIP-595, KIP-853, KIP-932.
"""

from collections.abc import Callable
from dataclasses import dataclass

from proxy.wire.budget import Budget
from proxy.wire.embedded.blobs import Embedded, Unknown, decode_at, decode_blob, read_int16
from proxy.wire.embedded.schemas import numbered
from proxy.wire.errors import naming
from proxy.wire.primitives import Buffer, read_uvarint

INT16_SIZE = 2
# the only frame version; another one would have another layout
FRAME_VERSION = 1
# `EndTxnMarker` is the value of types 0 and 1: only the type shows how the transaction ended
CONTROL_TYPES = {
    0: "EndTxnMarker",
    1: "EndTxnMarker",
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
MARKER = "EndTxnMarker"


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record's key and value. `key` is None if the log has no keys, `value` None for a tombstone."""

    key: Embedded | Unknown | None
    value: Embedded | Unknown | None


def decode_record(
    topic: str, key: Buffer | None, value: Buffer | None, *, budget: Budget | None = None
) -> LogRecord | None:
    """The messages in a record of an internal topic; None for any other topic.

    Use `decode_control` for records of control batches: some of these topics have transaction markers, too.
    `budget`: as for `Codec.decode`.

    Errors: Truncated, Malformed, OverBudget.
    """
    read = LOGS.get(topic)
    if read is None:
        return None
    with naming(topic):
        return read(topic, key, value, budget)


def decode_control(key: Buffer | None, value: Buffer | None, *, budget: Budget | None = None) -> LogRecord:
    """The messages in a record of a control batch. The key has only a type: 0 abort, 1 commit, ... (`CONTROL_TYPES`).

    `budget`: as for `Codec.decode`.

    Errors: Truncated (also for a key of null), Malformed, OverBudget.
    """
    found = decode_blob("ControlRecordTypeSchema", key or b"", budget=budget)
    if value is None:
        return LogRecord(found, None)
    if isinstance(found, Unknown):
        return LogRecord(found, Unknown(None, None, None))
    name = CONTROL_TYPES.get(found.values["type"])
    if name is None:
        return LogRecord(found, Unknown(None, found.values["type"], None))
    with naming(name):
        version = read_int16(value)
    return LogRecord(found, decode_at(name, version, value, INT16_SIZE if name == MARKER else 0, budget))


def _coordinator(topic: str, key: Buffer | None, value: Buffer | None, budget: Budget | None) -> LogRecord:
    if key is None:
        return LogRecord(None, None if value is None else Unknown(None, None, None))
    file, number = topic.removeprefix("__"), read_int16(key)
    read_key = _numbered(numbered(file, "Key").get(number), number, 0, key, budget)
    if value is None:
        return LogRecord(read_key, None)
    name, version = numbered(file, "Value").get(number), read_int16(value)
    return LogRecord(read_key, _numbered(name, number, version, value, budget))


def _numbered(name: str | None, number: int, version: int, data: Buffer, budget: Budget | None) -> Embedded | Unknown:
    return decode_at(name, version, data, INT16_SIZE, budget) if name else Unknown(None, number, None)


def _framed(topic: str, key: Buffer | None, value: Buffer | None, budget: Budget | None) -> LogRecord:
    if value is None:
        return LogRecord(None, None)
    frame_version, at = read_uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        return LogRecord(None, Unknown(None, None, None))
    number, at = read_uvarint(value, at)
    version, at = read_uvarint(value, at)
    name = numbered(topic.removeprefix("__")).get(number)
    return LogRecord(None, decode_at(name, version, value, at, budget) if name else Unknown(None, number, version))


LOGS: dict[str, Callable[[str, Buffer | None, Buffer | None, Budget | None], LogRecord]] = {
    "__consumer_offsets": _coordinator,
    "__transaction_state": _coordinator,
    "__share_group_state": _coordinator,
    "__cluster_metadata": _framed,
    "__remote_log_metadata": _framed,
}
