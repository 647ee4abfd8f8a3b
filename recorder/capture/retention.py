"""Removes the oldest hours of a capture that `capture.keep` no longer keeps: frames, events, facts, origins together.

    reason   an hour goes when                                                              a reader may delay it
    age      it ended longer ago than its sessions keep                                     for WAIT_SECONDS
    size     the folder is larger than its sessions keep                                    for WAIT_SECONDS
    free     less than the highest floor of all sessions, and MARGIN, is free on the volume not at all

Each session declares what it keeps (`keep`); files of sessions that declare nothing stay, and so do another user's. An
hour goes as a whole, and is kept as long as the session that keeps it longest. Of the newest hour, in which sessions
still write, the oldest segments go one by one: an hour may be larger than what is kept.

Where a session is shipped, nothing goes of which no bucket has all, also not below the floor: recording stops then.

Events go before frames: a connection without its opening is one whose beginning is not there, so a crash in between
makes no count wrong. Facts go last, and the markers by which they count first. What was removed is counted in
`removed.json` before it goes, and stands there until the events of a session tell it.
"""

from __future__ import annotations

import dataclasses
import errno
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.json import Decoder, encode
from msgspec.structs import replace

from proxy.files import Folder
from proxy.wire.errors import in_bytes
from recorder.capture import frames as c
from recorder.capture.entry_json import Count, InvalidEntryError, Total, decode_checked
from recorder.capture.held import ROW_TABLES, Held, HeldFile, Lister, opened_folder
from recorder.capture.keep import (
    KEEP_FOLDER,
    MARGIN,
    Declared,
    declarations,
    forget,
    highest_floor,
    make_keep,
    size_and_free,
    without_readers,
)
from recorder.capture.partitions import DONE_FOLDER, FACTS_FOLDER, begin_ns
from recorder.capture.session import SPOOL_FOLDER, sessions
from recorder.capture.shipped import ShippedFiles
from recorder.capture.unshipped import ShippingList, stems_held_back

REMOVED_FILE = "removed.json"
# far more than the file takes: each session that lives may tell of each reason
_MAX_REMOVED = 1 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# between two rounds of the compactor, and between two looks at what is free
ROUND_SECONDS, LOOK_SECONDS = 10.0, 0.5
# how long commands that read the capture can delay a removal
WAIT_SECONDS = 3600.0


class Reason(StrEnum):
    """Why something is removed."""

    AGE = "age"
    SIZE = "size"
    FREE = "free"


class Untold(Struct, frozen=True):
    """What was removed for one reason and is in no published event yet.

    Attributes:
        reason, files, bytes: why, how many files, of how many bytes.
        until_ns: the time of the newest row in it, in ns since 1970.
        teller: the session and the range whose events tell it; None: no range has ended since.
    """

    reason: Reason
    files: Total
    bytes: Total
    until_ns: Count
    teller: tuple[str, int] | None = None


class Removed(Struct, frozen=True):
    """What was removed of a capture so far.

    Attributes:
        files, bytes: how many files, and how many bytes by reason.
        whole_from_ns: from when on nothing was removed, in ns since 1970.
        going: what is being removed now (`Unit.key`), and why; a crash may have left a part of it.
        untold: the part of it that no event tells yet: one by reason and teller.
    """

    files: Total = 0
    bytes: dict[Reason, Total] = {}
    whole_from_ns: Count = 0
    going: tuple[str, Reason] | None = None
    untold: tuple[Untold, ...] = ()

    def with_unit(self, key: str, reason: Reason, files: int, size: int, until_ns: int) -> Removed:
        """This, and a unit whose removal begins."""
        sizes = self.bytes | {reason: self.bytes.get(reason, 0) + size}
        untold = _joined([*self.untold, Untold(reason, files, size, until_ns)])
        return Removed(self.files + files, sizes, max(self.whole_from_ns, until_ns), (key, reason), untold)


def _joined(untold: Iterable[Untold]) -> tuple[Untold, ...]:
    """One for each reason and teller."""
    found: dict[tuple[Reason, tuple[str, int] | None], Untold] = {}
    for one in untold:
        place = one.reason, one.teller
        if other := found.get(place):
            until_ns = max(one.until_ns, other.until_ns)
            one = Untold(one.reason, one.files + other.files, one.bytes + other.bytes, until_ns, one.teller)
        found[place] = one
    return tuple(found.values())


_REMOVED = Decoder(Removed)


def removed_so_far(folder: Path) -> Removed:
    """What was removed of a capture; nothing if that can't be read."""
    with suppress(OSError), Folder.at(folder) as capture, capture.folder(KEEP_FOLDER) as keep:
        return _removed(keep)
    return Removed()


