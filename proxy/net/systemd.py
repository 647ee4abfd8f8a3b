"""Notifies systemd of the proxy's state, if systemd asks for that: sd_notify(3), sd_watchdog_enabled(3).

A notification is a datagram of a few lines to the socket that systemd names: no library is needed. The
first notification that fails is logged; the traffic goes on.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from logging import WARNING

import trio

from proxy.log import log

USEC = 1_000_000


class Systemd:
    """The service manager; without one, methods do nothing. `environment`: holds the variables that systemd sets."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        socket_name = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for the NUL that an abstract socket's name begins with
        self._address = "\0" + socket_name[1:] if socket_name.startswith("@") else socket_name
        self._watchdog = _watchdog_seconds(environment)
        self._failed = False

    def ready(self) -> None:
        """Notifies: all listeners are open, or a reload has ended."""
        self._notify("READY=1")

    def reloading(self) -> None:
        """Notifies: a reload has begun. `ready` must follow, whether the reload succeeds or fails."""
        self._notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, seconds: float) -> None:
        """Notifies: the stop takes `seconds` at most. Without this, systemd may kill the process sooner."""
        # systemd ignores a number of more than 64 bits
        self._notify("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(min(seconds * USEC, 2**63))}")

    async def keep_alive(self) -> None:
        """Sends two keep-alives in each watchdog period, until cancelled. Returns at once if there is no watchdog."""
        while self._watchdog is not None:
            self._notify("WATCHDOG=1")
            await trio.sleep(self._watchdog / 2)

    def _notify(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._failed:
                log(WARNING, "systemd can't be notified", notification=lines[0], reason=error.strerror)
            self._failed = True


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """The watchdog period; None if systemd does not watch this process."""
    allowed, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not allowed.isdecimal() or int(allowed) == 0 or (process and process != str(os.getpid())):
        return None
    return int(allowed) / USEC
