"""A request or a response of Kafka 0.7 as a table of its fields, as `schema.py` shows later versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from proxy.tools.listing import as_lines
from proxy.wire.apis import KINDS, MessageKind
from proxy.wire.kafka07 import RequestType
from proxy.wire.kafka07.layouts import REQUESTS, RESPONSES, Field

TITLES = ("field", "type", "size", "meaning")


def fields(asked: RequestType, kind: MessageKind) -> tuple[Field, ...] | None:
    """The fields; None for the response to a request that is never answered."""
    return REQUESTS[asked] if kind == "request" else RESPONSES.get(asked)


def as_text(asked: RequestType, kind: MessageKind) -> Iterator[str]:
    """The title and a line for each field; the fields of arrays are indented."""
    found = fields(asked, kind)
    yield f"{asked.api} {kind}  type {int(asked)}" + ("" if found else "  never answered")
    if found:
        rows = [("  " * (depth + 1) + one.name, one.type, one.size, one.about) for one, depth in _flat(found, 0)]
        yield from as_lines(TITLES, rows)


def as_json(asked: RequestType, kind: MessageKind) -> dict[str, Any]:
    """The table as one object; the fields of arrays are under `fields`, which is null if there is no response."""
    found = fields(asked, kind)
    return {"name": asked.api, "kind": kind, "type": int(asked), "fields": None if found is None else _json(found)}


def kinds(asked: RequestType) -> tuple[MessageKind, ...]:
    """The kinds of messages of this type: a request, and a response if there is one."""
    return tuple(kind for kind in KINDS if fields(asked, kind))


def _flat(found: Sequence[Field], depth: int) -> Iterator[tuple[Field, int]]:
    for field in found:
        yield field, depth
        yield from _flat(field.fields, depth + 1)


def _json(found: Sequence[Field]) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "type": one.type}
        | ({"size": one.size} if one.size else {})
        | ({"about": one.about} if one.about else {})
        | ({"fields": _json(one.fields)} if one.fields else {})
        for one in found
    ]
