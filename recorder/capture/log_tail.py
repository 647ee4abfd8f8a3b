"""Follows the log of one session while a proxy writes it: reads, and never locks, writes or removes anything.

Used by `reading.following`. A segment is opened as soon as it is seen, so that it can be read to its end although the
compactor removes it. `SegmentReader` reads its entries and an `Assembly` makes rows of them, as in the compactor.

Where the compactor has left its state after the segment before, the first segment's connections go on from that state.
Else each goes on from its checkpoint in the segment, and what it said before that is not shown. If segments are gone
before they were opened, because the reader of this process's output had stopped, their rows are in published files.
What is neither in the log nor published is reported as lost.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from proxy.wire.errors import OverBudget, in_bytes
from recorder.capture import frames as c
from recorder.capture import session as sessions
from recorder.capture.assembly import Assembly
from recorder.capture.columns import EventRows, FrameRows, SharedDictionaries
from recorder.capture.entry_json import InvalidEntryError
from recorder.capture.progress import read_state, segments_with_state
from recorder.capture.reader import Listing, listed
from recorder.capture.row_group import with_whole_frames
from recorder.capture.segments import SegmentReader, segment_name, segments
from recorder.capture.spool import DamagedSegmentError, UnknownSpoolError

# segments that are held open at most. An open segment takes its room on the disk, although it was removed
MAX_OPEN = 4


class Loss(NamedTuple):
    """Something is missing. `sentence` says what; `frames`: how many frames, as far as anybody knows."""

    sentence: str
    frames: int | None = None


@dataclass(slots=True)
class Portion:
    """What a call of `LogTail.read` found.

    Attributes:
        published: files of segments that were gone before they were opened; earlier than `tables`.
        tables: frames, as Arrow tables with the columns of `frames`.
        closed: connections that have ended by what `tables` are made of, behind all their frames.
        losses: what is missing.
        is_new: False for what was in the log already when the tail was opened.
        is_empty: True if the log has nothing more at present.
    """

    published: Listing = field(default_factory=lambda: Listing([], []))
    tables: list[Any] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    is_new: bool = True
    is_empty: bool = False


class _Rows:
    """Collects the rows of a segment, as `ranges.RangeFiles` does for files."""

    def __init__(self, session: str, cluster: str | None) -> None:
        self.shared = SharedDictionaries()
        self._names = session, cluster
        self._groups: dict[bool, FrameRows] = {}
        self._full: list[FrameRows] = []
        self._events = EventRows(*self._names)

    def frame_rows(self, at_ns: int, clock_offset_ns: int, size: int, *, carries_records: bool) -> FrameRows:
        group = self._groups.get(carries_records)
        if group is not None and group.has_room(size) and group.clock_offset_ns == clock_offset_ns:
            return group
        if group is not None:
            self._full.append(group)
        group = FrameRows(*self._names, self.shared, clock_offset_ns, carries_records=carries_records)
        self._groups[carries_records] = group
        return group

    def event_rows(self, at_ns: int) -> EventRows:
        return self._events

    def taken(self) -> tuple[list[Any], list[dict[str, Any]]]:
        """The frames as tables, and the events; forgets them."""
        groups = [*self._full, *self._groups.values()]
        tables = [with_whole_frames(group.table()) for group in groups if len(group)]
        events = self._events.table().to_pylist() if len(self._events) else []
        self._full, self._groups, self._events = [], {}, EventRows(*self._names)
        return tables, events


class LogTail:
    """The end of a session's log.

    Args:
        folder: the capture.
        session: the session's name.
        after: the segment behind which to begin; None: with the newest one, or the one before it if the compactor is at
            work on that.
        is_old: True if what is in the log now is not new.
        most: the limit in bytes of memory for frames that have not come whole.

    Attributes:
        segment: the last segment that is read to its end.
        has_ended: True if the session is over, and all of it was read.
        has_caught_up: True once all that is not new was read.

    Resource handling: `close` closes the segments. Errors: FileNotFoundError for a session that is gone;
    PermissionError for one that this user may not read; UnknownSpoolError for a log of another format.
    """

    def __init__(self, folder: Path, session: str, *, after: int | None = None, is_old: bool = True, most: int) -> None:
        self.name, self.has_ended, self.has_caught_up = session, False, False
        self._folder, self._most = folder, most
        self._session = sessions.open_session(folder, session)
        self._open: dict[int, SegmentReader] = {}
        # damaged heads, by the number of their segment
        self._unreadable: set[int] = set()
        self._passed_over_at = 0
        self._rows = _Rows(session, None)
        try:
            numbers = segments(self._session)
            newest = numbers[-1] if numbers else self._published_up_to()
            self.segment = self._last_known(numbers, newest) if after is None else after
            # up to where the log is not new: segment, offset in it
            self._old_end = (newest, self._session.size(segment_name(newest))) if is_old else (0, 0)
            self._assembly = self._assembly_after(self.segment) or Assembly()
            if self.segment and not self._assembly.begun:
                self._assembly.forget()
            self._assembly.begin_range(self._rows, self._assembly.clock_offset_ns)
            self._open_segments()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes all files."""
        for reader in self._open.values():
            reader.close()
        self._open.clear()
        self._session.close()

    def read(self) -> Portion:
        """The next entries, a block of them at most. Errors: OverBudget, OSError."""
        is_over = not self._session.is_in_place
        later = self._open_segments()
        number = min(self._open, default=None)
        if number is not None and number == self.segment + 1:
            return self._read(number, is_sealed=is_over or any(each > number for each in later))
        if number is not None:
            return self._skip_to(number)
        self.has_caught_up = True
        return self._end() if is_over else Portion(is_empty=True)

    # segments

    def _open_segments(self) -> list[int]:
        """Opens the segments that are there; returns the numbers of all that are not read yet."""
        try:
            numbers = [number for number in segments(self._session) if number > self.segment]
        except FileNotFoundError:
            # the session's folder was removed
            numbers = []
        for number in numbers:
            if number not in self._open and number not in self._unreadable and len(self._open) < MAX_OPEN:
                try:
                    self._open[number] = self._opened(number)
                except DamagedSegmentError:
                    self._unreadable.add(number)
                except FileNotFoundError:
                    continue
        return sorted({*numbers, *self._open})

    def _opened(self, number: int) -> SegmentReader:
        reader = SegmentReader(self._session, number)
        if reader.lacks_key:
            reader.close()
            raise UnknownSpoolError("it is encrypted, and only the proxy and its compactor have the key")
        return reader

    def _skip_to(self, number: int) -> Portion:
        """What published files have of the segments before this one: they are gone, or can't be read.

        If the compactor has done this one and later ones meanwhile, its files have those, too: it keeps its state after
        the last alone, and without a state what is under way where a segment begins is not known.
        """
        done, known = -1, None
        # a compactor that goes on meanwhile removes the state that was to be read
        while known is None and (newest := self._compacted_up_to()) != done:
            done, known = newest, self._assembly_after(max(newest, number - 1))
        last = max(done, number - 1)
        found = self._published_of(range(self.segment + 1, last + 1))
        if done < last:
            lost = f"segment {last}" if done + 1 == last else f"segments {done + 1} to {last}"
            found.losses.append(Loss(f"{lost} of the log can't be read: what passed then is missing"))
        elif known is None:
            found.losses.append(Loss(f"what was under way at the end of segment {last} of the log is missing"))
        for passed in [each for each in self._open if each <= last]:
            self._open.pop(passed).close()
        self.segment = last
        if known is None:
            self._assembly.damage()
        else:
            self._assembly = known
            # the session may end without another segment
            known.begin_range(self._rows, known.clock_offset_ns)
        return found

    def _end(self) -> Portion:
        """The rest of a session that is over, and whose segments are gone."""
        last = max(self._published_up_to(), self.segment)
        found = self._published_of(range(self.segment + 1, last + 1))
        if last == self.segment and not self._assembly.ended:
            # the proxy was killed: the compactor has cut off what had not come whole
            self._assembly.finish()
            self._take(found)
        self.has_ended = True
        return found

    def _published_of(self, wanted: range) -> Portion:
        """The published files of segments that can't be read any more."""
        return Portion(Listing(*([file for file in table if file.last in wanted] for table in self._published())))

    def _assembly_after(self, segment: int) -> Assembly | None:
        """The compactor's state after a segment; None if there is none that is whole."""
        assembly = Assembly()
        try:
            read_state(self._session, segment, assembly)
        except (InvalidEntryError, FileNotFoundError):
            return None
        return assembly

    def _last_known(self, numbers: list[int], newest: int) -> int:
        """The segment behind which to begin: the last but one, or the one before it if only that one has a state."""
        if not numbers:
            return newest
        # before the first segment there is nothing to know
        known = {0, *segments_with_state(self._session)}
        is_known_before = newest - 1 not in known and newest - 2 in known and newest - 1 in numbers
        return newest - 2 if is_known_before else newest - 1

    def _published(self) -> Listing:
        """The session's published files. Of a segment without frames there are events alone."""
        return Listing(*([file for file in table if file.session == self.name] for table in listed(self._folder)))

    def _compacted_up_to(self) -> int:
        """The last segment that the compactor has done. It may have had no rows."""
        with suppress(FileNotFoundError):
            return max(self._published_up_to(), self.segment, *segments_with_state(self._session))
        return max(self._published_up_to(), self.segment)

    def _published_up_to(self) -> int:
        return max((file.last for table in self._published() for file in table), default=0)

    # entries

    def _read(self, number: int, *, is_sealed: bool) -> Portion:
        reader = self._open[number]
        if reader.position == reader.start.begin:
            self._begin(reader)
        following = self._open.get(number + 1)
        limit = following.head.previous_end if following is not None else None
        newest, old_end = self._old_end
        is_old = number < newest or (number == newest and reader.position < old_end)
        entries = reader.read(old_end if number == newest and is_old else limit)
        if not entries and is_old:
            # the last old entry has not come whole before
            is_old, entries = False, reader.read(limit)
        self.has_caught_up = self.has_caught_up or not is_old
        found = Portion(is_new=not is_old)
        for entry in entries:
            self._assembly.feed(entry)
        if not entries:
            found.is_empty = not is_sealed
            self._pass_over(reader, found, limit, is_sealed=is_sealed)
        self._take(found)
        return found

    def _begin(self, reader: SegmentReader) -> None:
        self._rows = _Rows(self.name, reader.head.cluster)
        self._assembly.begin_range(self._rows, reader.head.clock_ns)
        self._assembly.begin_segment(reader.head.mono_ns)

    def _pass_over(self, reader: SegmentReader, found: Portion, limit: int | None, *, is_sealed: bool) -> None:
        """Passes over bytes that can't be read; ends a segment that has no more entries."""
        before, number = reader.passed_over, reader.head.number
        # in a segment that grows, an entry that has not come whole is waited for
        is_damaged = is_sealed or (self._passed_over_at < reader.size > reader.position and not reader.is_torn())
        self._passed_over_at = reader.size
        if is_damaged and reader.pass_over(limit):
            self._assembly.damage()
            found.is_empty = False
            lost = reader.passed_over - before
            found.losses.append(_unread(lost, number))
        elif is_sealed:
            rest = max((reader.size if limit is None else min(limit, reader.size)) - reader.position, 0)
            if rest:
                self._assembly.damage()
            if lost := rest + self._assembly.invalid_bytes:
                found.losses.append(_unread(lost, number))
            self._open.pop(number).close()
            self.segment, self._passed_over_at = number, 0

    def _take(self, found: Portion) -> None:
        """Moves the rows that were made to what is found. Errors: OverBudget."""
        found.tables, events = self._rows.taken()
        # the groups that were taken must not grow any more
        self._assembly.rows.set_clock(self._assembly.clock_offset_ns)
        found.closed = [event[c.CONNECTION] for event in events if event[c.KIND] == c.EVENT_CLOSED]
        found.losses += [_dropped(event) for event in events if _is_dropped(event)]
        if found.tables:
            self._check_memory()

    def _check_memory(self) -> None:
        parts = (part for conn in self._assembly.connections.values() for part in conn.parts if part is not None)
        if sum(map(len, parts)) > self._most:
            raise OverBudget(f"keeping frames that have not come whole makes more than {in_bytes(self._most)}")


def _is_dropped(event: dict[str, Any]) -> bool:
    """True for a gap that the recorder told of. Gaps by damage have their own sentences."""
    return bool(event[c.KIND] == c.EVENT_GAP and event[c.CAUSE] != c.GAP_DAMAGE)


def _unread(size: int, segment: int) -> Loss:
    return Loss(f"{in_bytes(size)} of segment {segment} can't be read: what they held is missing")


def _dropped(event: dict[str, Any]) -> Loss:
    of = "connections without a word in the log" if event[c.CONNECTION] is None else f"connection {event[c.CONNECTION]}"
    what = "an unknown number of frames" if event[c.FRAMES] is None else f"{event[c.FRAMES]} frames"
    return Loss(f"{what} of {of} were not recorded ({event[c.CAUSE]})", event[c.FRAMES])
