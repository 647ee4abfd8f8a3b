"""Limits on open connections: of the whole proxy, of a cluster, from a client's address. Used by `cluster.py`.

A connection above a limit is closed at once, so its client tries another broker or tries again later. Left in the
backlog, the client would wait for a response that never comes. A limit that is reached is logged once, and again only
after enough connections have ended (`REARM_BELOW`). Clients can reach a limit all day, so the event of a limit and
host is a warning at most once a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from logging import DEBUG, INFO, WARNING

from proxy.log import log
from proxy.net.log_throttle import LogThrottle

# once fewer connections are open than this share of the limit, reaching the limit is logged again
REARM_BELOW = 0.9


class TooManyConnections(Exception):
    """A limit on connections is reached. Close the new connection."""


class ConnectionLimit:
    """A limit on open connections; if `admit` is given a host, on the connections of that host.

    Args:
        limit: None admits every connection.
        of: the limited cluster or clusters, for the log; if `admit` is given a host, the log names that host.
        setting: the key of the settings that holds the limit, for the log.
    """

    def __init__(self, limit: int | None, of: str, setting: str) -> None:
        self._limit = limit
        self._of = of
        self._setting = setting
        self._open: Counter[str] = Counter()
        # host that has reached the limit -> the level at which that was logged
        self._reached: dict[str, int] = {}
        self._log_throttle = LogThrottle()

    @contextmanager
    def admit(self, host: str = "", *, client: str = "") -> Iterator[None]:
        """Counts one connection as open within `with`. `client`: its peer, for the log. Raises TooManyConnections."""
        self._enter(host, client)
        try:
            yield
        finally:
            self._leave(host)

    def _enter(self, host: str, client: str) -> None:
        if self._limit is not None and self._open[host] >= self._limit:
            self._log_reached(host, client)
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

    def _log_reached(self, host: str, client: str) -> None:
        if host not in self._reached:
            level = self._reached[host] = self._log_throttle.level(host)
            of = host or self._of
            log(level, "too many connections", client=client, limit=self._limit, of=of, setting=self._setting)
