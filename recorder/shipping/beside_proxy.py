"""Shipping as the proxy sees it: the command of the process, and its numbers. Knows no SDK."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

from proxy.files import Folder
from recorder.capture.lag import StatusReader
from recorder.capture.lock import is_locked
from recorder.capture.session import CaptureSettings
from recorder.capture.shipped import FRESH_NS, SHIP_FOLDER, SHIP_LOCK, ShipStatus, read_status

# the counter of a cause's failures is named so, and then by the cause (`proxy.metrics.table`)
FAILURES = "ship_failures."


class _Seen(NamedTuple):
    status: ShipStatus
    runs: bool


class ShippingMetrics:
    """The numbers of shipping, by the names of the metrics' table."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._folder = settings.folder
        self._reader = StatusReader(self._look, _Seen(ShipStatus(), False))
        self._began_ns = time.time_ns()
        self._restarts = 0

    def ended(self) -> None:
        """Notes that the process has ended; the proxy starts it again."""
        self._restarts += 1

    def counters(self) -> Mapping[str, float]:
        """All numbers. Called in any thread."""
        status, runs = self._reader.newest()
        now_ns = time.time_ns()
        since_ns = status.oldest_ns
        if not runs or now_ns - status.at_ns > FRESH_NS:
            # what was published since the last status may wait, too
            since_ns = since_ns or status.at_ns or self._began_ns
        return {
            "shipped_files": status.files,
            "shipped_bytes": status.bytes,
            "ship_lag_files": status.waiting_files,
            "ship_lag_bytes": status.waiting_bytes,
            "ship_lag_seconds": max(now_ns - since_ns, 0) / 1e9 if since_ns else 0.0,
            "ship_failing": float(bool(status.failing)),
            "shipper_runs": float(runs),
            "shipper_restarts": self._restarts,
            **{FAILURES + cause: number for cause, number in status.failures.items()},
        }

    def _look(self) -> _Seen:
        try:
            with Folder.at(self._folder) as capture, capture.folder(SHIP_FOLDER) as ship:
                runs = is_locked(ship, SHIP_LOCK)
        except OSError:
            runs = False
        return _Seen(read_status(self._folder) or ShipStatus(), runs)


def shipper_command(settings: CaptureSettings) -> list[str]:
    """The command line of the process that ships this capture beside the proxy, which is this process.

    It has paths and addresses, and no secret.
    """
    assert settings.ship is not None
    command = [sys.executable, "-P", "-m", "recorder.shipping.process", str(settings.folder), settings.ship]
    options = {
        "--proxy": os.getpid(),
        "--endpoint": settings.ship_endpoint,
        "--region": settings.ship_region,
        "--credentials": settings.ship_credentials,
    }
    return command + [str(word) for option, value in options.items() if value is not None for word in (option, value)]
