"""How much of a capture is kept: the settings of `capture.keep`, and the file in which each session declares its own.

    FOLDER/_keep/<session>.keep     what the session's settings keep; stays as long as files of the session do
                 removed.json       what was removed so far (`retention`)
                 readers.lock       held, shared, by the commands that read the capture

The tap asks `RoomWatch` whether the volume has room for more. Commands `begin_reading`, so that removals wait for them.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from proxy.files import Folder
from proxy.schema.errors import InvalidValue
from proxy.schema.keys import Key
from proxy.schema.kinds import LIMIT, SIZE, Kind, Toml, at_least
from recorder.capture.shipping_settings import ShipSettings

KEEP_FOLDER = "_keep"
READERS_LOCK = "readers.lock"
_SUFFIX = ".keep"
# far more than a declaration takes
_MAX_DECLARATION = 4096
# a floor is a part of the volume, in percent, or a number of bytes
_PERCENT = re.compile(r"\s*([0-9]{1,2}(?:\.[0-9]+)?)\s*%\s*")
# where recording has stopped, it begins again at this part of the volume above the floor, where removal also ends
MARGIN = 0.01
# seconds between two looks at the volume, and between two looks at what other sessions declare
LOOK_SECONDS = 0.5
DECLARED_SECONDS = 30.0
# looks while a session fills all the room that there is
LOOKS = 8
# seconds before each try of a reader to hold removals back
_PAUSES = (0.0, 0.05, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Floor:
    """The space on the volume that stays free: a share of the volume (0 to 1), or bytes."""

    share: float = 0.0
    size: int = 0

    def of(self, volume: int) -> int:
        """The floor in bytes, for a volume of so many bytes."""
        return max(int(self.share * volume), self.size)

    def __str__(self) -> str:
        return str(_written_floor(self))


# a number without a unit is in bytes, and meant as a percentage, or in another unit
_LEAST = 1 << 20
# hours are removed whole; a number without a unit is in seconds, and meant as days
AGE = at_least(3600)
# so that a recorder never fills a disk that others use, too
DEFAULT_FLOOR = Floor(share=0.05)
NO_FLOOR = Floor()


def _floor(raw: Any) -> Floor:
    percent = _PERCENT.fullmatch(raw) if isinstance(raw, str) else None
    if percent is not None:
        return Floor(share=float(percent[1]) / 100)
    try:
        size: int = SIZE.read(raw)
    except InvalidValue as error:
        raise InvalidValue('is neither a part of the volume such as "5%" nor a size') from error
    if 0 < size < _LEAST:
        raise InvalidValue(f"would keep no more than {size} bytes free")
    return Floor(size=size)


def _written_floor(floor: Floor) -> Toml:
    return f"{floor.share * 100:g}%" if floor.share else SIZE.written(floor.size)


def _kept_size(raw: Any) -> int:
    size: int = LIMIT.read(raw)
    if size < _LEAST:
        raise InvalidValue(f"would keep no more than {size} bytes")
    return size


FLOOR = Kind('a part of the volume such as "5%", or a size', _floor, _written_floor, "FLOOR")
KEPT_SIZE = replace(LIMIT, read=_kept_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSettings(ShipSettings):
    """The settings that bound the capture. Times are in seconds, sizes in bytes; None: no bound."""

    keep_age: Annotated[
        float | None,
        Key(AGE, "keep.age", "Remove what is older, whole hours at a time.", "7d", unset="for ever"),
    ] = None
    keep_size: Annotated[
        int | None,
        Key(
            KEPT_SIZE,
            "keep.size",
            "Remove the oldest hours once the folder is larger: frames, events, facts and log together.",
            "200GiB",
            unset="no bound",
        ),
    ] = None
    keep_free: Annotated[
        Floor,
        Key(
            FLOOR,
            "keep.free",
            "Free space that the volume keeps: the oldest hours go, and where nothing may go, recording stops. "
            "`0` for none.",
            "10%",
        ),
    ] = DEFAULT_FLOOR


@dataclass(frozen=True, slots=True)
class Declared:
    """What a session's settings keep; see KeepSettings. `ship`: only what is shipped may go."""

    age: float | None = None
    size: int | None = None
    free: Floor = NO_FLOOR
    ship: bool = False

    @classmethod
    def of(cls, text: bytes) -> Self:
        """What a file declares. Errors: ValueError, TypeError, KeyError, RecursionError."""
        told = json.loads(text)
        # sessions of versions that did not ship say nothing of it
        found = cls(told["age"], told["size"], Floor(**told["free"]), told.get("ship") is True)
        numbers = (found.age, found.size, found.free.share, found.free.size)
        if any(type(each) not in (int, float) or not 0 <= each < math.inf for each in numbers if each is not None):
            raise ValueError("no numbers")
        return found


