"""Busy polling: looks for events again and again instead of sleeping until they come, as long as that mostly pays.

A processor takes longer to fall asleep and wake up than the proxy takes for a small exchange, most of all in a virtual
machine, and its caches are cold afterwards. So an exchange can take less of a processor with busy polling than without.
Where events mostly take longer to come, busy polling is a waste, and stops.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

clock = time.monotonic

# seconds that a busy poll lasts: a broker on the same machine answers a small request within them
MAX_SPIN_SECONDS = 0.0002
# four busy polls out of five have to pay: one in vain costs the credit that so many others earn; credit for a few
MISS_COST, MAX_CREDIT = 4, 16
# waits after which busy polling is tried again
WAITS_WITHOUT_SPINNING = 64

# descriptors and what the kernel says of them, as `select.epoll.poll` has them
Events = list[tuple[int, int]]


class Polling:
    """Waits for events with `poll`, which takes a time in seconds and how many events at most.

    busy: whether it may poll busily.
    """

    def __init__(self, poll: Callable[[float, int], Events]) -> None:
        self.busy = True
        self._poll = poll
        # above zero: what busy polling has earned lately; else: how many waits are left until it is tried again
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
            # these were there already, which says nothing about busy polling
            return events
        until = clock() + MAX_SPIN_SECONDS
        while True:
            # other processes that want this processor go first
            os.sched_yield()
            events = poll(0, max_events)
            # checked after the poll: if others kept the processor, these events have waited for it
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
