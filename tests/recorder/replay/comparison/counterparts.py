"""A mapping that knows nothing, for comparisons without a replay's state."""

from __future__ import annotations

from collections.abc import Hashable

from recorder.replay.mapping import ValueKind


class NoCounterparts:
    """Knows no counterparts."""

    same: frozenset[ValueKind] = frozenset()

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable | None:
        return None
