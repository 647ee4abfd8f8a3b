"""Lists the APIs that a replay sends, and the fields of their messages."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire import apis
from proxy.wire.apis import MessageKind
from proxy.wire.language import Field
from recorder.replay.requests.apis import Treatment, treatment

SENT = [key for key in apis.api_keys() if treatment(key) is not Treatment.NEVER]


def fields_of(kind: MessageKind, key: int) -> list[tuple[str, Field]]:
    """Returns every field of a message in any version, with its path."""
    message = apis.message(kind, key)
    return list(_below(message.fields, "")) if message else []


def _below(fields: tuple[Field, ...], above: str) -> Iterator[tuple[str, Field]]:
    for field in fields:
        yield above + field.name, field
        yield from _below(field.fields, f"{above}{field.name}.")
