"""Finds the CloudEvent in a record, by the Kafka protocol binding: its mode, its attributes, and the clauses it breaks.

The mode follows section 3 of the binding. A content-type that begins with `application/cloudevents` makes a structured
event, even beside ce_ headers. Otherwise a record with all four mandatory attributes as headers is a binary event.

Some records count as events although a strict receiver would miss them, so that their faults are reported: records with
only some of the four attributes, records with HTTP's header names (ce-id), and batches. A record without such headers
is a structured event if its value is a JSON object with all four attributes. The binding leaves content-type out where
there are no headers (before Kafka 0.11), and brokers copy old messages into new formats.

Clauses about implementations (key mappers, supported modes) are not checked, because no record can break them.

Source: Kafka Protocol Binding for CloudEvents 1.0.3-wip; CloudEvents' JSON format.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, lookup
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from proxy.wire.records import Batch, Compression, Record

if TYPE_CHECKING:
    from msgspec import Raw

MANDATORY = ("id", "source", "specversion", "type")
OPTIONAL = ("subject", "time", "datacontenttype", "dataschema")
PARTITION_KEY = "partitionkey"
# members of a JSON event that are no attributes
_DATA, _DATA_BASE64 = "data", "data_base64"
_MEDIA_TYPE, _BATCH = "application/cloudevents", "application/cloudevents-batch"
_CONTENT_TYPE, _DATA_TYPE = "content-type", "datacontenttype"
_NAME = re.compile("[a-z0-9]+")
# A JSON event that no header announces is looked for by these bytes: one whose name of this attribute is written with
# escapes is passed over.
_MARK = b'"specversion"'
# the headers of every other event hold one of these, in lower case
_PREFIXES = ("ce_", "ce-")
_HEADER_MARKS = tuple(mark.encode() for mark in (*_PREFIXES, _MEDIA_TYPE))
_CHARSET = re.compile(r""";\s*charset\s*=\s*"?([\w.:-]{1,40})""")
# charsets of texts: some of Python's other codecs take long for hostile bytes
_PLAIN_CODEC = re.compile(
    r"ascii|utf-(8|16|32)(-[bl]e)?|iso8859-\d+|cp\d+|koi8-[rtu]|mac-\w+|shift_jis\w*|euc_\w+|gb\w+|big5\w*"
)
_JSON = re.compile(r"(application|text)/([^;]*\+)?json\s*(;|$)")
# Larger values are not parsed: parsed, they would take several times as much memory.
MOST_JSON = 16 << 20
_NO_JSON = (ValueError, RecursionError)


class Mode(StrEnum):
    """How a record holds an event. INCOMPLETE: as BINARY, but a mandatory attribute is missing."""

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCH = "batch"
    INCOMPLETE = "incomplete"


class Clause(StrEnum):
    """Clauses of the binding that a record can break."""

    MODES = "1.3"
    DATA = "2.1"
    MANDATORY = "3"
    CONTENT_TYPE = "3.2.1"
    DATA_IS_VALUE = "3.2.2"
    HEADERS = "3.2.3"
    HEADER_NAMES = "3.2.3.1"
    MEDIA_TYPE = "3.3.1"
    EVENT_FORMAT = "3.3.2"
    SAME_HEADERS = "3.3.3"


# what each clause asks for; docs/cloudevents.md shows it
MEANINGS: Mapping[Clause, str] = {
    Clause.MODES: "Kafka has no batch mode",
    Clause.DATA: "data is what its media type says: binary events of JSON hold JSON, in UTF-8 or in its charset",
    Clause.MANDATORY: "all of id, source, specversion and type are there",
    Clause.CONTENT_TYPE: "datacontenttype is the header `content-type`, never `ce_datacontenttype`",
    Clause.DATA_IS_VALUE: "data is the record's value, never a header",
    Clause.HEADERS: "each attribute is one header, in UTF-8",
    Clause.HEADER_NAMES: "its name is `ce_` and the attribute's: `ce_id`, neither `ce-id` nor `CE_Id`",
    Clause.MEDIA_TYPE: "a structured event's content-type, if any, is that of a format: `application/cloudevents+json`",
    Clause.EVENT_FORMAT: "a structured event has a value, and the value is an event in that format",
    Clause.SAME_HEADERS: "a structured event's ce_ headers say what the event says",
}
Broken = dict[Clause, str]


@dataclass(slots=True)
class Event:
    """An event in a record.

    `form`: the format of a structured event, such as json or avro. `attributes`: the readable ones, as text.
    `data_bytes`: None without data, or if the size is unknown. `broken`: the broken clauses, each with the first
    reason.
    """

    mode: Mode
    form: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    data_bytes: int | None = None
    is_tombstone: bool = False
    broken: Broken = field(default_factory=dict)


@dataclass(slots=True)
class _EventHeaders:
    """What a record's headers say of an event. `names`: all attributes, even those whose values can't be read."""

    content_name: str = _CONTENT_TYPE
    content_type: str = ""
    names: set[str] = field(default_factory=set)
    attributes: dict[str, str] = field(default_factory=dict)
    broken: Broken = field(default_factory=dict)

    @property
    def is_event(self) -> bool:
        return not self.names.isdisjoint(MANDATORY)