def declare(folder: Path, session: str, settings: KeepSettings) -> None:
    """Writes what a session keeps, and makes the lock for readers. Errors: OSError."""
    declared = Declared(settings.keep_age, settings.keep_size, settings.keep_free, settings.ship is not None)
    with Folder.at(folder) as capture, make_keep(capture) as keep:
        # readers may not be able to make it: they only read
        os.close(_open_readers_lock(keep))
        keep.replace(session + _SUFFIX, json.dumps(asdict(declared)).encode(), sync=False)


def make_keep(capture: Folder) -> Folder:
    """The folder of retention, made if it is missing: the capture's owner has to write there. Errors: OSError."""
    return capture.make_folder(KEEP_FOLDER, owner=capture.owner)


def declarations(keep: Folder) -> Iterator[tuple[str, Declared]]:
    """The sessions of this user that declare what they keep. Unreadable declarations count as none. Errors: OSError."""
    for name in keep.names():
        session = name.removesuffix(_SUFFIX)
        status = keep.stat(name)
        if session == name or status is None or status.st_uid != os.geteuid():
            continue
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
            yield session, Declared.of(keep.read(name, _MAX_DECLARATION))


def forget(keep: Folder, session: str) -> None:
    """Removes a session's declaration. Errors: OSError."""
    keep.remove(session + _SUFFIX)


def highest_floor(declared: Mapping[str, Declared], volume: int) -> int:
    """The highest floor of all, in bytes: it binds every session on the volume."""
    return max((one.free.of(volume) for one in declared.values()), default=0)


@contextmanager
def without_readers(keep: Folder) -> Iterator[bool]:
    """Within the block no command begins to read. The value is False if one reads already. Errors: OSError."""
    descriptor = _open_readers_lock(keep)
    try:
        yield _is_locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _open_readers_lock(keep: Folder) -> int:
    return keep.open(READERS_LOCK, os.O_RDONLY | os.O_CREAT, 0o644)


# the locks that this process holds, by device and inode: a process may read a capture many times
_reading = set[tuple[int, int]]()


def begin_reading(folder: Path) -> None:
    """Holds removals back until this process ends. Does nothing if the capture has no retention, or no lock is free.

    A removal takes a moment, for which this function waits.
    """
    with suppress(OSError), Folder.at(folder) as capture, capture.folder(KEEP_FOLDER) as keep:
        descriptor = keep.open(READERS_LOCK)
        found = os.fstat(descriptor)
        lock = found.st_dev, found.st_ino
        if lock not in _reading and _is_locked_soon(descriptor):
            _reading.add(lock)
        else:
            os.close(descriptor)


def _is_locked_soon(descriptor: int) -> bool:
    for pause in _PAUSES:
        time.sleep(pause)
        if _is_locked(descriptor, fcntl.LOCK_SH):
            return True
    return False


def _is_locked(descriptor: int, kind: int) -> bool:
    """True if the lock was taken; also if the file system has none."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class RoomWatch:
    """Tells how much a session may write into its folder: until no more than the highest floor is free.

    Not thread-safe: the thread that writes the log asks.

    Attributes:
        free: bytes free on the volume, as of the last look.
        room: how many of them are above the floor. Once there were none: above the floor and MARGIN.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        volume: Callable[[Path], tuple[int, int]] | None = None,
    ) -> None:
        self._folder, self._clock, self._volume = folder, clock, volume or size_and_free
        self._floor = 0
        self._next_look = self._next_read = 0.0
        # bytes written before the next look
        self._next_written = 0
        self.free = self.room = 0
        self.is_low = False

    def look(self, written: int = 0) -> bool:
        """True if it has looked: LOOK_SECONDS after the last time, or once a part of the room may have been taken.

        `written`: the bytes that the caller has written so far. Errors: OSError.
        """
        now = self._clock()
        if now < self._next_look and written < self._next_written:
            return False
        self._next_look = now + LOOK_SECONDS
        size, self.free = self._volume(self._folder)
        if now >= self._next_read:
            self._next_read = now + DECLARED_SECONDS
            self._floor = self._read_floor(size)
        self.room = max(self.free - self._floor - (int(size * MARGIN) if self.is_low else 0), 0)
        # without a floor the disk itself says when it is full
        self.is_low = bool(self._floor) and not self.room
        self._next_written = written + max(self.room // LOOKS, 1)
        return True

    def _read_floor(self, size: int) -> int:
        try:
            with Folder.at(self._folder) as capture, capture.folder(KEEP_FOLDER) as keep:
                return highest_floor(dict(declarations(keep)), size)
        except FileNotFoundError:
            return 0


def size_and_free(folder: Path) -> tuple[int, int]:
    """The bytes of a folder's volume, and how many of them this user may still write. Errors: OSError."""
    found = os.statvfs(folder)
    return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail


def volume_size(folder: Path) -> int | None:
    """The bytes of the volume that holds a folder, or will once it is made; None if nobody can tell."""
    with suppress(OSError):
        existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        return size_and_free(existing)[0]
    return None
