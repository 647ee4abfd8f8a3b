"""A cluster's bootstrap servers, in the order in which they are tried.

They are tried in the order of the settings until one fails. From then on the server that answered last comes first, as
long as it answers. A server that accepts connections and never answers on them comes last.
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

    async def first(self, attempt: Callable[[Address], Awaitable[T]], discard: Callable[[T], object]) -> T:
        """The result of the first attempt that succeeds with a server; see `race`. Raises AllLost."""

        async def answered(server: Address) -> tuple[Address, T]:
            return server, await attempt(server)

        server, found = await race(
            [partial(answered, server) for server in self._order], lambda result: discard(result[1])
        )
        self._prefer(server)
        return found

    def report_silent(self, peer: str) -> None:
        """A client has given up a broker that never answered: if it comes first here, it now comes last.

        Args:
            peer: the broker's address, as in `Stream.peer`.
        """
        if str(self._order[0]) == peer:
            self._prefer(*self._order[1:])

    def _prefer(self, *servers: Address) -> None:
        before = self._order
        self._order = [*servers, *(server for server in before if server not in servers)]
        was, now = before[0], self._order[0]
        if was != now:
            level = self._log_throttle.level(f"{was} {now}")
            log(level, "another bootstrap server is tried first now", cluster=self._cluster, was=was, now=now)
