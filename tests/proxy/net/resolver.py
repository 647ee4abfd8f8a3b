"""Replaces the system's resolver for test names, whose lookups hang on request."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.proxy.net.peers import HOST, PATIENCE


class SystemResolver:
    """A resolver: `hangs….invalid` hangs until `go_on` is set, `nobody….invalid` is unknown, other names are local."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.go_on = threading.Event()
        self._real = socket.getaddrinfo

    def getaddrinfo(
        self, host: str | bytes, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        if flags & socket.AI_NUMERICHOST:
            return self._real(host, port, family, type, proto, flags)
        name = host if isinstance(host, str) else host.decode()
        self.asked[name] += 1
        if name.startswith("hangs"):
            assert self.go_on.wait(PATIENCE)
        if name.startswith("nobody"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._real(HOST, port, family, type, proto, flags)


@contextmanager
def system_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[SystemResolver]:
    """Replaces the resolver of this process within the block."""
    system = SystemResolver()
    monkeypatch.setattr(socket, "getaddrinfo", system.getaddrinfo)
    try:
        yield system
    finally:
        system.go_on.set()
