"""Feeds the exchanges of a capture, finished or growing, until somebody ends it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from proxy.terminal import printable
from recorder.capture import frames as c
from recorder.capture.session import is_live, sessions
from recorder.page.api import Source
from recorder.page.recent import FIELDS_READ, Recent, opens_batches
from recorder.query.columns import rows_of_ids
from recorder.query.shorthand import Filter
from recorder.reading.capture import Capture
from recorder.reading.exchanges import Pair, pairs
from recorder.reading.following import Followed, Follower
from recorder.reading.rows import all_bodies, rows

# from one look at the capture to the next, in seconds
LOOK_SECONDS = 0.2
# sentences on what is missing or late that are kept
_MOST_NOTES = 20


class View:
    """A capture that is read into `Recent`.

    Attributes:
        recent: gets the exchanges.
        notes: sentences on what is missing or late, the newest last.
    """

    def __init__(self, capture: Capture, wanted: Filter, *, most_bytes: int) -> None:
        assert isinstance(capture.folder, Path)
        self._capture, self._folder = capture, capture.folder
        self.notes: deque[str] = deque(maxlen=_MOST_NOTES)
        self._opens_batches = opens_batches(wanted.names)
        follower = Follower(capture, with_all=True, say=self.notes.append)
        self._followed: Followed[Pair] = follower.exchanges(wanted, columns=FIELDS_READ, with_bodies=True)
        self.recent = Recent(self._followed.told, most_bytes=most_bytes)

    def run(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Reads all that is there, and then what comes. Errors: as of `Following.look`."""
        with closing(self._followed):
            while not is_over():
                self.look()
                time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Reads what has come since the last look. Errors: as of `Following.look`."""
        for pair, _ in self._followed.look():
            # elements of single records are not what is kept
            self.recent.take(pair._replace(asked=None, told=None) if self._opens_batches else pair)

    @property
    def source(self) -> Source:
        """What the page says of it."""
        return Source(printable(self._folder), self._is_live, self._state, find(self._folder, self._capture.budget))

    def _state(self) -> str:
        """What is being done, in a few words."""
        return "" if self._followed.has_caught_up else "reading the capture"

    def _is_live(self) -> bool:
        """True while a proxy records there."""
        return any(is_live(self._folder, session) for session in sessions(self._folder))


def find(folder: Path, most: int) -> Callable[[str, int, int], Pair | None]:
    """What finds an exchange among a capture's published files by its id. `most`: the limit in bytes of memory."""

    def found(session: str, connection: int, exchange: int) -> Pair | None:
        wanted = rows_of_ids((session,), (connection,), exchanges=(exchange,))
        every = rows(folder, wanted, bodies=all_bodies, most=most)
        # the filter matches all sessions with this prefix
        own = (row for row in every if row[c.SESSION] == session)
        return next(pairs(own, most=most, with_bodies=True), None)

    return found
