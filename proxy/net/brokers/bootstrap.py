"""A cluster's bootstrap servers: which of them is tried first.

The order of the settings, until one of them fails: from then on the server that answered last comes first, as long as
it answers. A server that takes connections and leaves its clients without an answer comes last.
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
    """The servers of one cluster, whose name is for the log."""

    def __init__(self, cluster: str, servers: tuple[Address, ...]) -> None:
        self._cluster = cluster
        self._order = list(servers)
        self._log_throttle = LogThrottle()

    @property
    def order(self) -> tuple[Address, ...]:
        """Who is tried first, and who then."""
        return tuple(self._order)

    async def first(self, attempt: Callable[[Address], Awaitable[T]], lose: Callable[[T], object]) -> T:
        """What an attempt gives that succeeds with a server; see `race`. Raises AllLost."""

        async def answered(server: Address) -> tuple[Address, T]:
            return server, await attempt(server)

        server, found = await race(
            [partial(answered, server) for server in self._order], lambda result: lose(result[1])
        )
        self._prefer(server)
        return found

    def was_silent(self, peer: str) -> None:
        """A client has given up a broker that had not said a word: others are tried before it, if it is one of these.

        Args:
            peer: its address, as a stream tells it.
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
