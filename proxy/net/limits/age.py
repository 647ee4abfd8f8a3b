"""Ends old connections, so that load comes back to a proxy or worker that returns: clients connect again.

Each cluster runs one `end_aged` task while its settings have an age. Ends are spread over a fifth of the age, so that
clients that came together (after a restart) do not come back together.
"""

from __future__ import annotations

from collections.abc import Collection
from random import uniform
from typing import Protocol

import trio

# checks per age: a connection is first seen one check late at most, and ends another one late at most
CHECKS_PER_AGE = 40
# a connection's own age is drawn from this part of the settings' age: with both delays it is that age, give or take a
# tenth
EARLIEST, LATEST = 0.9, 1.1 - 2 / CHECKS_PER_AGE


class AgingConnection(Protocol):
    """The part of `Relay` that `end_aged` needs."""

    def end_as_aged(self) -> None:
        """Ends the connection, with the cause `aged`. Called until the connection is gone."""


async def end_aged(connections: Collection[AgingConnection], seconds: float) -> None:
    """Ends connections that are `seconds` old, give or take a tenth, until cancelled. `connections` may change.

    Connections that are open at the call count as new: a limit that is set later ends no crowd at once.
    """
    deadlines: dict[AgingConnection, float] = {}
    while True:
        now = trio.current_time()
        deadlines = {
            each: deadlines[each] if each in deadlines else now + seconds * uniform(EARLIEST, LATEST)
            for each in connections
        }
        for connection, deadline in deadlines.items():
            if deadline <= now:
                connection.end_as_aged()
        await trio.sleep(seconds / CHECKS_PER_AGE)
