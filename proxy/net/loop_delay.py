"""Measures how late the event loop is: how long after the wanted time a sleeping task wakes.

A loop that is late makes all connections of the process wait: it has too much to do, something blocks it, or other
processes have the processor.
"""

from __future__ import annotations

import trio

from proxy.metrics.durations import Durations

# one measurement takes some 50 microseconds of a processor
INTERVAL_SECONDS = 0.1
NS_PER_SECOND = 1e9


async def measure_loop_delay(delays: Durations) -> None:
    """Measures regularly, until cancelled."""
    while True:
        due = trio.current_time() + INTERVAL_SECONDS
        await trio.sleep_until(due)
        delays.add(round((trio.current_time() - due) * NS_PER_SECOND))
