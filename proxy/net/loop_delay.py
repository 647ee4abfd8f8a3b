"""Measures how late the event loop is: how long after the wanted time a sleeping task wakes.

A loop that is late makes all connections of the process wait: it has too much to do, something blocks it, or other
processes have the processor.
"""

from __future__ import annotations

import trio

from proxy.metrics.durations import Durations

# a wake-up of a process that sleeps costs more than the measurement
INTERVAL_SECONDS = 0.5
NS_PER_SECOND = 1e9


async def measure_loop_delay(delays: Durations) -> None:
    """Measures regularly, until cancelled."""
    while True:
        due = trio.current_time() + INTERVAL_SECONDS
        await trio.sleep_until(due)
        delays.add(round((trio.current_time() - due) * NS_PER_SECOND))
