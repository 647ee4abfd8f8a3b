"""What was found out lately, and is taken for true for a while."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class ExpiringSet(Generic[T]):
    """Things that were added within so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._added: dict[T, float] = {}

    def __contains__(self, thing: T) -> bool:
        added = self._added.get(thing)
        return added is not None and trio.current_time() - added < self._seconds

    def add(self, thing: T) -> None:
        """From now on. What has been there for too long is forgotten."""
        self._added = {one: at for one, at in self._added.items() if one in self} | {thing: trio.current_time()}

    def discard(self, thing: T) -> None:
        """It is so no more."""
        self._added.pop(thing, None)