@contextmanager
def removing(keep: Folder, key: str, reason: Reason, files: int, size: int, until_ns: int) -> Iterator[None]:
    """Counts files that are removed within the block, unless a crash cut their removal off: then they were counted.

    Where the volume is full to the last byte, they are counted behind the block.

    `key`: of the unit; `until_ns`: the time of the newest row in it. Errors: OSError.
    """
    before = _removed(keep)
    if before.going != (key, reason):
        before = before.with_unit(key, reason, files, size, until_ns)
        try:
            _write(keep, before)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            # what goes makes room in which it is counted
    yield
    _write(keep, replace(before, going=None))


def to_tell(folder: Path, session: str, told: int, segment: int) -> list[Untold]:
    """What the events of a session's range tell: removals that no event tells yet.

    The range has them for good: made again after a crash, it tells them again. What another process is about to write
    down waits for the next range. `told`: the last range that is published; `segment`: the range that is to be.
    Errors: OSError where nothing can be read.
    """
    own, others = (session, segment), {*sessions(folder)} - {session}

    def teller(one: Untold) -> tuple[str, int]:
        is_told_elsewhere = one.teller is not None and (one.teller[0] != session or one.teller[1] <= told)
        return one.teller if one.teller is not None and is_told_elsewhere else own

    with Folder.at(folder) as capture, opened_folder(capture, KEEP_FOLDER) as keep:
        if keep is None:
            return []
        found = _removed(keep)
        # a full volume: nothing more is told for now
        with suppress(OSError):
            if found.untold and keep.lock():
                before = _removed(keep)
                by = [(teller(one), one) for one in before.untold]
                # the events of sessions that have ended are published
                left = _joined(replace(one, teller=at) for at, one in by if at == own or at[0] in others)
                if left != before.untold:
                    _write(keep, replace(before, untold=left))
                found = replace(before, untold=left)
        return [one for one in found.untold if one.teller == own]


def _write(keep: Folder, removed: Removed) -> None:
    keep.replace(REMOVED_FILE, encode(removed), mode=0o666)


def _removed(keep: Folder) -> Removed:
    with suppress(FileNotFoundError, InvalidEntryError):
        found: Removed = decode_checked(_REMOVED, keep.read(REMOVED_FILE, _MAX_REMOVED))
        return found
    return Removed()


class Unit(NamedTuple):
    """Files that go together.

    Attributes:
        key: names them: an hour, or a segment in it.
        until_ns: when their hour ends, in ns since 1970.
        keeps: what each of their sessions declares.
    """

    key: str
    until_ns: int
    files: tuple[HeldFile, ...]
    keeps: tuple[Declared, ...]

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)

    @property
    def newest_ns(self) -> int:
        """The time of its newest row, in ns since 1970; of its end, if files were written later."""
        return min(max(file.at_ns for file in self.files), self.until_ns)

    def is_held_back(self, stems: frozenset[str]) -> bool:
        """True if a session in it is shipped, and of one of its stems no bucket has all."""
        return any(keep.ship for keep in self.keeps) and any(file.stem in stems for file in self.files)

    @property
    def age(self) -> float | None:
        """The longest time that a session keeps it; None: for ever."""
        ages = [keep.age for keep in self.keeps]
        return None if None in ages else max(each for each in ages if each is not None)

    @property
    def size_limit(self) -> int | None:
        """The largest folder that its sessions keep; None: no bound."""
        sizes = [keep.size for keep in self.keeps]
        return None if None in sizes else max(each for each in sizes if each is not None)


class Room(NamedTuple):
    """Bytes of the capture's folder, bytes free on its volume, and how many of these are enough."""

    size: int
    free: int
    enough: int


def due(
    units: Sequence[Unit], room: Room, now_ns: int, begun: tuple[str, Reason] | None = None
) -> Iterator[tuple[Unit, Reason]]:
    """The units that go, oldest first.

    `units`: in the order of their time. `begun`: the key of a unit whose removal a crash cut off, and its reason.
    """
    size, free = room.size, room.free
    for unit in units:
        if begun is not None and unit.key == begun[0]:
            reason = begun[1]
        elif free < room.enough:
            # first: this reason alone waits for no reader
            reason = Reason.FREE
        elif unit.age is not None and unit.until_ns + unit.age * 1e9 <= now_ns:
            reason = Reason.AGE
        elif unit.size_limit is not None and size > unit.size_limit:
            reason = Reason.SIZE
        else:
            continue
        size, free = size - unit.size, free + unit.size
        yield unit, reason


class Round(NamedTuple):
    """The outcome of a round: what went and why; whether readers delay it; the sessions that had files.

    `of_others`: those of them that stay, because they are another user's. `size`: bytes of the folder afterwards.
    """

    went: list[tuple[Unit, Reason]]
    is_delayed: bool
    present: frozenset[str]
    of_others: frozenset[str]
    size: int


