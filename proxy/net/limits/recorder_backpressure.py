"""Backpressure of the recorder (setting `when_full = "wait"`): connections wait until the recorder takes more bytes."""

from __future__ import annotations

from contextlib import suppress

import trio

from proxy.observer import Observer


class RecorderBackpressure:
    """Lets connections wait until an observer takes more. All wait for one event, which the recorder sets."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._freed: trio.Event | None = None

    async def wait(self) -> None:
        """Returns when the observer takes more."""
        # other connections may have filled the recorder again
        while self._observer.must_wait:
            if self._freed is None:
                self._freed = trio.Event()
                self._request_wakeup(self._freed, trio.lowlevel.current_trio_token())
            await self._freed.wait()

    def _request_wakeup(self, freed: trio.Event, token: trio.lowlevel.TrioToken) -> None:
        def wake_all() -> None:
            self._freed = None
            freed.set()

        # called in the recorder's thread, or at once
        def schedule() -> None:
            # trio's loop may have ended meanwhile
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(wake_all)

        self._observer.when_not_full(schedule)
