"""Backpressure of the recorder, in `wait` mode: sockets wait until it has written enough to take more."""

from __future__ import annotations

from contextlib import suppress

import trio

from proxy.net.observer import Observer


class RecorderBackpressure:
    """Many connections wait for one event, which the recorder's own thread sets: no thread has to wait."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._freed: trio.Event | None = None

    async def wait(self) -> None:
        """Returns when the observer takes more."""
        while self._observer.full:
            if self._freed is None:
                self._freed = trio.Event()
                self._ask(self._freed, trio.lowlevel.current_trio_token())
            await self._freed.wait()

    def _ask(self, freed: trio.Event, token: trio.lowlevel.TrioToken) -> None:
        def free() -> None:
            self._freed = None
            freed.set()

        def tell() -> None:
            # the proxy may have ended meanwhile
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(free)

        self._observer.when_not_full(tell)
