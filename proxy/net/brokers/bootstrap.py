"""A cluster's bootstrap servers, in the order in which they are tried.

At first the order is that of the settings. Attempts overlap: the next server is tried once the one before has failed,
or has taken longer than its head start (`race`). The server that succeeds first becomes the first in the order. The
first becomes the last if a client gives up a connection on which it never responded.
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
    """The servers of one cluster. `cluster`: its name, for the log."""

    def __init__(self, cluster: str, servers: tuple[Address, ...]) -> None:
        self._cluster = cluster
        self._order = list(servers)
        self._log_throttle = LogThrottle()

    @property
    def order(self) -> tuple[Address, ...]:
        """The servers in the order in which they are tried."""
        return tuple(self._order)

    async def first_success(self, attempt: Callable[[Address], Awaitable[T]], discard: Callable[[T], object]) -> T:
        """The result of the attempt that succeeds first; its server is tried first from now on.

        Args:
            attempt: raises PeerLost if a server fails.
            discard: closes the result of each other attempt that has succeeded too.

        Raises:
            AllLost: every attempt failed.
        """

        async def with_server(server: Address) -> tuple[Address, T]:
            return server, await attempt(server)

        server, found = await race(
            [partial(with_server, server) for server in self._order], lambda result: discard(result[1])
        )
        self._put_first(server)
        return found

    def report_silent(self, peer: str) -> None:
        """Makes the first server the last, if it never responded on a connection that a client has given up.

        Args:
            peer: the server's address, as in `Stream.peer`.
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
