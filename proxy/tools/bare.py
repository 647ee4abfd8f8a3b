"""Bytes without a frame as trees: record batches, one record of an internal topic, a message inside messages.

The trees are like those of `frames`. The caller must name the type of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proxy.tools.kafka07 import opened
from proxy.tools.tree import Shown, blob_tree, record_tree, records_tree
from proxy.wire.dialects import Dialect
from proxy.wire.errors import Malformed


@dataclass(frozen=True, slots=True)
class Bare:
    """The type of the bytes; false if they are a frame.

    `message`: the name of a message inside messages. `batches`: record batches, of `topic` if it is given; in the
    dialect of 0.7, the messages of a log. `topic` alone: the value of one record of it, whose key is `key`.
    """

    message: str | None = None
    batches: bool = False
    topic: str | None = None
    key: bytes | None = None
    dialect: Dialect = Dialect.KAFKA

    def __bool__(self) -> bool:
        return bool(self.message or self.batches or self.topic)


def trees(data: bytes, bare: Bare, shown: Shown) -> Iterator[dict[str, Any]]:
    """A dict for each batch or for the message, and one for bytes behind the last batch.

    Errors: WireError if none of the bytes can be read.
    """
    if bare.message:
        yield blob_tree(bare.message, data, shown)
    elif bare.batches and bare.dialect is Dialect.KAFKA_07:
        yield from _batches(opened(data, shown.records, budget=shown.budget), "message of 0.7")
    elif bare.batches:
        yield from _batches(records_tree(data, bare.topic, shown), "record batch")
    else:
        # no record of an internal topic has an empty value, so empty means null
        yield record_tree(bare.topic or "", bare.key, data or None, shown)


def _batches(found: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    first = found[0] if found else {"why": "no bytes"}
    # a first entry without `why` and `magic` is the number of messages, of which none was to be shown
    if "why" in first and "magic" not in first:
        raise Malformed(f"no {what}: {first['why']}")
    return found
