"""Numbers the entries of a log, and keeps the inventory with which each of its segments begins.

Used by the writer. The entries of a connection are numbered. The inventory lists the open connections, each with the
number of its next entry, and the totals of all closed connections. If a stretch of the log is lost, these numbers tell
the reader which connections lack entries. The totals tell how much passed on connections whose end is lost (see the
module `closed_connections`). The inventory also repeats what clusters can be known by again (`Identities`), and what is
in force (settings, versions).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from recorder.capture.frames import CLUSTER_IDS, LISTENERS, UPSTREAMS
from recorder.capture.spool import MAX_KNOWN, NUMBERS, EntryKind, Item

_KNOWN_BY = (CLUSTER_IDS, UPSTREAMS, LISTENERS)

# kinds of entries that don't simply take the next number of their connection
_SPECIAL = frozenset({int(EntryKind.CHECKPOINT), int(EntryKind.CLOSED)})


@dataclass(slots=True)
class ClosedTotals:
    """The number of closed connections, and the frames and bytes that passed on them, recorded or not."""

    connections: int = 0
    frames: int = 0
    bytes: int = 0

    def add_closed(self, frames: int, offsets: tuple[int, int]) -> None:
        """Adds one connection. `offsets`: the bytes of its two directions."""
        self.connections += 1
        self.frames += frames
        self.bytes += sum(offsets)

    def add_unlogged(self, fields: dict[str, Any]) -> None:
        """Adds connections that were opened and closed without an entry of their own (`entry_json.UnloggedJson`)."""
        self.connections += fields["connections"]
        self.frames += fields["frames"]
        self.bytes += fields["bytes"]


class Identities:
    """What each cluster can be known by again, as far as the log has told: ids, addresses."""

    def __init__(self) -> None:
        self._of: dict[str | None, dict[str, dict[str, None]]] = {}

    def add(self, fields: Mapping[str, Any]) -> None:
        """Adds the contents of a CLUSTER entry (`entry_json.ClusterJson`)."""
        known = self._of.setdefault(fields["cluster"], {kind: {} for kind in _KNOWN_BY})
        for kind in _KNOWN_BY:
            new = [value for value in dict.fromkeys(fields[kind]) if value not in known[kind]]
            known[kind].update(dict.fromkeys(new[: MAX_KNOWN - len(known[kind])]))

    def values(self) -> list[dict[str, Any]]:
        """Everything, as the contents of one CLUSTER entry for each cluster."""
        return [{"cluster": name} | {kind: [*known[kind]] for kind in _KNOWN_BY} for name, known in self._of.items()]


class Inventory:
    """The open connections of a log, each with the number of its next entry, and the totals of the closed ones."""

    def __init__(self) -> None:
        self._identities = Identities()
        self._next: dict[int, int] = {}
        self._closed = ClosedTotals()
        # the contents of the newest SETTINGS entry
        self._in_force: dict[str, Any] | None = None

    def number_entries(self, items: Iterable[Item]) -> list[int]:
        """The numbers of the log's next entries, in their order; 0 for entries without a connection.

        A checkpoint has the number of the entry that follows, so no number is missing if a checkpoint is lost.
        """
        following, numbers = self._next, []
        for kind, _, connection, _, _, data, _ in items:
            if kind in _SPECIAL or connection < 0:
                numbers.append(self._special_number(kind, connection, data))
            else:
                number = following.get(connection, 0)
                following[connection] = (number + 1) % NUMBERS
                numbers.append(number)
        return numbers

    def _special_number(self, kind: int, connection: int, data: bytes) -> int:
        """The number of an entry of a special kind or without a connection. Also adds to the totals."""
        if connection < 0:
            # a gap of no connection stands for connections that were never logged
            if kind == EntryKind.GAP:
                self._closed.add_unlogged(json.loads(data))
            elif kind == EntryKind.CLUSTER:
                self._identities.add(json.loads(data))
            elif kind == EntryKind.SETTINGS:
                self._in_force = json.loads(data)
            return 0
        if kind == EntryKind.CHECKPOINT:
            return self._next.get(connection, 0)
        fields = json.loads(data)
        # `sequence` is the number of complete frames
        self._closed.add_closed(fields["sequence"], fields["offsets"])
        return self._next.pop(connection, 0)

    def text(self) -> bytes:
        """The JSON of an INVENTORY entry."""
        open_connections, clusters = list(self._next.items()), self._identities.values()
        inventory = {"open": open_connections, "closed": asdict(self._closed), "clusters": clusters}
        if self._in_force is not None:
            inventory["in_force"] = self._in_force
        return json.dumps(inventory, separators=(",", ":")).encode()
