"""One frame's body as a tree of plain values, in which bytes and masked values are told apart from the rest.

A capture blanks values, never lengths, so a masked frame still decodes; but a blanked value must never pass for a real
one. What can't be decoded says why: that is a finding, not an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.headers import request_head, response_head
from proxy.wire.language import Field
from proxy.wire.primitives import uuid_text
from recorder.capture import frames as c

Row = Mapping[str, Any]
Kind = Literal["request", "response"]
TAGS = "_tags"


@dataclass(frozen=True, slots=True)
class Masked:
    """A value that was not kept; `length` in bytes where it is known."""

    length: int | None


@dataclass(frozen=True, slots=True)
class Body:
    """`values` as a tree of dicts, lists, numbers, text, bytes and Masked; or None, and `why`."""

    values: dict[str, Any] | None
    why: str = ""


def body(row: Row) -> Body:
    """Decode the frame of a row (which must hold its bytes)."""
    frame, kind, key, version = row[c.FRAME], row[c.KIND], row[c.API_KEY], row[c.API_VERSION]
    if kind not in (c.REQUEST, c.RESPONSE):
        return Body(None, f"no frame of Kafka's: {kind}")
    if row[c.OMITTED] or frame is None:
        return Body(None, "part of it was left out of the capture")
    if key is None or version is None or row[c.DIALECT] != c.KAFKA:
        return Body(None, f"{row[c.API] or 'api unknown'} can't be decoded")
    return _decoded(frame, kind, key, version, row[c.MASKED] or [])


def _decoded(frame: bytes, kind: Kind, key: int, version: int, masked: Sequence[Mapping[str, int]]) -> Body:
    codec = catalog.codec(kind, key, version)
    if codec is None:
        return Body(None, f"api {key} version {version} is not in the catalog")
    try:
        start = request_head(frame).body if kind == c.REQUEST else response_head(frame, key, version).body
        if masked and masked[0]["start"] <= start:
            return Body(None, "masked whole: it may hold a secret")
        values, end = codec.decode(frame, start)
    except WireError as error:
        return Body(None, f"can't be decoded: {error}")
    hidden = catalog.secrets(kind, key, version) if masked else ()
    tree = _struct(values, codec.message.fields, version, "", hidden)
    return Body(tree, f"{len(frame) - end} bytes more stand behind it" if end < len(frame) else "")


def _struct(values: Row, fields: Sequence[Field], version: int, above: str, hidden: Sequence[str]) -> dict[str, Any]:
    named = {field.name: field for field in fields if version in field.versions}
    return {
        name: dict(value) if name == TAGS else _value(value, named[name], version, above + name, hidden)
        for name, value in values.items()
    }


def _value(value: Any, field: Field, version: int, path: str, hidden: Sequence[str]) -> Any:
    if value is None:
        return None
    if path in hidden:
        return _hide(value)
    if field.is_array and isinstance(value, list):
        return [_element(one, field, version, path, hidden) for one in value]
    return _element(value, field, version, path, hidden)


def _element(value: Any, field: Field, version: int, path: str, hidden: Sequence[str]) -> Any:
    if field.fields:
        return _struct(value, field.fields, version, f"{path}.", hidden)
    return uuid_text(bytes(value)) if field.element == "uuid" else value


def _hide(value: Any) -> Any:
    """Nothing was blanked of an empty value."""
    if isinstance(value, str | bytes | memoryview):
        length = len(value.encode()) if isinstance(value, str) else len(value)
        return Masked(length) if length else value
    return Masked(None)
