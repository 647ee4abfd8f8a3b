"""What systemd is told of the proxy, if it wants to know: sd_notify(3), sd_watchdog_enabled(3).

A datagram of a few lines to the socket that it names. No library: the one that there is knows no watchdog. What can't
be told changes nothing for the traffic, so it is said once and left.
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
    """The service manager, if there is one. `environment`: where it says how it wants to be told."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        socket_name = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for the NUL that an abstract socket's name begins with
        self._where = "\0" + socket_name[1:] if socket_name.startswith("@") else socket_name
        self._watchdog = _watchdog_seconds(environment)
        self._failed = False

    def ready(self) -> None:
        """Everything listens, or the settings have been read again."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """The settings are read again; `ready` comes next, whether they were right or not."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, seconds: float) -> None:
        """It will take so long at most; systemd would kill sooner what it was not told of."""
        # no larger number than systemd reads
        self._tell("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(min(seconds * USEC, 2**63))}")

    async def keep_alive(self) -> None:
        """Says that the event loop runs, twice in the time that systemd allows. Runs until cancelled, if asked for."""
        while self._watchdog is not None:
            self._tell("WATCHDOG=1")
            await trio.sleep(self._watchdog / 2)

    def _tell(self, *lines: str) -> None:
        if not self._where:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                sock.sendto("\n".join(lines).encode(), self._where)
        except OSError as error:
            if not self._failed:
                log(WARNING, "systemd can't be told", told=lines[0], reason=error.strerror)
            self._failed = True


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """How long it may be silent; None if nobody watches, or somebody watches another process."""
    allowed, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not allowed.isdecimal() or int(allowed) == 0 or (process and process != str(os.getpid())):
        return None
    return int(allowed) / USEC
