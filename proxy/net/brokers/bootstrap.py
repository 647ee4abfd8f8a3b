"""A cluster's bootstrap servers, in the order in which they are tried.

At first that is the order of the settings. Whenever a later server succeeds before the first one (`race`: the first one
fails, or takes longer than its head start), that server becomes the first. A first server that accepts a connection and
never responds on it becomes the last.
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
        """The result of the first successful attempt; its server is tried first from now on.

        Args:
            attempt: raises PeerLost if a server fails.
            discard: closes the result of another attempt that succeeded too.

        Raises:
            AllLost: every attempt failed.
        """

        async def with_server(server: Address) -> tuple[Address, T]:
            return server, await attempt(server)

        server, found = await race(
            [partial(with_server, server) for server in self._order], lambda result: discard(result[1])
        )
        self._prefer(server)
        return found

    def report_silent(self, peer: str) -> None:
        """A client has given up a broker that never responded: if that server is the first, it becomes the last.

        Args:
            peer: the broker's address, as in `Stream.peer`.
        """
        if str(self._order[0]) == peer:
            self._prefer(*self._order[1:])

    def _prefer(self, *servers: Address) -> None:
        """Puts these servers before all others."""
        before = self._order
        self._order = [*servers, *(server for server in before if server not in servers)]
        was, now = before[0], self._order[0]
        if was != now:
            level = self._log_throttle.level(f"{was} {now}")
            log(level, "another bootstrap server is tried first now", cluster=self._cluster, was=was, now=now)
