"""Limits on connections at the same time: in all, of a cluster, from an address.

A connection above a limit is closed at once rather than left in the backlog: its client learns of it, and tries another
broker or later; nobody waits for an answer that does not come. The log says so once, and again only after there was
room for a while; aloud once a minute, for a client with a few connections can go in and out all day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from logging import DEBUG, INFO, WARNING

from proxy.log import log
from proxy.net.log_throttle import LogThrottle

# room again: only then is a limit reached anew, rather than with each client that comes and goes
ROOM = 0.9


class TooManyConnections(Exception):
    """The limit is reached. Close the connection."""


class ConnectionLimit:
    """Connections at the same time, of each host on its own where hosts are named.

    Args:
        most: None lets everybody in.
        of: whose limit it is where no host is named, for the log.
    """

    def __init__(self, most: int | None, of: str) -> None:
        self._most = most
        self._of = of
        self._inside: Counter[str] = Counter()
        # hosts that have reached it, and how loud that was said
        self._full: dict[str, int] = {}
        self._log_throttle = LogThrottle()

    @contextmanager
    def place(self, host: str = "") -> Iterator[None]:
        """One is inside within `with`. Raises TooManyConnections."""
        self._enter(host)
        try:
            yield
        finally:
            self._leave(host)

    def _enter(self, host: str) -> None:
        if self._most is not None and self._inside[host] >= self._most:
            self._say_full(host)
            raise TooManyConnections
        self._inside[host] += 1

    def _leave(self, host: str) -> None:
        self._inside[host] -= 1
        inside = self._inside[host]
        if not inside:
            del self._inside[host]
        if host in self._full and self._most is not None and inside < self._most * ROOM:
            level = INFO if self._full.pop(host) == WARNING else DEBUG
            log(level, "connections are let in again", limit=self._most, of=host or self._of)

    def _say_full(self, host: str) -> None:
        if host not in self._full:
            level = self._full[host] = self._log_throttle.level(host)
            log(level, "too many connections", limit=self._most, of=host or self._of)
