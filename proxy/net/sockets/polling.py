"""Looking again and again for what comes next instead of sleeping until it comes, for as long as that mostly pays.

To fall asleep and to be woken takes a processor longer than the proxy takes for a small exchange, most of all in a
virtual machine, and its caches are cold afterwards: so much so that an exchange that is looked out for can take less of
a processor, the looking included. Where what comes next mostly takes its time, looking out for it is a waste, and ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

clock = time.monotonic

# so long it goes on, in seconds: a broker on the same machine answers a small request within it
LONGEST = 0.0002
# four times out of five it has to pay: a vain look costs as much credit as so many others earn, up to that for a few
VAIN, MOST_CREDIT = 4, 16
# waits after which it is tried again
REST = 64

# descriptors and what the kernel says of them, as `select.epoll.poll` has them
Events = list[tuple[int, int]]


class Polling:
    """Waits for events with `poll`, which takes a time in seconds and how many events at most.

    busy: whether it may look again and again.
    """

    def __init__(self, poll: Callable[[float, int], Events]) -> None:
        self.busy = True
        self._poll = poll
        # what it has gained of late; below zero, how many waits are left until it is tried again
        self._credit = 1

    def wait(self, seconds: float, most: int) -> Events:
        """At most so many events; none if none has come for so long."""
        if self.busy and seconds:
            if self._credit > 0:
                return self._look(most) or self._poll(seconds, most)
            self._credit += 1
        return self._poll(seconds, most)

    def _look(self, most: int) -> Events:
        poll = self._poll
        events = poll(0, most)
        if events:
            # it was there already, which says nothing
            return events
        until = clock() + LONGEST
        while True:
            # whoever else wants this processor goes first
            os.sched_yield()
            events = poll(0, most)
            # asked afterwards: where others kept the processor, what is found now has waited for it
            late = clock() >= until
            if events and not late:
                self._credit = min(self._credit + 1, MOST_CREDIT)
                return events
            if events or late:
                break
        self._credit -= VAIN
        if self._credit <= 0:
            self._credit = -REST
        return events
