"""Connects the recorder with the proxy, for the command line (`cli.py`) and for a worker's process (`worker.py`).

`proxy.net` takes an observer, a child command and companions; this module makes all three from the recorder. The
recorder is imported only if traffic is recorded or looked at: any other proxy starts without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proxy.config import ProxySettings
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting

if TYPE_CHECKING:
    from proxy.net.children import Companion
    from proxy.observer import Observer
    from recorder.capture.session import CaptureSettings
    from recorder.live.feed import FeedSettings

# The command that starts a worker's process. -P: Python looks for no module in the current folder, here and wherever
# a process of our own is started.
WORKER_COMMAND = (sys.executable, "-P", "-m", "proxy.worker")


class Live(NamedTuple):
    """The process that reads the traffic for those who look, and the settings of the taps that it needs.

    Attributes:
        recording: those of the capture, or of a feed where nothing is recorded.
        discard: removes what was made for a proxy that does not begin.
    """

    companion: Companion
    recording: CaptureSettings | FeedSettings
    discard: Callable[[], None]


def recorder(
    settings: CaptureSettings | FeedSettings | None, proxy: ProxySettings
) -> tuple[Observer | None, Sequence[str] | None]:
    """Returns the observer, and the command of its compactor. Raises BadSetting.

    Both are None if nothing is recorded (`settings` None); the command also if the settings run no compactor, and for a
    feed, which none makes into Parquet.
    """
    if settings is None:
        return None, None
    from recorder.capture.tap import compactor_command, open_tap
    from recorder.live.feed import FeedSettings, open_feed

    folder = settings.folder
    # None: with several clusters, each recorded connection names its own
    settings = replace(settings, cluster=proxy.clusters[0].name if len(proxy.clusters) == 1 else None)
    if isinstance(settings, FeedSettings):
        return open_feed(settings), None
    try:
        tap = open_tap(folder, settings)
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


def live(proxy: ProxySettings, capture: CaptureSettings | None) -> Live | None:
    """Returns the process that reads the traffic for those who look; None if nobody may. Raises BadSetting."""
    settings = proxy.live
    if not settings.is_asked_for:
        return None
    from proxy.net.children import Companion
    from recorder.live.beside_proxy import LiveMetrics, live_command
    from recorder.live.door import Door
    from recorder.live.feed import FeedSettings
    from recorder.live.folder import LiveFolder

    try:
        folder = LiveFolder.make(in_memory=capture is None)
    except OSError as error:
        asks = Fault(f"live finds no place ({error.strerror or error})", ("a capture, ", _folder("capture")))
        raise BadSetting(asks) from error
    recording = capture or FeedSettings(folder=folder.feed)
    asked: dict[str, object] = {"topics": settings.topics, "clients": settings.clients, "groups": settings.groups}
    # whoever has the token may watch, too; without the admin page there is no way to it
    asked["top"] = settings.token_file is not None and proxy.metrics is not None
    if settings.page is not None:
        asked |= {"page": settings.page, "token-file": settings.token_file, "name": settings.page_name}
        asked |= {"certificate": settings.page_certificate, "key": settings.page_key}
    if settings.otlp is not None:
        asked |= {"otlp": settings.otlp, "otlp-every": settings.otlp_every, "otlp-headers": settings.otlp_headers}
        if proxy.metrics is not None and proxy.metrics.port:
            asked["metrics"] = f"http://{proxy.metrics}/metrics"
    command = live_command(folder, recording.folder, asked, is_feed=capture is None)
    metrics = LiveMetrics(folder.socket)
    doors = {} if settings.token_file is None else {"live": Door(folder.socket, settings.token_file)}
    companion = Companion(
        command, metrics.ended, metrics.counters, metrics=metrics.text, doors=doors, hung=metrics.hung
    )
    return Live(companion, recording, folder.discard)


def check_folder(folder: Path) -> None:
    """Raises BadSetting if captures can't be written to this folder."""
    from recorder.capture.session import ensure_writable

    try:
        ensure_writable(folder)
    except OSError as error:
        raise _not_a_capture(folder, error) from error


def share(capture: CaptureSettings | FeedSettings | None, workers: int) -> CaptureSettings | FeedSettings | None:
    """Returns the recorder's settings for one worker: its part of the limits on queue and spool."""
    if capture is None:
        return None
    return replace(capture, queue=-(-capture.queue // workers), spool=-(-capture.spool // workers))


def _not_a_capture(folder: Path, error: OSError) -> BadSetting:
    return BadSetting(Fault((_folder(folder), f": {error}"), ("a folder of yours, ", _folder("capture"))))


def _folder(path: Path | str) -> Setting:
    return Setting("capture.folder", path, of_cluster=False)