def may_hold_events(data: bytes, batch: Batch) -> bool:
    """False if the batch's bytes show that none of its records is an event that `event_in` finds.

    That is several times faster than reading the records. Compressed batches may always hold events.
    """
    if batch.codec is not Compression.NONE:
        return True
    found = data[batch.start : batch.end]
    if _MARK in found:
        return True
    lower = found.lower()
    return any(mark in lower for mark in _HEADER_MARKS)


def event_in(record: Record) -> Event | None:
    """The event in a record; None if it holds none. Errors: ModuleNotFoundError, if msgspec is missing."""
    _, _, _, value, headers, _, _ = record
    # nearly all records return here
    if not headers and (value is None or _MARK not in value):
        return None
    found = _read_headers(record)
    media_type = found.content_type.lower()
    if media_type.startswith(_BATCH):
        return Event(Mode.BATCH, broken={Clause.MODES: f"content-type {found.content_type}"})
    if media_type.startswith(_MEDIA_TYPE):
        return _structured(value, found, _form(media_type))
    if found.is_event:
        return _binary(value, found)
    if value is None or _MARK not in value or len(value) > MOST_JSON:
        return None
    members = _members(value)
    if members is None or not members.keys() >= {*MANDATORY}:
        return None
    return _structured(value, found, "json" if not media_type else None, members)


def _read_headers(record: Record) -> _EventHeaders:
    headers = _EventHeaders()
    for name, value in record.headers:
        lower = name.lower()
        if lower == _CONTENT_TYPE:
            headers.content_name, headers.content_type = name, _text(headers, name, value) or ""
        elif lower.startswith(_PREFIXES):
            _add(headers, name, lower[3:], value)
    return headers


def _add(headers: _EventHeaders, name: str, attribute: str, value: bytes | None) -> None:
    if attribute in (_DATA, _DATA_BASE64):
        _breaks(headers.broken, Clause.DATA_IS_VALUE, f"header {name}")
        return
    if attribute == _DATA_TYPE:
        _breaks(headers.broken, Clause.CONTENT_TYPE, f"header {name}")
    elif name != f"ce_{attribute}" or not _NAME.fullmatch(attribute):
        _breaks(headers.broken, Clause.HEADER_NAMES, f"header {name}")
    if attribute in headers.names:
        _breaks(headers.broken, Clause.HEADERS, f"{attribute} stands twice")
    headers.names.add(attribute)
    text = _text(headers, name, value)
    if text is not None:
        headers.attributes[attribute] = text


def _text(headers: _EventHeaders, name: str, value: bytes | None) -> str | None:
    try:
        if value is not None:
            return value.decode()
    except UnicodeDecodeError:
        _breaks(headers.broken, Clause.HEADERS, f"header {name} is not UTF-8")
        return None
    _breaks(headers.broken, Clause.HEADERS, f"header {name} is null")
    return None


def _breaks(broken: Broken, clause: Clause, reason: str) -> None:
    broken.setdefault(clause, reason)


def _msgspec() -> Any:
    """The JSON reader. It is imported when an event needs it, because Spark's executors may lack it."""
    import msgspec

    return msgspec


def _binary(value: bytes | None, headers: _EventHeaders) -> Event:
    missing = [name for name in MANDATORY if name not in headers.names]
    size = None if value is None else len(value)
    event = Event(
        Mode.INCOMPLETE if missing else Mode.BINARY, None, headers.attributes, size, value is None, headers.broken
    )
    if missing:
        _breaks(event.broken, Clause.MANDATORY, f"no {', '.join(missing)}")
    if headers.content_name != _CONTENT_TYPE:
        _breaks(event.broken, Clause.CONTENT_TYPE, f"header {headers.content_name}")
    if headers.content_type:
        event.attributes[_DATA_TYPE] = headers.content_type
    data_type = event.attributes.get(_DATA_TYPE, "").lower()
    if value and _JSON.match(data_type) and not _is_json(_in_utf8(value, data_type)):
        _breaks(event.broken, Clause.DATA, f"the value is no {event.attributes[_DATA_TYPE]}")
    return event


def _in_utf8(value: bytes, media_type: str) -> bytes:
    """The text that the bytes are in the media type's charset, in UTF-8; nothing if they are none.

    Without a charset, or with one that is not known here, the bytes are taken for UTF-8.
    """
    found = _CHARSET.search(media_type)
    if found is None:
        return value
    try:
        codec = lookup(found[1]).name
        # UTF-16 and UTF-32 without a byte order mark are big-endian (RFC 2781)
        marked = codec not in ("utf-16", "utf-32") or value.startswith((BOM_UTF16_LE, BOM_UTF16_BE, BOM_UTF32_BE))
        return value.decode(codec if marked else f"{codec}-be").encode() if _PLAIN_CODEC.fullmatch(codec) else value
    except LookupError:
        return value
    except ValueError:
        return b""


