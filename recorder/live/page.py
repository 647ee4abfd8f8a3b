"""The page over the live stream (`recorder.page`): the live process serves it, and the proxy has no part in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from proxy.schema.addresses import Address
from proxy.terminal import printable
from proxy.units import MIB
from proxy.wire.budget import DEFAULT_BUDGET
from recorder.live.consumer import Missed, Part
from recorder.page.api import Source
from recorder.page.recent import Recent
from recorder.page.serving import Access, Server, serve
from recorder.page.view import find
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair

# what the newest exchanges may take
MEMORY = 256 * MIB
# exchanges are made for so long after a page has asked last: a reload takes a moment
ASKED_SECONDS = 60.0


class PageFeed:
    """Feeds the page while somebody looks. A `Consumer`."""

    def __init__(self, recent: Recent, server: Server) -> None:
        self._recent, self._server = recent, server

    @property
    def is_asked(self) -> bool:
        """True while a page is open, and for a while after."""
        return time.monotonic() - self._server.asked_at < ASKED_SECONDS

    def take(self, pair: Pair) -> None:
        """Keeps an exchange."""
        self._recent.take(pair)

    def missed(self, missed: Missed) -> None:
        """Counts what is missing, for the page to say so."""
        if self.is_asked:
            self._recent.missed(missed.why, missed.frames)

    def is_behind(self, seconds: float) -> None:
        """Keeps it, for the page to say so."""
        self._recent.behind = seconds

    def close(self) -> None:
        """Ends the page."""
        self._server.close()


def page_part(
    listen: Address,
    token_file: Path,
    certificate: Path | None,
    key: Path | None,
    names: tuple[str, ...],
    told: Told,
    capture: Path | None,
    say: Callable[[str], None],
) -> Part:
    """Serves the page.

    Args:
        listen, token_file, certificate, key, names: as of `Access.of`.
        told: what the stream has learnt.
        capture: where older exchanges are looked for; None: nowhere.
        say: gets a sentence on where the page is, and when somebody signs in.
    Errors: CannotServe; OSError.
    """
    recent = Recent(told, most_bytes=MEMORY)
    source = Source("traffic of the proxy", lambda: True)
    if capture is not None:
        source = Source(printable(capture), lambda: True, find=find(capture, DEFAULT_BUDGET))
    server = serve(recent, source, Access.of(listen, token_file, certificate, key, names), say)
    say(f"the page is at {server.url}")
    return Part([PageFeed(recent, server)])
