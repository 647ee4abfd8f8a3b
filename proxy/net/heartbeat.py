"""A probe of the event loop: asked in another thread, and answered by the loop itself.

The admin page has a thread of its own: without the probe it would call a proxy alive that moves no bytes any more.
"""

from __future__ import annotations

import threading

import trio

# far longer than any turn of the loop; probes of Kubernetes wait one second by default
PROBE_SECONDS = 0.9


class Heartbeat:
    """The probe of the event loop in which it is made."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def probe(self) -> tuple[bool, str]:
        """Returns whether the loop answers, and the admin page's text. Called in another thread; blocks."""
        answered = threading.Event()
        try:
            self._token.run_sync_soon(answered.set)
        except trio.RunFinishedError:
            return False, "the event loop has ended"
        if not answered.wait(PROBE_SECONDS):
            return False, f"the event loop has not answered for {PROBE_SECONDS} s"
        return True, "alive"
