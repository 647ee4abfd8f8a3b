"""Asks over HTTP, and has an answer or none at a deadline, whatever the peer sends.

The limits of requests are for each piece that is read, so a peer that drips bytes would hold whoever asks for ever.
Here a thread asks. At the deadline its connection is shut down, and it reads the end. Nothing ends the lookup of a name
or a connect, so a thread that has no connection yet is left behind: the limits of the system, and of requests, end it.
So is one that asks by a SOCKS proxy, whose connections are made elsewhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import ContextVar
from socket import SHUT_RDWR, socket
from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from proxy.threads import start_thread

Found = TypeVar("Found")


class Line:
    """The newest connection of a request. `is_cut`: its deadline has passed; what is read then may lack its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # a descriptor of its own: an answer may be read when its connection's is closed
        self._handle: socket | None = None
        self.is_cut = False

    def use(self, connection: socket | None) -> None:
        """Notes the connection of which something is awaited now; None: nothing is any more."""
        with self._lock:
            if self._handle is not None:
                self._handle.close()
            self._handle = None if connection is None else socket(fileno=os.dup(connection.fileno()))
            if self.is_cut:
                self._shut_down()

    def cut(self) -> bool:
        """Ends the connection, and all that follow. Returns False if there is none yet. Called in another thread."""
        with self._lock:
            self.is_cut = True
            self._shut_down()
            return self._handle is not None

    def _shut_down(self) -> None:
        if self._handle is not None:
            # the peer may have closed it
            with suppress(OSError):
                self._handle.shutdown(SHUT_RDWR)


# what the calling thread asks by; None outside of `within`
_LINE: ContextVar[Line | None] = ContextVar("line", default=None)


def within(seconds: float, ask: Callable[[Line], Found]) -> Found:
    """What `ask` returns, in a thread of its own. It makes one request, by a `Session`.

    Errors: NoThread; those of `ask` before the deadline; TimeoutError for all later ones. `ask` may return after it
    has been cut: `Line.is_cut` tells.
    """
    line, found = Line(), Future[Found]()

    def run() -> None:
        _LINE.set(line)
        try:
            found.set_result(ask(line))
        except BaseException as error:
            found.set_exception(error)
        finally:
            line.use(None)

    start_thread(run, "HTTP request")
    if wait([found], max(seconds, 0)).done:
        return found.result()
    # with a connection that is cut, the thread's end is near
    if line.cut() and found.exception() is None:
        return found.result()
    raise TimeoutError("its answer takes too long")


def _used(connection: socket) -> socket:
    if (line := _LINE.get()) is not None:
        line.use(connection)
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


# by a URL's scheme
_POOLS: dict[str, type] = {"http": _Pool, "https": _SecurePool}


class _Adapter(HTTPAdapter):
    """Asks by connections that `within` can cut."""

    def init_poolmanager(self, *given: Any, **named: Any) -> None:
        """Makes the connections' pools."""
        super().init_poolmanager(*given, **named)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:
        """The pools of connections by a proxy that the environment names."""
        manager = super().proxy_manager_for(proxy, **named)
        # the pools of a SOCKS proxy make connections of their own kind, with its options
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = _POOLS
        return manager


class Session(requests.Session):
    """Asks one peer alone, without following it elsewhere. Answers' bodies are read by whoever wants them."""

    def __init__(self) -> None:
        super().__init__()
        # without its own, requests would put credentials of ~/.netrc in place of a given Authorization
        self.auth = lambda request: request
        for scheme in _POOLS:
            self.mount(f"{scheme}://", _Adapter())

    def request(self, *given: Any, **named: Any) -> requests.Response:
        """Makes a request; called within `within`. Errors: RequestException."""
        return super().request(*given, **named | {"allow_redirects": False, "stream": True})
