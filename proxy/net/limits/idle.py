"""Ends connections over which nothing goes any more.

One task looks at all connections of a cluster every now and then, so that a connection's bytes cost nothing: how far it
has come is known anyway. A connection with an answer to come is never idle, whatever it takes: polls may be long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import trio

# looks in that time: a connection ends at most an eighth of it too late
LOOKS = 8


class Connection(Protocol):
    """What is asked of a relay."""

    @property
    def progress(self) -> int | None:
        """A number that grows with every byte that moves on it; None while it waits for the proxy itself."""

    @property
    def is_quiet(self) -> bool:
        """Whether no answer is owed, or on its way."""

    def idle(self) -> None:
        """Ends it."""


async def end_idle(connections: Collection[Connection], seconds: float) -> None:
    """Ends those on which nothing has moved for so long, until cancelled. `connections` changes meanwhile."""
    since: dict[Connection, tuple[int | None, float]] = {}
    while True:
        now = trio.current_time()
        since = dict(_quiet(connections, since, now))
        for connection, (_, at) in since.items():
            if now - at >= seconds:
                connection.idle()
        await trio.sleep(seconds / LOOKS)


def _quiet(
    connections: Collection[Connection], since: dict[Connection, tuple[int | None, float]], now: float
) -> Iterator[tuple[Connection, tuple[int | None, float]]]:
    """How far each has come that waits for nothing, and since when it has come no further."""
    for connection in connections:
        progress = connection.progress
        if connection.is_quiet and progress is not None:
            before = since.get(connection)
            yield connection, before if before is not None and before[0] == progress else (progress, now)
