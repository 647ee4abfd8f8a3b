"""Ends idle connections. Each cluster runs one `end_idle` task if its settings have an idle time.

The task checks all connections periodically, so passing bytes costs nothing extra. A connection with a request in
flight is never idle, however long the response takes: fetches may poll for long.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import trio

# checks per idle time: a connection ends at most an eighth of the idle time late
CHECKS_PER_PERIOD = 8


class IdleConnection(Protocol):
    """The part of `Relay` that `end_idle` needs."""

    @property
    def progress(self) -> int | None:
        """A number that grows while bytes move; None while the connection waits for the recorder."""

    @property
    def is_quiet(self) -> bool:
        """True if no response is owed or being sent, and the client has not finished."""

    def end_as_idle(self) -> None:
        """Ends the connection, with the cause `idle`."""


async def end_idle(connections: Collection[IdleConnection], seconds: float) -> None:
    """Ends connections on which nothing has moved for `seconds`, until cancelled. `connections` may change."""
    quiet: dict[IdleConnection, tuple[int | None, float]] = {}
    while True:
        now = trio.current_time()
        quiet = dict(_still_quiet(connections, quiet, now))
        for connection, (_, since_time) in quiet.items():
            if now - since_time >= seconds:
                connection.end_as_idle()
        await trio.sleep(seconds / CHECKS_PER_PERIOD)


def _still_quiet(
    connections: Collection[IdleConnection], known: dict[IdleConnection, tuple[int | None, float]], now: float
) -> Iterator[tuple[IdleConnection, tuple[int | None, float]]]:
    """Each quiet connection, with its progress and the time of the check that first saw that progress."""
    for connection in connections:
        progress = connection.progress
        if connection.is_quiet and progress is not None:
            before = known.get(connection)
            yield connection, before if before is not None and before[0] == progress else (progress, now)
