"""A probe of the event loop, for the admin page's /livez: another thread waits for the loop to respond.

The admin page has threads of its own, so without the probe it would call a proxy alive whose event loop hangs.
"""

from __future__ import annotations

import threading

import trio

# far longer than any turn of the loop; shorter than the one second that probes of Kubernetes wait by default
PROBE_SECONDS = 0.9


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
