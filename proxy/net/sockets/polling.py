"""Busy polling: asks epoll again and again, instead of sleeping until an event comes.

A processor takes longer to fall asleep and wake up than the proxy takes for a small exchange, most of all in a virtual
machine, and its caches are cold afterwards. So an exchange can take less of a processor with busy polling than without.
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
# after so many waits that sleep, busy polling is tried again
WAITS_WITHOUT_SPINNING = 64

# (file descriptor, event mask), as `select.epoll.poll` returns them
Events = list[tuple[int, int]]


class Polling:
    """Waits for events with `poll`, which takes a timeout in seconds and the maximum number of events.

    busy: False if the settings forbid busy polling.
    """

    def __init__(self, poll: Callable[[float, int], Events]) -> None:
        self.busy = True
        self._poll = poll
        # above 0: busy polling is on, with this credit. Otherwise it pauses; each wait adds 1 until it is on again
        self._credit = 1

    def wait(self, seconds: float, max_events: int) -> Events:
        """Returns at most `max_events` events; none if none has come within `seconds`."""
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
            # other processes that want this processor go first
            os.sched_yield()
            events = poll(0, max_events)
            # read after the poll: an event that comes while another process keeps the processor is no hit
            late = clock() >= until
            if events and not late:
                self._credit = min(self._credit + 1, MAX_CREDIT)
                return events
            if events or late:
                break
        self._credit -= MISS_COST
        if self._credit <= 0:
            self._credit = -WAITS_WITHOUT_SPINNING
        return events
