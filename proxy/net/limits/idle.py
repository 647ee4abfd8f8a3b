"""Ends connections on which nothing moves any more.

One task checks all connections of a cluster every now and then, so that passing bytes costs nothing extra. A connection
that is owed a response is never idle, however long the response takes: polls may be long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import trio

# checks in the idle time: a connection ends at most an eighth of that time too late
CHECKS_PER_PERIOD = 8


class Connection(Protocol):
    """The part of `Relay` that is needed here."""

    @property
    def progress(self) -> int | None:
        """A number that grows with every byte that moves; None while the connection waits for the proxy itself."""

    @property
    def is_quiet(self) -> bool:
        """True if no response is owed or being sent."""

    def idle(self) -> None:
        """Ends the connection."""


async def end_idle(connections: Collection[Connection], seconds: float) -> None:
    """Ends connections on which nothing has moved for `seconds`, until cancelled. `connections` changes meanwhile."""
    since: dict[Connection, tuple[int | None, float]] = {}
    while True:
        now = trio.current_time()
        since = dict(_quiet(connections, since, now))
        for connection, (_, at) in since.items():
            if now - at >= seconds:
                connection.idle()
        await trio.sleep(seconds / CHECKS_PER_PERIOD)


def _quiet(
    connections: Collection[Connection], since: dict[Connection, tuple[int | None, float]], now: float
) -> Iterator[tuple[Connection, tuple[int | None, float]]]:
    """Each quiet connection, with its progress and the time since which that has not changed."""
    for connection in connections:
        progress = connection.progress
        if connection.is_quiet and progress is not None:
            before = since.get(connection)
            yield connection, before if before is not None and before[0] == progress else (progress, now)