class Remover:
    """Looks at a capture now and then, and removes what is due. One process at a time removes.

    Args:
        folder: the capture.
        keeps: what all sessions of this user keep, whatever they declare; None: what each declares.
    """

    def __init__(
        self,
        folder: Path,
        keeps: Declared | None = None,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
        volume: Callable[[Path], tuple[int, int]] = size_and_free,
        before_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._folder, self._keeps = folder, keeps
        self._now_ns, self._clock, self._volume, self._before_step = now_ns, clock, volume, before_step
        self._delayed_since: float | None = None
        # bytes free on the volume below which something is to go, as of the last round
        self._enough = 0
        self._listing = Lister()
        self._shipped, self._to_ship = ShippedFiles(), ShippingList()

    def is_low(self) -> bool:
        """True if less is free than should be, by the floors that the last round has read. Errors: OSError."""
        return self._volume(self._folder)[1] < self._enough

    def round(self, *, dry: bool = False) -> Round | None:
        """Removes what is due; None if another process does. `dry`: removes nothing.

        Errors: OSError, StrangeFileError included.
        """
        with Folder.at(self._folder) as capture:
            if dry:
                # nothing is written, so that a capture of which only reading is allowed can be looked at
                with opened_folder(capture, KEEP_FOLDER) as existing:
                    seen = self._look(capture, dict(declarations(existing)) if existing else {})
                return seen._replace(size=seen.size - sum(unit.size for unit, _ in seen.went))
            with make_keep(capture) as keep:
                return self._round(capture, keep) if keep.lock() else None

    def _round(self, capture: Folder, keep: Folder) -> Round:
        declared = dict(declarations(keep))
        # asked before files are listed: a session that ends meanwhile has its files then
        unfinished = {*sessions(self._folder)}
        seen = self._look(capture, declared)
        if not seen.went:
            self._delayed_since = None
            if self._keeps is None:
                # what sessions declared of which nothing is left
                for session in declared.keys() - seen.present - unfinished:
                    forget(keep, session)
            return seen
        went, is_delayed = self._remove(capture, keep, seen.went)
        return seen._replace(went=went, is_delayed=is_delayed, size=seen.size - sum(unit.size for unit, _ in went))

    def _look(self, capture: Folder, declared: Mapping[str, Declared]) -> Round:
        """What is due."""
        held = self._listing.files(capture)
        present = frozenset(file.session for files in held.values() for file in files)
        held_back = frozenset[str]()
        if any(one.ship for one in declared.values()):
            held_back = stems_held_back(capture, held, self._shipped, self._to_ship)
        if self._keeps is not None:
            ships = {session: session in declared and declared[session].ship for session in present}
            declared = {session: dataclasses.replace(self._keeps, ship=ships[session]) for session in present}
        size = _size_of(capture, held)
        volume, free = self._volume(self._folder)
        floor = highest_floor(declared, volume)
        self._enough = floor + int(volume * MARGIN) if floor else 0
        room = Room(size, free, self._enough)
        now_ns = self._now_ns()
        units = [unit for unit in units_of(held, declared, now_ns) if not unit.is_held_back(held_back)]
        going = list(due(units, room, now_ns, removed_so_far(self._folder).going))
        of_others = frozenset(file.session for files in held.values() for file in files if not file.is_own)
        return Round(going, False, present, of_others, size)

    def _remove(
        self, capture: Folder, keep: Folder, going: list[tuple[Unit, Reason]]
    ) -> tuple[list[tuple[Unit, Reason]], bool]:
        went = []
        with without_readers(keep) as are_none:
            may_wait = not are_none and not self._has_waited()
            for unit, reason in going:
                if may_wait and reason is not Reason.FREE:
                    continue
                self._before_step("count")
                with removing(keep, unit.key, reason, len(unit.files), unit.size, unit.newest_ns):
                    self._remove_files(capture, unit)
                went.append((unit, reason))
        is_delayed = len(went) < len(going)
        if not is_delayed:
            self._delayed_since = None
        return went, is_delayed

    def _has_waited(self) -> bool:
        if self._delayed_since is None:
            self._delayed_since = self._clock()
        return self._clock() - self._delayed_since >= WAIT_SECONDS

    def _remove_files(self, capture: Folder, unit: Unit) -> None:
        with opened_folder(capture, FACTS_FOLDER, DONE_FOLDER) as done:
            if done is not None:
                for marker in sorted({Path(file.name).stem for file in unit.files}):
                    self._before_step(f"remove marker {marker}")
                    done.remove(marker)
        for file in sorted(unit.files, key=lambda file: _rank(file.table)):
            self._before_step(f"remove {file.table} {file.name}")
            with opened_folder(capture, *file.folders) as opened:
                if opened is not None:
                    opened.remove(file.name)
        if unit.until_ns <= self._now_ns():
            for table, date, hour in sorted({(file.table, file.date, file.hour) for file in unit.files}):
                _remove_empty_folders(capture, table, date, hour)


def _size_of(capture: Folder, held: Held) -> int:
    """Bytes of the whole folder: rows, facts and log."""
    size = sum(file.size for files in held.values() for file in files)
    with opened_folder(capture, SPOOL_FOLDER) as spool:
        if spool is not None:
            for session in filter(spool.is_folder, spool.names()):
                # a session may end meanwhile; another user's is closed to others
                with suppress(FileNotFoundError, PermissionError), spool.folder(session) as opened:
                    size += sum(found.st_size for name in opened.names() if (found := opened.stat(name)))
    return size


def _remove_empty_folders(capture: Folder, table: str, date: str, hour: str) -> None:
    """Removes the folder of an hour, and that of its date, as far as nothing is in them."""
    day = f"{c.DATE}={date}"
    for around, name in ([*table.split("/"), day], f"{c.HOUR}={hour}"), (table.split("/"), day):
        with suppress(OSError), opened_folder(capture, *around) as opened:
            if opened is not None:
                opened.remove_folder(name)


def _rank(table: str) -> int:
    return ROW_TABLES.index(table) if table in ROW_TABLES else len(ROW_TABLES)


def units_of(held: Held, declared: Mapping[str, Declared], now_ns: int) -> list[Unit]:
    """What may go, oldest first: whole hours, and the segments of the newest one. `held`: by (date, hour), in order.

    Once a clock was wrong there are hours still to come: the hour that is now is not the newest then.
    """
    found = []
    newest = max(held, default=None)
    for place, files in held.items():
        ours = [file for file in files if file.is_own and file.session in declared]
        hour = "/".join(place)
        if place != newest and _end_of(*place) <= now_ns:
            parts = {hour: ours} if ours else {}
        else:
            parts = defaultdict(list)
            for file in sorted(ours, key=lambda file: file.at_ns):
                parts[f"{hour}/{file.session}-{file.first}"].append(file)
        for key, part in parts.items():
            keeps = tuple(declared[session] for session in sorted({file.session for file in part}))
            found.append(Unit(key, _end_of(*place), tuple(part), keeps))
    return found


def _end_of(date: str, hour: str) -> int:
    """When an hour ends, in ns since 1970; 0 for folders of no hour, whose files are then the oldest."""
    try:
        return begin_ns(date, hour) + c.HOUR_NS
    except ValueError:
        return 0


class Keeper:
    """A compactor's part in the retention: looks now and then.

    `say`: called with a line on each round that removed something, or could not.

    Attributes:
        size: bytes of the capture's folder, as of the last round; 0 before it.
        files, bytes: what this compactor has removed.
    """

    def __init__(self, folder: Path, say: Callable[[str], None], remover: Remover | None = None) -> None:
        self._folder, self._say = folder, say
        self._remover = remover or Remover(folder)
        self._next_look = self._next_round = 0.0
        self._has_more = True
        self._told = ""
        self.size = self.files = self.bytes = 0

    def look(self) -> None:
        """Does a round if it is time, or if little is free. What can't be removed now is said, and tried again."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        try:
            if now < self._next_round and not (self._has_more and self._remover.is_low()):
                return
            self._next_round = now + ROUND_SECONDS
            done = self._remover.round()
        except OSError as error:
            self._say_once(f"nothing is removed: {error}")
            return
        # where nothing is left to remove, a round at each look would only cost time
        self._has_more = done is not None and bool(done.went)
        if done is not None:
            self._tell(done)

    def to_tell(self, session: str, told: int, segment: int) -> list[Untold]:
        """What the events of a range tell, as `to_tell`; nothing where that can't be read."""
        try:
            return to_tell(self._folder, session, told, segment)
        except OSError as error:
            self._say_once(f"what was removed is in no event: {error}")
            return []

    def _tell(self, done: Round) -> None:
        self.size = done.size
        if done.went:
            files, freed = sum(len(unit.files) for unit, _ in done.went), sum(unit.size for unit, _ in done.went)
            self.files, self.bytes = self.files + files, self.bytes + freed
            why = ", ".join(sorted({f"keep.{reason}" for _, reason in done.went}))
            self._say(f"removed {files} files of {in_bytes(freed)}, until {_shown(done.went[-1][0])} ({why})")
        if done.is_delayed:
            self._say_once("a command reads the capture, so what is due to be removed waits for it, an hour at most")

    def _say_once(self, line: str) -> None:
        if line != self._told:
            self._told = line
            self._say(line)


def _shown(unit: Unit) -> str:
    return f"{datetime.fromtimestamp(unit.newest_ns // 10**9, UTC):%Y-%m-%d %H:%M} UTC"
