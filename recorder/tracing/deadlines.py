"""Ends a request of urllib3 at a deadline, from the connection on, whatever its peer sends.

urllib3's own limits are for each piece that is read, so a peer that drips bytes would hold the asking thread for ever.
Here a second thread shuts the connection down at the deadline, and the asking thread reads its end. It can't shut down
what comes before: the lookup of a name, and connects to its addresses, for each of which urllib3's limit holds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from proxy.threads import begin


@contextmanager
def cut_after(seconds: float) -> Iterator[Line]:
    """Within the block, what this thread asks by connections of POOLS ends after so many seconds.

    That holds from the connection on: to look up a name and to connect may take longer.

    Errors: NoThread.
    """
    line = Line()
    timer = threading.Timer(max(seconds, 0), line.cut)
    timer.daemon = True
    begin(timer)
    _OF_THREAD.line = line
    try:
        yield line
    finally:
        timer.cancel()
        line.close()
        _OF_THREAD.line = None


class Line:
    """The newest connection that a thread asks by within a block. Another thread cuts it. `is_cut`: it has."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # a descriptor of its own: an answer may be read when its connection's is closed
        self._handle: socket | None = None
        self.is_cut = False

    def use(self, connection: socket) -> None:
        """A connection of which something is awaited now."""
        with self._lock:
            self._close()
            self._handle = socket(fileno=os.dup(connection.fileno()))
            if self.is_cut:
                self._shut_down()

    def cut(self) -> None:
        """Ends the connection, and all that follow."""
        with self._lock:
            self.is_cut = True
            self._shut_down()

    def close(self) -> None:
        """Leaves the connection as it is."""
        with self._lock:
            self._close()

    def _shut_down(self) -> None:
        if self._handle is not None:
            # the peer may have closed it
            with suppress(OSError):
                self._handle.shutdown(SHUT_RDWR)

    def _close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


class _OfThread(threading.local):
    """What the calling thread asks by; None outside of a block."""

    line: Line | None = None


_OF_THREAD = _OfThread()


def _used(connection: socket) -> socket:
    if _OF_THREAD.line is not None:
        _OF_THREAD.line.use(connection)
    return connection


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket:
        # before TLS, whose handshake may drip, too
        return _used(super()._new_conn())

    def request(self, *given: Any, **named: Any) -> None:
        """Sends a request, maybe on a connection that was used before."""
        if self.sock is not None:
            _used(self.sock)
        super().request(*given, **named)


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


# by a URL's scheme; for `PoolManager.pool_classes_by_scheme`
POOLS: dict[str, type] = {"http": _Pool, "https": _SecurePool}
