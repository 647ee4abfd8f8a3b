"""Counts the closed connections that a reader of the log has missed, and their frames and bytes.

Used by `assembly`. A segment's inventory has the writer's totals of closed connections. The reader keeps totals of the
closings that it has read. If the writer counts 5 connections and the reader 3, the reader has missed 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recorder.capture.inventory import ClosedTotals


class MissedConnections(NamedTuple):
    """The number of connections whose closing the reader has missed, and their frames and bytes; None: unknown."""

    connections: int
    frames: int | None
    bytes: int | None

    def without(self, known: Sequence[tuple[int, int | None]]) -> MissedConnections:
        """The missed connections except the `known` ones, and the frames and bytes of which there is no row.

        `known`: (recorded frames, recorded bytes; None: unknown) of each.
        """
        connections = max(self.connections - len(known), 0)
        sizes = [size for _, size in known if size is not None]
        if self.frames is None or self.bytes is None or len(sizes) < len(known):
            return MissedConnections(connections, None, None)
        frames = self.frames - sum(frames for frames, _ in known)
        return MissedConnections(connections, max(frames, 0), max(self.bytes - sum(sizes), 0))


class ReaderTotals:
    """The `totals` of the closings that the reader has read; None if they are lost, until the next inventory."""

    def __init__(self) -> None:
        self.totals: ClosedTotals | None = ClosedTotals()

    def adopt(self, writer_totals: dict[str, int]) -> MissedConnections | None:
        """Replaces the totals by the writer's. Returns the connections that the reader has missed; None: unknown."""
        before, self.totals = self.totals, ClosedTotals(**writer_totals)
        if before is None:
            return None
        return MissedConnections(
            max(writer_totals["connections"] - before.connections, 0),
            max(writer_totals["frames"] - before.frames, 0),
            max(writer_totals["bytes"] - before.bytes, 0),
        )
