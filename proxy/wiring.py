"""Connects the recorder with the proxy, for the command line (`cli.py`) and for a worker's process (`worker.py`).

`proxy.net` takes an observer, a child command and a companion; this module makes all three from the recorder. The
recorder is imported only if traffic is recorded: a proxy that doesn't record starts without it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.config import ProxySettings
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting

if TYPE_CHECKING:
    from proxy.net.children import Companion
    from proxy.observer import Observer
    from recorder.capture.session import CaptureSettings

# The command that starts a worker's process. -P: Python looks for no module in the current folder, here and wherever
# a process of our own is started.
WORKER_COMMAND = (sys.executable, "-P", "-m", "proxy.worker")


def recorder(settings: CaptureSettings | None, proxy: ProxySettings) -> tuple[Observer | None, Sequence[str] | None]:
    """Returns the observer, and the command of its compactor. Raises BadSetting.

    Both are None if nothing is recorded (`settings` None); the command also if the settings run no compactor.
    """
    if settings is None:
        return None, None
    from recorder.capture.tap import compactor_command, open_tap

    folder = settings.folder
    # None: with several clusters, each recorded connection names its own
    cluster = proxy.clusters[0].name if len(proxy.clusters) == 1 else None
    try:
        tap = open_tap(folder, replace(settings, cluster=cluster))
    except OSError as error:
        raise _not_a_capture(folder, error) from error
    if not settings.compactor:
        return tap, None
    return tap, compactor_command(folder, tap.session, facts=settings.facts, with_keys=settings.encrypts)


def shipping(settings: CaptureSettings | None) -> Companion | None:
    """Returns the process that ships the capture; None if none is shipped."""
    if settings is None or settings.ship is None:
        return None
    from proxy.net.children import Companion
    from recorder.shipping.beside_proxy import ShippingMetrics, shipper_command

    metrics = ShippingMetrics(settings)
    return Companion(shipper_command(settings), metrics.ended, metrics.counters)


def check_folder(folder: Path) -> None:
    """Raises BadSetting if captures can't be written to this folder."""
    from recorder.capture.session import ensure_writable

    try:
        ensure_writable(folder)
    except OSError as error:
        raise _not_a_capture(folder, error) from error


def share(capture: CaptureSettings | None, workers: int) -> CaptureSettings | None:
    """Returns the capture's settings for one worker: its part of the limits on queue and spool."""
    if capture is None:
        return None
    return replace(capture, queue=-(-capture.queue // workers), spool=-(-capture.spool // workers))


def _not_a_capture(folder: Path, error: OSError) -> BadSetting:
    return BadSetting(Fault((_folder(folder), f": {error}"), ("a folder of yours, ", _folder("capture"))))


def _folder(path: Path | str) -> Setting:
    return Setting("capture.folder", path, of_cluster=False)
