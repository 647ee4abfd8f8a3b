"""The reader's totals of closed connections, compared with the writer's (`roll`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recorder.capture.roll import Totals


class Missed(NamedTuple):
    """The contents of connections whose closing the reader has missed. None if unknown."""

    connections: int
    frames: int | None
    bytes: int | None

    def without(self, known: Sequence[tuple[int, int | None]]) -> Missed:
        """Less `known` connections of them: for each, the recorded frames and bytes (None if unknown)."""
        connections = max(self.connections - len(known), 0)
        sizes = [size for _, size in known if size is not None]
        if self.frames is None or self.bytes is None or len(sizes) < len(known):
            return Missed(connections, None, None)
        frames = self.frames - sum(frames for frames, _ in known)
        return Missed(connections, max(frames, 0), max(self.bytes - sum(sizes), 0))


class Ledger:
    """The reader's `totals` of closed connections: None if they are lost, until the next roll replaces them."""

    def __init__(self) -> None:
        self.totals: Totals | None = Totals()

    def missed(self, roll: dict[str, int]) -> Missed | None:
        """The difference to the writer's totals, which replace the reader's own; None if those are lost."""
        before, self.totals = self.totals, Totals(**roll)
        if before is None:
            return None
        return Missed(
            max(roll["connections"] - before.connections, 0),
            max(roll["frames"] - before.frames, 0),
            max(roll["bytes"] - before.bytes, 0),
        )
