"""Where sockets wait in `wait` mode: until the recorder has written enough to take more."""

from __future__ import annotations

import trio

from proxy.net.observer import Observer


class Room:
    """Many connections wait, one thread asks."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._asking = trio.Lock()

    async def wait(self) -> None:
        """Returns when the observer takes more."""
        async with self._asking:
            while self._observer.full:
                await trio.to_thread.run_sync(self._observer.wait_for_room, abandon_on_cancel=True)
