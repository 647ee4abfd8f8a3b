"""A server of the standard library that serves each connection in a thread, so many at a time at most.

Peers may be many, and the machine may have no more threads or files: then connections are closed, and later ones are
served again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any

from proxy.threads import no_thread

# the most connections at a time; further ones are closed at once
MAX_CONNECTIONS = 64
# the pause in seconds after accept() has failed, because too many files are open: one may be closed meanwhile
ACCEPT_PAUSE = 0.1


class LimitedThreads(ThreadingMixIn):
    """Stands before a `socketserver.BaseServer` among the bases of a class."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._free_slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(*arguments)

    def get_request(self) -> Any:
        """Returns the next connection. Raises OSError, after a pause, if none can be accepted for now."""
        accept: Callable[[], Any] = super().get_request  # type: ignore[misc]
        try:
            return accept()
        except OSError:
            time.sleep(ACCEPT_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves a connection in a thread. Closes it if there are too many. Raises NoThread."""
        if not self._free_slots.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[attr-defined]
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError as error:
            # without a thread, `process_request_thread` will not free the slot
            self._free_slots.release()
            raise no_thread() from error

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_slots.release()
