"""Follows a capture while it is recorded: frames, exchanges and records that pass a filter, as they come.

Reads the log of each session (`capture.log_tail`), and published files only for what the log does not have: earlier
rows, segments that were gone too soon, sessions whose log this user may not read. It locks and writes nothing.

Sessions are merged by time. The rows of one look wait for the next one if there are several sessions: by then each
session's log has what had come before. A single session's rows don't wait.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from proxy.terminal import printable
from proxy.wire.budget import Allowance
from proxy.wire.errors import OverBudget, in_bytes
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError
from recorder.capture.log_tail import LogTail, Loss, Portion
from recorder.capture.reader import READING, CaptureFile, Listing, Row, last_ns, listed, row_groups, tables_of
from recorder.capture.session import sessions
from recorder.capture.spool import UnknownSpoolError
from recorder.query.columns import Rows, between, rows_of_exchanges, rows_of_frames
from recorder.query.shorthand import Filter
from recorder.query.syntax import Node
from recorder.reading.capture import Capture, Judged
from recorder.reading.elements import Told, shown
from recorder.reading.exchanges import ROW_SIZE, Pair, Pairing
from recorder.reading.heads import asked_at
from recorder.reading.passing import Judge, bodies_of_exchanges, bodies_of_frames, was_asked_within
from recorder.reading.records import LogRecord, Records, Text, matching, rows_of_records
from recorder.reading.rows import ORDER, Choice, all_bodies, none, rows, rows_of_tables
from recorder.reading.told import has_body, learn, rows_that_tell

Item = TypeVar("Item")
# looks from one listing of published files to the next: a large capture has thousands
_LOOKS_PER_LISTING = 10
# blocks of log that a look reads at most: new sessions are looked for between two looks
_PORTIONS_PER_LOOK = 64
_BEHIND_ALL = math.inf


class CaptureGone(DamagedFileError):
    """The capture's folder was removed while it was followed."""


class Closed(NamedTuple):
    """A connection has ended; `connection` None: a whole session has."""

    session: str
    connection: int | None = None


class Wanted(NamedTuple):
    """What is read of frames: which rows, which of their bodies; `telling`: rows that `told` learns from."""

    rows: Rows
    bodies: Choice
    telling: Rows | None
    told: Told


Say = Callable[[str], None]


class Watch:
    """Sees what a `Following` reads before its rows are made; this one lets all of them be made, and says losses."""

    def __init__(self, say: Say) -> None:
        self.say = say

    def wants_rows(self, tables: Sequence[Any]) -> bool:
        """Looks at new frames, as Arrow tables; False: no rows are to be made of them."""
        return True

    def wants_rows_of(self, files: Sequence[CaptureFile]) -> bool:
        """As `wants_rows`, of published files that have what the log does not have any more, or not for this user."""
        return True

    def lost(self, session: str, loss: Loss) -> None:
        """Learns what is missing of a session."""
        self.say(f"session {session}: {loss.sentence}")


# (its place in the order of arrival, a unique number, what, whether it is new)
_Entry = tuple[tuple[Any, ...], int, Row | Closed, bool]


