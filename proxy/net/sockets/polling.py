"""Busy polling: `Reactor` calls epoll again and again for a short time, instead of sleeping until an event comes.

A processor takes longer to fall asleep and wake up than the proxy takes for a small exchange, most of all in a virtual
machine, and its caches are cold afterwards. So an exchange can cost less processor time with busy polling than without.
A busy poll is a hit if an event comes while it lasts, else a miss. After too many misses, busy polling pauses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

clock = time.monotonic

# the longest busy poll: a broker on the same machine answers a small request within it
MAX_SPIN_SECONDS = 0.0002
# a hit earns 1 credit, so four busy polls out of five must be hits; the maximum lasts for four misses in a row
MISS_COST, MAX_CREDIT = 4, 16
# the length of a pause of busy polling, in waits
WAITS_WITHOUT_SPINNING = 64

# (file descriptor, event mask), as `select.epoll.poll` returns them
Events = list[tuple[int, int]]


class Polling:
    """Waits for events. `poll`: `select.epoll.poll`, which takes a timeout in seconds and a maximum of events.

    busy: False turns busy polling off.
    """

    def __init__(self, poll: Callable[[float, int], Events]) -> None:
        self.busy = True
        self._poll = poll
        # above 0: busy polling is on. Otherwise it pauses, and each wait adds 1
        self._credit = 1

    def wait(self, seconds: float, max_events: int) -> Events:
        """Returns at most `max_events` events; [] if none has come within `seconds`.

        The seconds count from the end of the busy poll, so the wait may take MAX_SPIN_SECONDS longer.
        """
        if self.busy and seconds:
            if self._credit > 0:
                return self._spin(max_events) or self._poll(seconds, max_events)
            self._credit += 1
        return self._poll(seconds, max_events)

    def _spin(self, max_events: int) -> Events:
        poll = self._poll
        events = poll(0, max_events)
        if events:
            # neither hit nor miss: these events were there already
            return events
        until = clock() + MAX_SPIN_SECONDS
        while True:
            # lets other processes use this processor first
            os.sched_yield()
            events = poll(0, max_events)
            # measured after the poll, so an event is no hit if another process has had the processor for too long
            late = clock() >= until
            if events and not late:
                self._credit = min(self._credit + 1, MAX_CREDIT)
                return events
            if events or late:
                break
        self._credit -= MISS_COST
        if self._credit <= 0:
            self._credit = 1 - WAITS_WITHOUT_SPINNING
        return events
