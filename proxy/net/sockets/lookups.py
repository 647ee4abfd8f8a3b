"""Looks host names up in threads of their own, because a look-up may take long. `server.py` installs `Lookups` in trio.

A look-up can't be cancelled, and takes half a minute if the name server is gone. So nothing else uses these threads
(at most `MAX_THREADS`), one thread looks a name up for all tasks that want it, and a cancelled task leaves at worst one
thread behind.
"""

from __future__ import annotations

import socket
from copy import copy
from functools import partial
from typing import Any

import trio

from proxy.net.blocking import in_thread
from proxy.threads import NoThread

# the most names that are looked up at a time; others wait their turn. A waiting thread costs little
MAX_THREADS = 64


class _Lookup:
    """A look-up under way, for `waiting` tasks. `result`: the addresses or the error; None: not known yet."""

    def __init__(self) -> None:
        self.waiting = 0
        self.ended = trio.Event()
        self.result: list[Any] | Exception | None = None


class Lookups(trio.abc.HostnameResolver):
    """The system's resolver, for `trio.socket.set_custom_hostname_resolver`. trio handles numeric addresses itself."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._threads = trio.CapacityLimiter(max_threads)
        self._under_way: dict[tuple[Any, ...], _Lookup] = {}

    async def getaddrinfo(
        self, host: bytes | None, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """As `socket.getaddrinfo`. The port must be a number."""
        lookup = self._join_or_start((host, None, family, type, proto, flags))
        lookup.waiting += 1
        try:
            await lookup.ended.wait()
        finally:
            lookup.waiting -= 1
        if isinstance(lookup.result, Exception):
            # a copy for each waiting task: each raise adds to the error's traceback
            raise copy(lookup.result)
        assert lookup.result is not None
        return [(*kind, (sockaddr[0], port, *sockaddr[2:])) for *kind, sockaddr in lookup.result]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Not implemented: the proxy looks up no names of addresses."""
        raise NotImplementedError

    def _join_or_start(self, query: tuple[Any, ...]) -> _Lookup:
        if query not in self._under_way:
            self._under_way[query] = _Lookup()
            # a system task: the caller's task may be cancelled while others wait for the look-up
            trio.lowlevel.spawn_system_task(self._run, query, self._under_way[query])
        return self._under_way[query]

    async def _run(self, query: tuple[Any, ...], lookup: _Lookup) -> None:
        blocking = partial(_look_up, query, lookup)
        await trio.lowlevel.checkpoint()
        while lookup.waiting and lookup.result is None:
            try:
                lookup.result = await in_thread(blocking, self._threads)
            except NoThread as error:
                # an error that ends a system task ends the whole proxy
                lookup.result = error
        del self._under_way[query]
        lookup.ended.set()


def _look_up(query: tuple[Any, ...], lookup: _Lookup) -> list[Any] | Exception | None:
    """Returns the addresses or the error of `socket.getaddrinfo`; None if no task waits for it any more. Blocks."""
    if not lookup.waiting:
        return None
    try:
        return socket.getaddrinfo(*query)
    except Exception as error:
        return error
