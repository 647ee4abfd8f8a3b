"""Servers that serve in a thread, and handlers of HTTP that say nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import TCPServer
from threading import Thread
from typing import Any

# how often a server looks if it is to end
POLL_SECONDS = 0.05


class Quiet:
    """Before `BaseHTTPRequestHandler`, which would say on standard error what it is asked."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(server: TCPServer) -> Iterator[int]:
    """A server that is bound serves in a thread, within the block. Its port."""
    with server:
        thread = Thread(target=server.serve_forever, args=(POLL_SECONDS,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
