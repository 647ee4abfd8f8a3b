"""The writer's account of what a log holds; a reader whose own account differs has missed something.

Every entry of a connection has a number, and each segment begins with the *roll*: the connections that are open, with
the number of their next entry, and the totals of all closed connections. So a reader that has lost a stretch of the log
learns which connections have lost entries, and how much was in connections whose entries are all lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from recorder.capture.spool import NUMBERS, EntryKind, Item

# entries that don't just take their connection's next number
_SPECIAL = frozenset({int(EntryKind.CHECKPOINT), int(EntryKind.CLOSED)})


@dataclass(slots=True)
class Totals:
    """The number of closed connections, and the frames and bytes that they held, recorded or not."""

    connections: int = 0
    frames: int = 0
    bytes: int = 0

    def add_closed(self, frames: int, offsets: tuple[int, int]) -> None:
        """Adds one connection."""
        self.connections += 1
        self.frames += frames
        self.bytes += sum(offsets)

    def add_unlogged(self, facts: dict[str, Any]) -> None:
        """Adds connections that were opened and closed without an entry of their own."""
        self.connections += facts["connections"]
        self.frames += facts["frames"]
        self.bytes += facts["bytes"]


class Roll:
    """The writer's account; `ledger.Ledger` has a reader's totals."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._closed = Totals()

    def numbers(self, items: Iterable[Item]) -> list[int]:
        """Numbers the log's next entries, in its order, each on its connection; 0 for entries without one.

        A checkpoint has the number of the entry that follows, so no number is missing if a checkpoint is lost.
        """
        following, found = self._next, []
        for kind, _, connection, _, _, data, _ in items:
            if kind in _SPECIAL or connection < 0:
                found.append(self._special(kind, connection, data))
            else:
                number = following.get(connection, 0)
                following[connection] = (number + 1) % NUMBERS
                found.append(number)
        return found

    def _special(self, kind: int, connection: int, data: bytes) -> int:
        if connection < 0:
            if kind == EntryKind.HOLE:
                self._closed.add_unlogged(json.loads(data))
            return 0
        if kind == EntryKind.CHECKPOINT:
            return self._next.get(connection, 0)
        facts = json.loads(data)
        self._closed.add_closed(facts["sequence"], facts["offsets"])
        return self._next.pop(connection, 0)

    def text(self) -> bytes:
        """The roll as the JSON of its entry."""
        roll = {"open": list(self._next.items()), "closed": asdict(self._closed)}
        return json.dumps(roll, separators=(",", ":")).encode()
