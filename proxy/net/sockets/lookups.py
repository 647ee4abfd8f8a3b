"""Looks host names up in threads of their own, because a resolver may take long.

A look-up can't be cancelled, and where the name server is gone each takes half a minute. So nothing else uses these
threads (`MAX_THREADS` of them), one thread looks a name up for all tasks that want it, and a cancelled task leaves at
worst one thread behind.
"""

from __future__ import annotations

import socket
from copy import copy
from functools import partial
from typing import Any

import trio

from proxy.net.blocking import in_thread
from proxy.threads import NoThread

# names that are looked up at a time; any others wait their turn. Threads that wait cost little
MAX_THREADS = 64


class _Lookup:
    """A look-up that is under way. `found`: the addresses, or the error; None: not known yet."""

    def __init__(self) -> None:
        self.waiting = 0
        self.ended = trio.Event()
        self.found: list[Any] | Exception | None = None


class Lookups(trio.abc.HostnameResolver):
    """The system's resolver, for trio (`trio.socket.set_custom_hostname_resolver`), which asks it for no numbers."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._threads = trio.CapacityLimiter(max_threads)
        self._under_way: dict[tuple[Any, ...], _Lookup] = {}

    async def getaddrinfo(
        self, host: bytes | None, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """As `socket.getaddrinfo`, for a port that is a number."""
        lookup = self._join_or_start((host, None, family, type, proto, flags))
        lookup.waiting += 1
        try:
            await lookup.ended.wait()
        finally:
            lookup.waiting -= 1
        if isinstance(lookup.found, Exception):
            # a copy for each task that waits: a traceback belongs to one
            raise copy(lookup.found)
        assert lookup.found is not None
        return [(*kind, (sockaddr[0], port, *sockaddr[2:])) for *kind, sockaddr in lookup.found]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Nobody asks: addresses are shown as they are."""
        raise NotImplementedError

    def _join_or_start(self, asked: tuple[Any, ...]) -> _Lookup:
        if asked not in self._under_way:
            self._under_way[asked] = _Lookup()
            # a system task: the caller's task may be cancelled while others wait for the look-up
            trio.lowlevel.spawn_system_task(self._run, asked, self._under_way[asked])
        return self._under_way[asked]

    async def _run(self, asked: tuple[Any, ...], lookup: _Lookup) -> None:
        blocking = partial(_look_up, asked, lookup)
        await trio.lowlevel.checkpoint()
        while lookup.waiting and lookup.found is None:
            try:
                lookup.found = await in_thread(blocking, self._threads)
            except NoThread as error:
                # an error that ends a system task ends the whole proxy
                lookup.found = error
        del self._under_way[asked]
        lookup.ended.set()


def _look_up(asked: tuple[Any, ...], lookup: _Lookup) -> list[Any] | Exception | None:
    """Looks a name up. Blocks. None: no task waits for it any more."""
    if not lookup.waiting:
        return None
    try:
        return socket.getaddrinfo(*asked)
    except Exception as error:
        return error
