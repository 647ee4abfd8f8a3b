"""Shows bytes without a frame: record batches, one record of an internal topic, a message inside messages.

Shows them as `frames` shows frames. The caller has to name the type of the bytes.
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
    """The type of the bytes: a message of that name; or batches, of that topic or any; or the value of its record.

    In the dialect of 0.7 a log is messages, which are its batches here.
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
    # what has neither says how many there are, of which none was to be shown
    if "why" in first and "magic" not in first:
        raise Malformed(f"no {what}: {first['why']}")
    return found
