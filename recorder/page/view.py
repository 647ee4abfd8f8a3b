"""Feeds the exchanges of a capture until somebody ends it: finished, growing, or as it is in a bucket."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from proxy.terminal import printable
from recorder.capture.reader import files, groups_between
from recorder.capture.remote import Place
from recorder.capture.session import is_live, sessions
from recorder.page.api import Source
from recorder.page.recent import FIELDS_READ, Recent, opens_batches
from recorder.query.columns import rows_of_ids
from recorder.query.shorthand import Filter
from recorder.reading.capture import Capture, Passed
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
        self._capture, self._folder = capture, capture.folder
        self.notes: deque[str] = deque(maxlen=_MOST_NOTES)
        self._opens_batches = opens_batches(wanted.names)
        self._followed: Followed[Pair] | _ReadOnce = (
            Follower(capture, with_all=True, say=self.notes.append).exchanges(
                wanted, columns=FIELDS_READ, with_bodies=True
            )
            if isinstance(self._folder, Path)
            else _ReadOnce(capture.exchanges(wanted, columns=FIELDS_READ, bodies=all_bodies))
        )
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
        folder = self._folder
        return isinstance(folder, Path) and any(is_live(folder, session) for session in sessions(folder))


class _ReadOnce:
    """What a capture in a bucket has, in the shape of `Followed`: nothing comes later."""

    def __init__(self, passed: Passed[Pair]) -> None:
        self._passed, self.told = passed, passed.told
        self.has_caught_up = False

    def look(self) -> Iterator[tuple[Pair, bool]]:
        """All exchanges; no more after the first time. Errors: as of `Capture.exchanges`."""
        for pair in self._passed:
            yield pair, False
        self.has_caught_up = True

    def close(self) -> None:
        """Nothing is open between looks."""


def find(folder: Place, most: int) -> Callable[[str, int, int], Pair | None]:
    """What finds an exchange among a capture's published files by its id. `most`: the limit in bytes of memory."""

    def found(session: str, connection: int, exchange: int) -> Pair | None:
        wanted = rows_of_ids((session,), (connection,), exchanges=(exchange,))
        # by names and footers alone: an id that names nothing must not have a whole capture read
        of_session = (each for each in files(folder) if each.session == session)
        own = [each for each in of_session if groups_between(each, where=wanted.expression)]
        return next(pairs(rows(own, wanted, bodies=all_bodies, most=most), most=most, with_bodies=True), None)

    return found
