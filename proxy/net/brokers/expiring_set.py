"""A set whose members expire, for facts that hold only for a while."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class ExpiringSet(Generic[T]):
    """The members that were added within the last `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._added: dict[T, float] = {}

    def __contains__(self, member: T) -> bool:
        added = self._added.get(member)
        return added is not None and trio.current_time() - added < self._seconds

    def add(self, member: T) -> None:
        """Adds a member, or renews it. Removes the members that have expired."""
        living = {known: at for known, at in self._added.items() if known in self}
        self._added = living | {member: trio.current_time()}

    def discard(self, member: T) -> None:
        """Removes a member."""
        self._added.pop(member, None)
