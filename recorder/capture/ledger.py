"""A reader's account of the connections that have been closed, held against the writer's (`roll`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recorder.capture.roll import Totals


class Missed(NamedTuple):
    """What was in connections that were closed where nobody saw it. None: nobody can say."""

    connections: int
    frames: int | None
    bytes: int | None

    def without(self, known: Sequence[tuple[int, int | None]]) -> Missed:
        """Less what was recorded of some of them, which are known: frames and bytes (None: nobody knows) of each."""
        connections = max(self.connections - len(known), 0)
        sizes = [size for _, size in known if size is not None]
        if self.frames is None or self.bytes is None or len(sizes) < len(known):
            return Missed(connections, None, None)
        frames = self.frames - sum(frames for frames, _ in known)
        return Missed(connections, max(frames, 0), max(self.bytes - sum(sizes), 0))


class Ledger:
    """The reader's account. `closed` is None until a roll tells what nobody else can: the reader's own is lost."""

    def __init__(self) -> None:
        self.closed: Totals | None = Totals()

    def missed(self, told: dict[str, int]) -> Missed | None:
        """By how much the writer's account is ahead; from here on they agree."""
        before, self.closed = self.closed, Totals(**told)
        if before is None:
            return None
        return Missed(
            max(told["connections"] - before.connections, 0),
            max(told["frames"] - before.frames, 0),
            max(told["bytes"] - before.bytes, 0),
        )