def _is_json(value: bytes) -> bool:
    try:
        value.decode()
        _msgspec().json.decode(value, type=_msgspec().Raw)
    except _NO_JSON:
        return False
    return True


def _form(media_type: str) -> str | None:
    """The event format that a media type names: application/cloudevents+json; charset=UTF-8 -> json."""
    suffix = media_type.removeprefix(_MEDIA_TYPE).split(";")[0].strip()
    return suffix[1:] if suffix.startswith("+") and len(suffix) > 1 else None


def _structured(
    value: bytes | None, headers: _EventHeaders, form: str | None, members: Mapping[str, Raw] | None = None
) -> Event:
    event = Event(Mode.STRUCTURED, form, broken=headers.broken)
    if form is None:
        _breaks(event.broken, Clause.MEDIA_TYPE, f"content-type {headers.content_type}")
    elif headers.content_name != _CONTENT_TYPE:
        _breaks(event.broken, Clause.MEDIA_TYPE, f"header {headers.content_name}")
    if value is None:
        _breaks(event.broken, Clause.EVENT_FORMAT, "the value is null")
    elif members is not None or (form == "json" and len(value) <= MOST_JSON):
        text = _in_utf8(value, headers.content_type.lower())
        _read_json(event, members if members is not None else _members(text))
    _compare(event, headers)
    return event


def _members(value: bytes) -> dict[str, Raw] | None:
    """The members of a JSON object as raw JSON, nulls left out. None if the value is no JSON object."""
    try:
        # msgspec does not check the text inside raw members
        value.decode()
        members: dict[str, Raw] = _msgspec().json.decode(value, type=GenericAlias(dict, (str, _msgspec().Raw)))
    except _NO_JSON:
        return None
    return {name: raw for name, raw in members.items() if bytes(raw) != b"null"}


def _read_json(event: Event, members: Mapping[str, Raw] | None) -> None:
    """Reads an event in the JSON format."""
    if members is None:
        _breaks(event.broken, Clause.EVENT_FORMAT, "the value is no JSON object")
        return
    for name, raw in members.items():
        if name not in (_DATA, _DATA_BASE64):
            _read_attribute(event, name, _value(raw))
    missing = [name for name in MANDATORY if not event.attributes.get(name)]
    if missing:
        _breaks(event.broken, Clause.EVENT_FORMAT, f"no {', '.join(missing)}")
    event.data_bytes = _data_bytes(event, members)


def _value(raw: Raw) -> Any:
    """A member's value. Arrays, objects, and strings with wrong escapes stay raw JSON.

    No attribute is an array or object, and parsed they take twenty times their bytes.
    """
    raw_json = bytes(raw)
    if raw_json.startswith((b"[", b"{")):
        return raw_json
    try:
        return _msgspec().json.decode(raw)
    except _NO_JSON:
        return raw_json


def _read_attribute(event: Event, name: str, value: Any) -> None:
    if not _NAME.fullmatch(name):
        _breaks(event.broken, Clause.EVENT_FORMAT, f"{name} is no attribute's name")
    is_text = isinstance(value, str)
    is_right = is_text if name in (*MANDATORY, *OPTIONAL) else isinstance(value, str | bool | int)
    if not is_right:
        _breaks(event.broken, Clause.EVENT_FORMAT, f"{name} has a wrong type")
    event.attributes[name] = value if is_text else _shown(value)


def _shown(value: Any) -> str:
    """A value that is no text, as JSON."""
    found: bytes = value if isinstance(value, bytes) else _msgspec().json.encode(value)
    return found.decode()


def _data_bytes(event: Event, members: Mapping[str, Raw]) -> int | None:
    """The size of an event's data: of JSON as written in the event, of text in UTF-8, of base64 unpacked."""
    data, packed = (members.get(name) for name in (_DATA, _DATA_BASE64))
    if data is not None and packed is not None:
        _breaks(event.broken, Clause.EVENT_FORMAT, "data and data_base64")
    if packed is not None:
        return _unpacked(event, _value(packed))
    if data is None:
        return None
    is_json = _JSON.match(event.attributes.get(_DATA_TYPE, "application/json").lower())
    text = None if is_json else _value(data)
    return len(text.encode()) if isinstance(text, str) else len(bytes(data))


def _unpacked(event: Event, packed: Any) -> int | None:
    try:
        return len(b64decode(packed, validate=True))
    except (TypeError, ValueError, binascii.Error):
        _breaks(event.broken, Clause.EVENT_FORMAT, "data_base64 is no base64")
        return None


def _compare(event: Event, headers: _EventHeaders) -> None:
    """Compares the attributes with the ce_ headers. If no attribute could be read, takes those of the headers."""
    if not event.attributes:
        event.attributes = headers.attributes
        return
    for name in _different(event.attributes, headers.attributes):
        _breaks(event.broken, Clause.SAME_HEADERS, f"{name} differs")


def _different(attributes: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[str]:
    for name, value in headers.items():
        own = attributes.get(name)
        if own != value and not (own is not None and name == "time" and _moment(own) == _moment(value)):
            yield name


def _moment(text: str) -> datetime | str:
    """The time that a text says, because a time may be written in several ways; else the text itself."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
