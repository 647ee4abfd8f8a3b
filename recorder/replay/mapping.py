"""Recorded value -> target's value: the pairs that answers gave.

A pair has a scope: the group of a member id, nothing for what is one of the whole cluster. A later pair of the same
value replaces the earlier one.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum


class What(StrEnum):
    """The kinds of values that a cluster assigns."""

    TOPIC_ID = "topic id"
    PRODUCER = "producer"  # id and epoch, one value
    MEMBER = "member id"
    GENERATION = "generation"
    MEMBER_EPOCH = "member epoch"
    CURSOR = "page cursor"
    CLIENT_INSTANCE = "client instance id"
    SUBSCRIPTION = "telemetry subscription"


class Pairs:
    """The pairs of one replay. Memory: a pair for each value that was assigned."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[What, Hashable], dict[Hashable, object]] = {}

    def learn(self, what: What, recorded: Hashable, target: object, scope: Hashable = None) -> None:
        """The target's value for a recorded one."""
        self._pairs.setdefault((what, scope), {})[recorded] = target

    def target(self, what: What, recorded: Hashable, scope: Hashable = None) -> object | None:
        """The target's value, None while no answer gave it."""
        return self._pairs.get((what, scope), {}).get(recorded)

    def forget(self, what: What, recorded: Hashable, scope: Hashable = None) -> None:
        """Drops a pair that nothing can quote any more."""
        self._pairs.get((what, scope), {}).pop(recorded, None)
