"""Whether the event loop runs: asked from another thread, and answered by the loop itself.

A page that is served by a thread of its own would say "alive" of a proxy that moves no byte any more.
"""

from __future__ import annotations

import threading

import trio

# far longer than any turn of the loop; probes of Kubernetes wait one second by default
PATIENCE = 0.9


class Heartbeat:
    """Made in the event loop that it asks."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def probe(self) -> tuple[bool, str]:
        """Whether it runs, and in words. Called in any other thread; blocks."""
        answered = threading.Event()
        try:
            self._token.run_sync_soon(answered.set)
        except trio.RunFinishedError:
            return False, "the event loop has ended"
        if not answered.wait(PATIENCE):
            return False, f"the event loop has not answered for {PATIENCE} s"
        return True, "alive"
