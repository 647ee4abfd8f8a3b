"""Follows the log of a proxy, and feeds those who look: frames as tables to some, exchanges to others.

Tables of frames cost little, and are read whatever comes (`TableReader`: metrics). Exchanges are Python values, which
take a hundred times as long: they are made only while a consumer asks for them, and not of what lies so far behind that
it is no news any more. Frames that are passed over are missed, and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow.compute as pc

from proxy.units import MIB
from recorder.bounded import Bounded
from recorder.capture import frames as c
from recorder.capture import session as sessions
from recorder.capture.lock import is_live
from recorder.capture.log_tail import MAX_OPEN, Loss
from recorder.capture.reader import CaptureFile, row_groups
from recorder.capture.segments import segment_name, segments
from recorder.capture.storage import ignore_step
from recorder.live.consumer import Consumer, Missed
from recorder.query.columns import Rows
from recorder.reading.elements import Connection, Library, Told
from recorder.reading.exchanges import LARGEST_KEPT, Pairing
from recorder.reading.following import Closed, Ended, Following, Wanted, Watch
from recorder.reading.rows import bodies_up_to
from recorder.reading.told import rows_that_tell

# the most memory for rows and exchanges that wait
MOST = 64 * MIB
# names of topics' ids that are known, and open connections whose client's software is: the oldest are forgotten for
# others. Both together take less than MOST, beyond which nothing more could be learnt
MOST_TOLD = 50_000
# connections that have ended, whose exchanges may still be looked at
MOST_ENDED = 25_000
# frames that arrived so long ago are no news: their exchanges are passed over
BEHIND_NS = 5 * 10**9
# from one look at the log to the next
LOOK_SECONDS = 0.05


class Due(Exception):
    """The stream is to be read no more."""


class BoundedTold(Told):
    """Keeps the newest MOST_TOLD of the names of topics' ids, and of the clients' software by open connection."""

    topics: Bounded[str, str]
    software: Bounded[Connection, Library]

    def __init__(self) -> None:
        super().__init__(Bounded(MOST_TOLD), Bounded(MOST_TOLD))
        self._ended: Bounded[Connection, Library] = Bounded(MOST_ENDED)

    def software_of(self, connection: Connection) -> Library:
        """As of `Told`, also of the last MOST_ENDED connections that have ended. Called in any thread."""
        return self.software.get(connection) or self._ended.get(connection) or super().software_of(connection)

    def end(self, closed: Closed) -> None:
        """A connection has ended, or a session with all of its own: they take no room from others."""
        session, connection = closed
        # a session's end is rare
        ended = [key for key in self.software if key[0] == session] if connection is None else [(session, connection)]
        for key in ended:
            if library := self.software.get(key):
                self._ended[key] = library
                self.software.take(key)

    @property
    def forgotten(self) -> Mapping[str, int]:
        """How many ids of topics have no name any more, and how many open connections no software."""
        return {"topic_id": self.topics.forgotten, "connection": self.software.forgotten}


class TableReader(Protocol):
    """Reads all frames, as Arrow tables with the columns of `frames`. Called in the stream's thread."""

    def read(self, frames: Any) -> None:
        """Reads new frames."""

    def missed(self, missed: Missed) -> None:
        """Learns that something is missing."""


