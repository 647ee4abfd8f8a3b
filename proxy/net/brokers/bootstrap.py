"""A cluster's bootstrap servers, in the order in which they are tried.

At first the order is that of the settings. Attempts overlap: the next server is tried once the one before has failed,
or has taken longer than its head start (`race`). The server that succeeds first becomes the first in the order. A first
server that never responds to a client becomes the last once the client gives up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from proxy.log import log
from proxy.net.log_throttle import LogThrottle
from proxy.net.sockets.race import race
from proxy.schema.addresses import Address

T = TypeVar("T")


class Bootstrap:
    """One cluster's bootstrap servers. `cluster`: its name, for the log."""

    def __init__(self, cluster: str, servers: tuple[Address, ...]) -> None:
        self._cluster = cluster
        self._order = list(servers)
        self._log_throttle = LogThrottle()

    @property
    def order(self) -> tuple[Address, ...]:
        """The servers in the order in which they are tried."""
        return tuple(self._order)

    async def first_success(self, attempt: Callable[[Address], Awaitable[T]], discard: Callable[[T], object]) -> T:
        """Returns the result of the attempt that succeeds first. Its server is tried first from now on.

        Args:
            attempt: called with a server; raises PeerLost if the server fails.
            discard: closes the result of each further attempt that has succeeded.

        Raises:
            AllLost: every attempt failed.
        """

        async def with_server(server: Address) -> tuple[Address, T]:
            return server, await attempt(server)

        server, result = await race(
            [partial(with_server, server) for server in self._order], lambda success: discard(success[1])
        )
        self._put_first(server)
        return result

    def report_silent(self, peer: str) -> None:
        """Reports that a client has given up a connection on which `peer` (a `Stream.peer`) never responded.

        If `peer` is the first server, it becomes the last.
        """
        if str(self._order[0]) == peer:
            self._put_first(*self._order[1:])

    def _put_first(self, *servers: Address) -> None:
        """Puts these servers before all others."""
        before = self._order
        self._order = [*servers, *(server for server in before if server not in servers)]
        was, now = before[0], self._order[0]
        if was != now:
            level = self._log_throttle.level(f"{was} {now}")
            log(level, "another bootstrap server is tried first now", cluster=self._cluster, was=was, now=now)