class Following:
    """Reads what comes into a capture.

    Args:
        with_all: return all earlier frames first, too; otherwise, of the newest segments, only the requests that may
            still be answered.
        most: the limit in bytes of memory for the rows that wait.
        watch: sees what is read, and gets sentences on what is missing or late.
    Resource handling: `close` closes all files.
    """

    def __init__(self, folder: Path, wanted: Wanted, *, with_all: bool, most: int, watch: Watch) -> None:
        self._folder, self._wanted, self._most, self._say = folder, wanted, most, watch.say
        self._watch = watch
        self._with_all = with_all
        # by session, and by connection and exchange: earlier requests without an answer so far
        self._asked: defaultdict[str, dict[tuple[int, int], Row]] = defaultdict(dict)
        self._tails: dict[str, LogTail] = {}
        # by session: the last segment whose published files are not wanted any more
        self._done: dict[str, float] = {}
        self._heap: list[_Entry] = []
        self._size = self._number = self._looks = 0
        # when the newest row arrived that was read of a session; that was read up to the look before
        self._read_until: dict[str, int] = {}
        self._all_read_until = 0
        self._is_unreadable = False
        published = listed(folder)
        for file in (*published.frames, *published.events):
            self._done[file.session] = max(self._done.get(file.session, 0), file.last)
        before = dict(self._done)
        self._open_tails(is_first=True, with_all=with_all)
        if not with_all:
            before = {name: tail.segment for name, tail in self._tails.items()}

        def is_old(file: CaptureFile) -> bool:
            newest = before.get(file.session)
            return newest is not None and (file.last <= newest if with_all else file.last == newest)

        self._old_files = Listing(*([*filter(is_old, table)] for table in published))
        if not self._tails and not self._is_unreadable:
            self._say(f"no proxy records there now: waiting for one; {self._how_late()}")

    def close(self) -> None:
        """Closes all files."""
        for tail in self._tails.values():
            tail.close()

    @property
    def has_caught_up(self) -> bool:
        """True once all that was there in the beginning was returned."""
        is_read = self._looks and all(tail.has_caught_up for tail in self._tails.values())
        return bool(is_read) and all(is_new for *_, is_new in self._heap)

    def read_up_to(self) -> dict[str, int]:
        """The last segment of each session's log that was read to its end."""
        return {name: tail.segment for name, tail in self._tails.items()}

    def look(self) -> Iterator[tuple[Row | Closed, bool]]:
        """What has come since the last look, in the order of arrival; False: it was there in the beginning.

        Errors: CaptureGone, OverBudget, DamagedFileError, UnknownFormatError, OSError.
        """
        if not self._folder.is_dir():
            raise CaptureGone(f"{printable(self._folder)} has gone")
        if self._looks:
            self._open_tails()
        elif self._with_all:
            yield from ((item, False) for item in self._of_files(self._old_files))
            if not self._is_unreadable:
                over = {file.session for file in self._old_files.frames} - self._tails.keys()
                yield from ((Closed(session), False) for session in sorted(over))
        else:
            self._note_asked_in_files()
        if self._looks and not self._looks % _LOOKS_PER_LISTING and (self._is_unreadable or not self._tails):
            yield from self._published_news()
        self._looks += 1
        yield from self._read_tails()

    def _read_tails(self) -> Iterator[tuple[Row | Closed, bool]]:
        left = dict(self._tails)
        is_single = len(left) == 1
        for _ in range(_PORTIONS_PER_LOOK):
            if not left:
                break
            name = min(left, key=self._reached)
            portion = self._read(left[name])
            if portion is None or portion.is_empty or left[name].has_ended:
                del left[name]
            if portion is not None:
                yield from self._taken(name, portion)
            if is_single or self._size > self._most:
                yield from self._released(_BEHIND_ALL)
        yield from self._released(min([self._all_read_until, *map(self._reached, left)]))
        self._all_read_until = max(self._read_until.values(), default=0)
        if ended := [name for name, tail in self._tails.items() if tail.has_ended]:
            yield from self._released(_BEHIND_ALL)
            for name in ended:
                self._end(name, math.inf)
                yield Closed(name), True
            yield from self._published_news()

    def _reached(self, session: str) -> int:
        return self._read_until.get(session, 0)

    def _read(self, tail: LogTail) -> Portion | None:
        """The next portion of a log; None if it can't be read any more."""
        try:
            return tail.read()
        except (OSError, UnknownSpoolError) as error:
            self._unreadable(tail.name, error)
            self._end(tail.name, tail.segment)
            return None

    def _end(self, session: str, segment: float) -> None:
        self._tails.pop(session).close()
        self._done[session] = segment

    def _taken(self, session: str, portion: Portion) -> Iterator[tuple[Row | Closed, bool]]:
        """Keeps a portion's rows and ends; returns those of published files, which come first."""
        for loss in portion.losses:
            self._watch.lost(session, loss)
        if any(portion.published):
            yield from self._released(_BEHIND_ALL)
            yield from ((item, portion.is_new) for item in self._of_files(portion.published))
        are_new = portion.is_new or self._with_all
        self._learn_from(portion.tables)
        if are_new and portion.tables and not self._watch.wants_rows(portion.tables):
            self._asked.pop(session, None)
        elif are_new:
            self._keep_rows(self._asked.pop(session, {}).values(), is_new=False)
            self._keep_rows(self._of_tables(portion.tables), is_new=portion.is_new)
        else:
            self._note_asked(session, portion.tables)
        for table in portion.tables:
            self._read_until[session] = max(self._reached(session), table[c.AT_NS][-1].as_py())
        if not are_new:
            self._forget_asked(session, {*portion.closed})
        for connection in portion.closed:
            place = self._reached(session), session, connection, _BEHIND_ALL
            self._keep(place, Closed(session, connection), is_new=portion.is_new)

    def _note_asked_in_files(self) -> None:
        """Notes the unanswered requests of the last published segments."""
        for file in self._old_files.frames:
            for table in row_groups(file, allowance=Allowance(READING, self._most)):
                self._note_asked(file.session, [table])
        ended = defaultdict[str, set[int]](set)
        for session, connection in _closed_in(self._old_files.events):
            ended[session].add(connection)
        for session, connections in ended.items():
            self._forget_asked(session, connections)

    def _note_asked(self, session: str, tables: Iterable[Any]) -> None:
        """Notes requests that are not answered in these tables or in later ones. All other rows are passed over."""
        asked = self._asked[session]
        for table in tables:
            exchanges = [*zip(table[c.CONNECTION].to_pylist(), table[c.EXCHANGE].to_pylist(), strict=True)]
            is_answer = pc.equal(table[c.KIND], c.RESPONSE).to_pylist()
            answered = {one for one, is_one in zip(exchanges, is_answer, strict=True) if is_one}
            for one in answered & asked.keys():
                del asked[one]
            is_left = pa.array([one not in answered for one in exchanges])
            left = table.filter(pc.and_(is_left, pc.fill_null(table[c.AWAITS], False)))
            for row in rows_of_tables([left], self._wanted.rows, self._wanted.bodies):
                asked[row[c.CONNECTION], row[c.EXCHANGE]] = row
            if len(asked) * ROW_SIZE > self._most:
                raise OverBudget(f"keeping requests without an answer makes more than {in_bytes(self._most)}")

    def _forget_asked(self, session: str, ended: set[int]) -> None:
        """Forgets the requests of connections that have ended: nobody answers them any more."""
        # all at once: this goes over all that was asked
        if ended:
            asked = self._asked[session]
            self._asked[session] = {one: row for one, row in asked.items() if one[0] not in ended}

    def _keep_rows(self, found: Iterable[Row], *, is_new: bool) -> None:
        for row in found:
            self._keep(tuple(row[name] for name in ORDER), row, is_new=is_new)
            self._size += len(row[c.FRAME] or b"")

    def _keep(self, place: tuple[Any, ...], item: Row | Closed, *, is_new: bool) -> None:
        self._number += 1
        self._size += ROW_SIZE
        heapq.heappush(self._heap, (place, self._number, item, is_new))

    def _released(self, until_ns: float) -> Iterator[tuple[Row | Closed, bool]]:
        """The rows up to a moment, which wait no more."""
        while self._heap and self._heap[0][0][0] <= until_ns:
            _, _, item, is_new = heapq.heappop(self._heap)
            self._size -= ROW_SIZE + (0 if isinstance(item, Closed) else len(item[c.FRAME] or b""))
            yield item, is_new

    def _of_files(self, published: Listing) -> Iterator[Row | Closed]:
        """The rows of published files; then the connections that end there."""
        every, wanted = published.frames, self._wanted
        try:
            if wanted.telling is not None:
                for row in rows(every, wanted.telling, bodies=has_body, most=self._most):
                    learn(wanted.told, row, self._most)
            if self._watch.wants_rows_of(every):
                yield from rows(every, wanted.rows, bodies=wanted.bodies, most=self._most)
        except DamagedFileError as error:
            self._say(f"{error}: frames that were published with it are missing")
        try:
            yield from (Closed(*one) for one in _closed_in(published.events))
        except DamagedFileError as error:
            self._say(f"{error}: connections that ended there seem to be open")

    def _of_tables(self, tables: list[Any]) -> Iterator[Row]:
        if tables:
            yield from rows_of_tables(tables, self._wanted.rows, self._wanted.bodies)

    def _learn_from(self, tables: list[Any]) -> None:
        if tables and self._wanted.telling is not None:
            for row in rows_of_tables(tables, self._wanted.telling, has_body):
                learn(self._wanted.told, row, self._most)

    # sessions

    def _open_tails(self, *, is_first: bool = False, with_all: bool = False) -> None:
        """Begins to follow the sessions that are new."""
        try:
            found = sessions(self._folder)
        except PermissionError as error:
            if is_first:
                self._unreadable("", error)
            return
        for name in found:
            if name in self._tails or (not is_first and name in self._done):
                continue
            after = None if is_first and not with_all else int(self._done.get(name, 0))
            try:
                self._tails[name] = LogTail(self._folder, name, after=after, is_old=is_first, most=self._most)
            except FileNotFoundError:
                # the session is over, and its files are published
                self._done.setdefault(name, 0)
            except (OSError, UnknownSpoolError) as error:
                self._done.setdefault(name, 0)
                self._unreadable(name, error)

    def _unreadable(self, session: str, error: Exception) -> None:
        may_not = isinstance(error, PermissionError)
        if may_not and self._is_unreadable:
            return
        self._is_unreadable = True
        reason = "this user may not read it" if may_not else str(error)
        which = f"of session {session}" if session else f"in {printable(self._folder)}"
        self._say(f"the log {which} can't be followed ({reason}): {self._how_late()}")

    def _how_late(self) -> str:
        """How late published files are."""
        newest = last_ns(self._folder, most=self._most)
        at = f"the newest is of {datetime.fromtimestamp(newest // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC" if newest else ""
        late = "frames appear when they are published, up to capture.segment_age (60s by default) after they passed"
        return f"{late}; {at}" if at else late

    def _published_news(self) -> Iterator[tuple[Row | Closed, bool]]:
        """The rows of files that were published since the last listing, of sessions without a log to follow."""
        before = {**self._done}

        def is_new(file: CaptureFile) -> bool:
            return file.session not in self._tails and file.last > before.get(file.session, 0)

        published = listed(self._folder)
        frames = [*filter(is_new, published.frames)]
        for file in frames:
            self._done[file.session] = max(self._done.get(file.session, 0), file.last)
        # a segment's events are published before its frames, and come with those, or with later ones
        events = [file for file in published.events if is_new(file) and file.last <= self._done.get(file.session, 0)]
        yield from ((item, True) for item in self._of_files(Listing(frames, events)))


