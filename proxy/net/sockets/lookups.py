"""Names of hosts, looked up in threads that a resolver may keep for long without keeping anything else.

A look-up can't be cancelled, and where the name server is gone each takes half a minute. So these threads are no
others' (`PLACES` of them), one thread looks a name up for all who want it, and whoever is cancelled leaves nothing
behind but, at worst, one thread for a name.
"""

from __future__ import annotations

import socket
from copy import copy
from functools import partial
from typing import Any

import trio

from proxy.net.blocking import in_thread
from proxy.threads import NoThread

# names that are looked up at a time; beyond these a name waits its turn. Threads that wait cost little
PLACES = 64


class _Lookup:
    """One that is under way. `found`: what there is, or why there is nothing; None: not known yet."""

    def __init__(self) -> None:
        self.waiting = 0
        self.ended = trio.Event()
        self.found: list[Any] | Exception | None = None


class Lookups(trio.abc.HostnameResolver):
    """The system's resolver, for trio (`trio.socket.set_custom_hostname_resolver`), which asks it for no numbers."""

    def __init__(self, places: int = PLACES) -> None:
        self._places = trio.CapacityLimiter(places)
        self._under_way: dict[tuple[Any, ...], _Lookup] = {}

    async def getaddrinfo(
        self, host: bytes | None, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        """As `socket.getaddrinfo`, for a port that is a number."""
        lookup = self._begun((host, None, family, type, proto, flags))
        lookup.waiting += 1
        try:
            await lookup.ended.wait()
        finally:
            lookup.waiting -= 1
        if isinstance(lookup.found, Exception):
            # its own for each who waits: a traceback belongs to one
            raise copy(lookup.found)
        assert lookup.found is not None
        return [(*kind, (where[0], port, *where[2:])) for *kind, where in lookup.found]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Nobody asks: addresses are shown as they are."""
        raise NotImplementedError

    def _begun(self, asked: tuple[Any, ...]) -> _Lookup:
        if asked not in self._under_way:
            self._under_way[asked] = _Lookup()
            # nobody's task: who begins it may be cancelled while others wait for it
            trio.lowlevel.spawn_system_task(self._run, asked, self._under_way[asked])
        return self._under_way[asked]

    async def _run(self, asked: tuple[Any, ...], lookup: _Lookup) -> None:
        look = partial(_look_up, asked, lookup)
        await trio.lowlevel.checkpoint()
        while lookup.waiting and lookup.found is None:
            try:
                lookup.found = await in_thread(look, self._places)
            except NoThread as error:
                # nobody's task may end by an error: all of the proxy would
                lookup.found = error
        del self._under_way[asked]
        lookup.ended.set()


def _look_up(asked: tuple[Any, ...], lookup: _Lookup) -> list[Any] | Exception | None:
    """Blocks. None: nobody waits for it any more."""
    if not lookup.waiting:
        return None
    try:
        return socket.getaddrinfo(*asked)
    except Exception as error:
        return error
