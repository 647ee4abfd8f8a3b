"""The fields that a filter may name. The table is also what docs and a shell's completion are made of."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from recorder.capture import frames as c
from recorder.capture.outcome import Outcome


class Kind(Enum):
    """The kind of a field's values. The value is the word for it in errors and docs."""

    TEXT = "text"
    CLIENT = "client id or address"
    NUMBER = "number"
    SIZE = "size"
    TIME = "duration"
    MOMENT = "time"
    API = "API"
    ERROR = "error"


class Level(Enum):
    """What has a value of the field."""

    HEAD = "head"
    ELEMENT = "element"
    RECORD = "record"


class Field(NamedTuple):
    """A field.

    Attributes:
        column: the column of `frames` whose value both frames of an exchange share; None if there is none.
        choices: all values that it can have; empty if there are many.
    """

    name: str
    kind: Kind
    level: Level
    meaning: str
    column: str | None = None
    choices: tuple[str, ...] = ()


_TEXT, _NUMBER, _SIZE, _TIME = Kind.TEXT, Kind.NUMBER, Kind.SIZE, Kind.TIME
_HEAD, _ELEMENT, _RECORD = Level.HEAD, Level.ELEMENT, Level.RECORD
_KINDS = (c.REQUEST, c.RESPONSE, c.TOKEN, c.UNFRAMED)
_OUTCOMES = tuple(each.value for each in Outcome if each is not Outcome.PENDING)

_ALL = (
    Field("api", Kind.API, _HEAD, "the API: its name in any case, a former name, or its key", c.API),
    Field("version", _NUMBER, _HEAD, "the version of the API", c.API_VERSION),
    Field("client", Kind.CLIENT, _HEAD, "the client id, or the client's HOST or HOST:PORT"),
    Field("client_id", _TEXT, _HEAD, "the client id alone", c.CLIENT_ID),
    Field("principal", _TEXT, _HEAD, "who was logged in when the request arrived"),
    Field("software", _TEXT, _HEAD, "the client's library, as its connection's ApiVersions said"),
    Field("software_version", _TEXT, _HEAD, "the version of that library"),
    Field("session", _TEXT, _HEAD, "the capture's session", c.SESSION),
    Field("cluster", _TEXT, _HEAD, "the cluster's name in the settings", c.CLUSTER),
    Field("connection", _NUMBER, _HEAD, "the connection's number in its session", c.CONNECTION),
    Field("exchange", _NUMBER, _HEAD, "the exchange's number on its connection", c.EXCHANGE),
    Field("node", _NUMBER, _HEAD, "the id of the broker; no value while it is unknown"),
    Field("listener", _TEXT, _HEAD, "the local address that the client dialled", c.LISTENER),
    Field("dialect", _TEXT, _HEAD, "`kafka` or `kafka-0.7`", c.DIALECT, (c.KAFKA, c.KAFKA_07)),
    Field("at", Kind.MOMENT, _HEAD, "when the request arrived; of a frame: when it did"),
    Field("sent", _SIZE, _HEAD, "bytes of the request"),
    Field("received", _SIZE, _HEAD, "bytes of the response"),
    Field("size", _SIZE, _HEAD, "bytes of both; of a frame: its own; of a record: of its key and value"),
    Field("latency", _TIME, _HEAD, "from the request's last byte to the response's first"),
    Field("queued", _TIME, _HEAD, "of the latency, behind earlier requests"),
    Field("transfer", _TIME, _HEAD, "from the response's first byte to its last"),
    Field("outcome", _TEXT, _HEAD, "how the exchange ended", choices=_OUTCOMES),
    Field("kind", _TEXT, _HEAD, "of a frame: what it is", choices=_KINDS),
    Field("topic", _TEXT, _ELEMENT, "the topic's name, also where the message has only its id"),
    Field("partition", _NUMBER, _ELEMENT, "the partition"),
    Field("group", _TEXT, _ELEMENT, "the group"),
    Field("member", _TEXT, _ELEMENT, "the group member's id"),
    Field("instance", _TEXT, _ELEMENT, "the static member's group.instance.id"),
    Field("transactional_id", _TEXT, _ELEMENT, "the transactional id"),
    Field("error", Kind.ERROR, _ELEMENT, "the error. Alone: one that is no normal step of the protocol"),
    Field("records", _NUMBER, _ELEMENT, "records in the partition's batches"),
    Field("bytes", _SIZE, _ELEMENT, "bytes of the partition's batches"),
    Field("acks", _NUMBER, _ELEMENT, "the acks that a Produce asks for"),
    Field("producer_id", _NUMBER, _ELEMENT, "the idempotent producer of the partition's first batch"),
    Field("fetch_offset", _NUMBER, _ELEMENT, "the first offset that a Fetch asks for"),
    Field("base_offset", _NUMBER, _ELEMENT, "the offset of the first record produced"),
    Field("committed_offset", _NUMBER, _ELEMENT, "the offset that a group commits, or has committed"),
    Field("high_watermark", _NUMBER, _ELEMENT, "the offset after the last one that consumers see"),
    Field("codec", _TEXT, _ELEMENT, "the batch's compression", choices=("none", "gzip", "snappy", "lz4", "zstd")),
    Field("key", _TEXT, _RECORD, "the record's key, as text"),
    Field("value", _TEXT, _RECORD, "the record's value, as text"),
    Field("offset", _NUMBER, _RECORD, "the record's offset in the log"),
    Field("timestamp", Kind.MOMENT, _RECORD, "the record's own time"),
)
FIELDS: Mapping[str, Field] = {field.name: field for field in _ALL}
# fields whose values come with the batches' headers, or only with the unfolded records
OF_BATCHES = frozenset({"codec"})
OF_RECORDS = frozenset(field.name for field in _ALL if field.level is Level.RECORD)
# fields that only a response tells
OF_RESPONSES = frozenset({"error", "base_offset", "high_watermark"})
OF_ELEMENTS = frozenset(field.name for field in _ALL if field.level is not Level.HEAD)
# what flags ask of errors: those that are no normal step of the protocol, or all
FAULTS, ALL = "errors", "all_errors"