def _closed_in(events: Iterable[CaptureFile]) -> Iterator[tuple[str, int]]:
    """The session and the number of each connection that ends in files of events. Errors: as of `tables_of`."""
    for file in events:
        for table in tables_of(file, (c.CONNECTION,), pc.field(c.KIND) == c.EVENT_CLOSED):
            yield from ((file.session, connection) for connection in table[c.CONNECTION].to_pylist())


class Followed(Judged, Generic[Item]):
    """What passes a filter, as it comes."""

    def __init__(self, following: Following, judge: Judge, take: Callable[[Row | Closed], Iterable[Item]]) -> None:
        super().__init__(judge)
        self._following, self._take = following, take

    def look(self) -> Iterator[tuple[Item, bool]]:
        """What has come since the last look; False: it was there in the beginning. Errors: as of `Following.look`."""
        for item, is_new in self._following.look():
            for each in self._take(item):
                yield each, is_new

    @property
    def has_caught_up(self) -> bool:
        """True once all that was there in the beginning was returned."""
        return self._following.has_caught_up

    def close(self) -> None:
        """Closes all files."""
        self._following.close()


class Follower:
    """Begins to follow a capture. The arguments are those of `Following`."""

    def __init__(self, capture: Capture, *, with_all: bool, say: Say) -> None:
        assert isinstance(capture.folder, Path)
        self._capture, self._folder, self._with_all, self._say = capture, capture.folder, with_all, say

    def rows(self, where: Filter, *, bodies: Choice = none, columns: Iterable[str] = ()) -> Followed[Row]:
        """Frames as they come. Arguments: as of `Capture.rows`."""
        node, judge = self._capture.judge(where, frozenset(columns))

        def take(item: Row | Closed) -> Iterator[Row]:
            if not isinstance(item, Closed) and judge.passes_frame(item):
                yield item

        return self._followed(judge, rows_of_frames(node), bodies_of_frames(judge, bodies), take)

    def exchanges(
        self,
        where: Filter,
        *,
        columns: Iterable[str] = (),
        with_normal: Node | None = None,
        brief: bool = False,
        with_bodies: bool = False,
    ) -> Followed[Pair]:
        """Exchanges as they end. Arguments: as of `Capture.exchanges`. `with_bodies`: their rows have their bytes."""
        node, judge = self._capture.judge(where, frozenset(columns), with_normal)
        pairing = Pairing(most=self._capture.budget, read=judge.side, with_bodies=with_bodies)
        ended = Ended(pairing, *between(node))

        def take(item: Row | Closed) -> Iterator[Pair]:
            return filter(judge.passes, ended.take(item))

        bodies = all_bodies if with_bodies else bodies_of_exchanges(judge, brief=brief)
        return self._followed(judge, rows_of_exchanges(node), bodies, take)

    def records(self, where: Filter, *, grep: re.Pattern[str] | None = None, text: Text = shown) -> Followed[LogRecord]:
        """Records when they are produced, and when they are fetched: each time by itself.

        Arguments: as of `Capture.records`.
        """
        matches = None if grep is None else matching(grep)
        node, judge = self._capture.judge(where, frozenset({"topic"}))
        budget = self._capture.budget
        log = Records(node, judge.told, matches, judge.unsure, budget, text)
        log.learn_members(self._folder)
        pairing = Ended(Pairing(most=budget, read=log.read))

        def take(item: Row | Closed) -> Iterator[LogRecord]:
            for pair in pairing.take(item):
                log.add(pair)
                yield from log.taken()

        return self._followed(judge, rows_of_records(), all_bodies, take)

    def _followed(
        self, judge: Judge, wanted: Rows, bodies: Choice, take: Callable[[Row | Closed], Iterable[Item]]
    ) -> Followed[Item]:
        telling = rows_that_tell(topics=judge.needs_topics, software=judge.needs_software)
        needs_told = judge.needs_topics or judge.needs_software
        read = Wanted(wanted, bodies, telling if needs_told else None, judge.told)
        most = self._capture.budget
        following = Following(self._folder, read, with_all=self._with_all, most=most, watch=Watch(self._say))
        return Followed(following, judge, take)


