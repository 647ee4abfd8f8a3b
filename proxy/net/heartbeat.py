"""Whether the event loop runs, and how late it is.

For /livez, another thread waits for the loop to respond. The admin page has threads of its own, so without that it
would call a proxy alive whose event loop hangs. For the metrics, a task measures how long after the wanted time it
wakes. A loop that is late makes all connections of the process wait: it has too much to do, something blocks it, or
other processes have the processor.
"""

from __future__ import annotations

import threading

import trio

from proxy.metrics.durations import Durations

# far longer than any turn of the loop; shorter than the one second that probes of Kubernetes wait by default
PROBE_SECONDS = 0.9
# a wake-up of a process that sleeps costs more than the measurement
INTERVAL_SECONDS = 0.5
NS_PER_SECOND = 1e9


class Heartbeat:
    """The probe of the event loop in which it is made."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def probe(self) -> tuple[bool, str]:
        """Returns True if the loop responds, and a line of text for the page. Called in another thread; blocks."""
        answered = threading.Event()
        try:
            self._token.run_sync_soon(answered.set)
        except trio.RunFinishedError:
            return False, "the event loop has ended"
        if not answered.wait(PROBE_SECONDS):
            return False, f"the event loop has not answered for {PROBE_SECONDS} s"
        return True, "alive"


async def measure_loop_delay(delays: Durations) -> None:
    """Measures regularly, until cancelled."""
    while True:
        due = trio.current_time() + INTERVAL_SECONDS
        await trio.sleep_until(due)
        delays.add(round((trio.current_time() - due) * NS_PER_SECOND))