class Stream:
    """One reader of a log for all who look.

    Args:
        folder: the capture, or the capture of a `feed`.
        is_feed: what was read is removed.
        told: learns the names of topics' ids, and clients' software.
        is_due: asked before each table and each row of exchanges: one look at a long backlog may take minutes.

    Attributes:
        read_ns: when the newest frame arrived that was read, in ns since 1970; 0: none was.
        passed_over: frames that readers of tables got, and of which no exchanges were made, as they lay too far behind.
    """

    def __init__(
        self,
        folder: Path,
        consumers: Sequence[Consumer],
        readers: Sequence[TableReader] = (),
        *,
        is_feed: bool = False,
        told: BoundedTold | None = None,
        is_due: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_due = is_due
        self._folder, self._consumers, self._readers, self._is_feed = folder, consumers, readers, is_feed
        self.read_ns = self.passed_over = 0
        self._is_reading = self._passes_over = False
        self._pairing = Pairing(most=MOST, with_bodies=True)
        self._ended = Ended(self._pairing)
        telling = rows_that_tell(topics=True, software=True)
        self._told = told or BoundedTold()
        wanted = Wanted(Rows(), bodies_up_to(LARGEST_KEPT), telling, self._told)
        self._following = Following(folder, wanted, with_all=is_feed, most=MOST, watch=_Watching(self))

    def close(self) -> None:
        """Closes the log's files, and tells the consumers."""
        self._following.close()
        for consumer in self._consumers:
            consumer.close()

    def look(self) -> None:
        """Reads what has come since the last look. Errors: Due; as of `Following.look`."""
        self._is_reading = True
        passed_over = self.passed_over
        for item, is_new in self._following.look():
            if self._is_due():
                raise Due
            # what lies in a feed was read by nobody
            if is_new or self._is_feed:
                for pair in self._ended.take(item):
                    for consumer in self._consumers:
                        consumer.take(pair)
            elif isinstance(item, Closed):
                self._forget(item)
            if isinstance(item, Closed):
                self._told.end(item)
        if self._is_feed:
            for session, segment in self._following.read_up_to().items():
                _forget_read(self._folder, session, segment)
        self._is_reading = False
        if self.passed_over == passed_over:
            self._catch_up()

    @property
    def is_at_end(self) -> bool:
        """True if all sessions that were followed are over, and were read."""
        return not self._following.read_up_to()

    @property
    def behind(self) -> float:
        """How long ago the newest frame arrived that was read, in seconds, while there are later ones; else 0."""
        return max(time.time_ns() - self.read_ns, 0) / 1e9 if self.read_ns and self._is_reading else 0.0

    def forget(self) -> None:
        """Forgets halves of exchanges: what follows may lack the other halves."""
        for _ in self._pairing.rest():
            pass

    def _forget(self, closed: Closed) -> None:
        for _ in self._pairing.rest(*closed):
            pass

    def sees(self, tables: Sequence[Any]) -> bool:
        """Has tables of new frames read; True if exchanges are to be made of them."""
        for table in tables:
            if self._is_due():
                raise Due
            self.read_ns = max(self.read_ns, pc.max(table[c.AT_NS]).as_py() or 0)
            for reader in self._readers:
                reader.read(table)
        if not any(consumer.is_asked for consumer in self._consumers):
            self.forget()
            return False
        behind_ns = time.time_ns() - self.read_ns
        if behind_ns > BEHIND_NS:
            self._pass_over(sum(map(len, tables)), behind_ns / 1e9)
            self.forget()
            return False
        self._catch_up()
        return True

    def _pass_over(self, frames: int, behind: float) -> None:
        self.passed_over += frames
        self._passes_over = True
        for consumer in self._consumers:
            consumer.missed(Missed(frames, "the stream is behind"))
            consumer.is_behind(behind)

    def _catch_up(self) -> None:
        """Says that exchanges are made again, if none were."""
        if self._passes_over:
            self._passes_over = False
            for consumer in self._consumers:
                consumer.is_behind(0)

    def miss(self, missed: Missed) -> None:
        """Tells everybody that something is missing."""
        for reader in self._readers:
            reader.missed(missed)
        for consumer in self._consumers:
            consumer.missed(missed)


class _Watching(Watch):
    """What a stream makes of what is read."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(lambda sentence: stream.miss(Missed(None, sentence)))
        self._stream = stream

    def wants_rows(self, tables: Sequence[Any]) -> bool:
        return self._stream.sees(tables)

    def wants_rows_of(self, files: Sequence[CaptureFile]) -> bool:
        wants = [self._stream.sees([table]) for file in files for table in row_groups(file, c.frames_schema().names)]
        return any(wants)

    def lost(self, session: str, loss: Loss) -> None:
        self._stream.miss(Missed(loss.frames, f"session {session}: {loss.sentence}"))


def _forget_read(folder: Path, session: str, read_up_to: int) -> None:
    """Removes the segments of a session that were read to their end, and a session that is over, with all of it.

    The reader has opened the few segments that are left then. `read_up_to`: the last segment that was read to its end.
    """
    with suppress(FileNotFoundError), sessions.open_session(folder, session) as opened:
        left = segments(opened)
        for number in left:
            if number <= read_up_to:
                opened.remove(segment_name(number))
        if left[-1:] <= [read_up_to + MAX_OPEN] and not is_live(opened):
            sessions.remove(folder, session, ignore_step)