class Ended:
    """Exchanges of rows that come one by one. Those of a connection that has ended are not waited for.

    `since_ns`, `until_ns`: bounds of the time at which the request arrived; None: no bound.
    """

    def __init__(self, pairing: Pairing, since_ns: int | None = None, until_ns: int | None = None) -> None:
        self._pairing, self._since_ns, self._until_ns = pairing, since_ns, until_ns
        # by session: when its first row arrived
        self._first_ns: dict[str, int] = {}

    def take(self, item: Row | Closed) -> Iterator[Pair]:
        """The exchanges that end with a row, or with a connection. Errors: OverBudget."""
        if isinstance(item, Closed):
            if item.connection is None:
                self._first_ns.pop(item.session, None)
            yield from self._pairing.rest(*item)
        elif was_asked_within(item, self._since_ns, self._until_ns):
            pair = self._pairing.take(item)
            if pair is not None:
                yield pair
            elif self._has_no_request(item):
                yield from self._pairing.rest(item[c.SESSION], item[c.CONNECTION], item[c.EXCHANGE])

    def _has_no_request(self, row: Row) -> bool:
        """True for a response whose request came before the first row that was read."""
        first_ns = self._first_ns.setdefault(row[c.SESSION], row[c.AT_NS])
        return bool(row[c.KIND] == c.RESPONSE) and row[c.EXCHANGE] is not None and asked_at(row) < first_ns
