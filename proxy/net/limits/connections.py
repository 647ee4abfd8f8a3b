"""Limits on connections at the same time: in all, of a cluster, from an address.

A connection above a limit is closed at once rather than left in the backlog: so its client tries another broker, or
later, and does not wait for a response that never comes. A limit that is reached is logged once, and again only after
the connections have become clearly fewer. At most once a minute it is a warning: a client can reach it all day long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from logging import DEBUG, INFO, WARNING

from proxy.log import log
from proxy.net.log_throttle import LogThrottle

# once fewer than this share of the limit are open, reaching it is logged anew: not for each client that comes and goes
REARM_BELOW = 0.9


class TooManyConnections(Exception):
    """The limit is reached. Close the connection."""


class ConnectionLimit:
    """A limit on open connections: on all, or, if `admit` is given hosts, on those of each host.

    Args:
        limit: None admits every connection.
        of: the name of the limited cluster or clusters; the log names the host instead, if there is one.
    """

    def __init__(self, limit: int | None, of: str) -> None:
        self._limit = limit
        self._of = of
        self._open: Counter[str] = Counter()
        # hosts that have reached the limit, and the level at which that was logged
        self._reached: dict[str, int] = {}
        self._log_throttle = LogThrottle()

    @contextmanager
    def admit(self, host: str = "") -> Iterator[None]:
        """Counts one connection as open within `with`. Raises TooManyConnections."""
        self._enter(host)
        try:
            yield
        finally:
            self._leave(host)

    def _enter(self, host: str) -> None:
        if self._limit is not None and self._open[host] >= self._limit:
            self._log_reached(host)
            raise TooManyConnections
        self._open[host] += 1

    def _leave(self, host: str) -> None:
        self._open[host] -= 1
        open_now = self._open[host]
        if not open_now:
            del self._open[host]
        if host in self._reached and self._limit is not None and open_now < self._limit * REARM_BELOW:
            level = INFO if self._reached.pop(host) == WARNING else DEBUG
            log(level, "connections are let in again", limit=self._limit, of=host or self._of)

    def _log_reached(self, host: str) -> None:
        if host not in self._reached:
            level = self._reached[host] = self._log_throttle.level(host)
            log(level, "too many connections", limit=self._limit, of=host or self._of)
