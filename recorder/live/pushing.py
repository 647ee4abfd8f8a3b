"""Sends the proxy's metrics to a collector, once a minute: what its admin page shows.

A thread asks the page as Prometheus would, so the proxy does nothing else for it.
"""

from __future__ import annotations

import threading
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

from proxy.threads import start_thread
from recorder.tracing.collector import Collector, NotTaken
from recorder.tracing.numbers import metrics_data

EVERY_SECONDS = 60.0
# how long the page may take for each step of its answer, in seconds
_PATIENCE_SECONDS = 10.0


class MetricsPusher:
    """Sends metrics until it is closed.

    Args:
        page: the URL of the page. every: seconds from one time to the next.
    """

    def __init__(self, collector: Collector, page: str, every: float = EVERY_SECONDS) -> None:
        self._collector, self._page, self._every = collector, page, every
        self._counts = dict.fromkeys(("sent", "refused", "unread"), 0)
        self._is_over = threading.Event()
        start_thread(self._run, "metrics pusher")

    @property
    def counts(self) -> Mapping[str, int]:
        """How often metrics were sent; refused by the collector; or could not be read, by outcome."""
        return dict(self._counts)

    def close(self) -> None:
        """Sends no more."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(self._every):
            self._counts[self._push()] += 1

    def _push(self) -> str:
        try:
            with _DIRECTLY.open(self._page, timeout=_PATIENCE_SECONDS) as answer:
                data = metrics_data(answer.read().decode(), time.time_ns())
        except (OSError, ValueError, HTTPException):
            return "unread"
        try:
            self._collector.send_metrics(data)
        except NotTaken:
            return "refused"
        return "sent"


# the page is of this machine: no proxy of the environment stands before it
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
