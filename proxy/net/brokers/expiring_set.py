"""A set whose members expire: what was found out lately is taken for true for a while."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class ExpiringSet(Generic[T]):
    """The members that were added within so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._added: dict[T, float] = {}

    def __contains__(self, thing: T) -> bool:
        added = self._added.get(thing)
        return added is not None and trio.current_time() - added < self._seconds

    def add(self, thing: T) -> None:
        """Adds a member, from now on. Members that have expired are forgotten."""
        self._added = {one: at for one, at in self._added.items() if one in self} | {thing: trio.current_time()}

    def discard(self, thing: T) -> None:
        """Removes a member."""
        self._added.pop(thing, None)
