"""What is shipped to a bucket: the records of it on the local disk, and the status of the process that ships.

    FOLDER/_ship/<target>/url                       the target's URL, of which <target> is a digest
           _ship/<target>/2026-11-21T13.json        the shipped files of an hour: path -> size, time of the last change
           _ship/status.json                        how far the shipper is

A file counts as shipped once a record says so, and as long as its size and time are those of the record. Records are
replaced as a whole, after the store was asked what it holds. `_ship` is locked as long as a process ships.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.json import Decoder, encode

from proxy.files import Folder
from recorder.capture.entry_json import InvalidEntryError, decode_checked

SHIP_FOLDER = "_ship"
SHIP_LOCK, STATUS_FILE = "shipper.lock", "status.json"
_URL_FILE = "url"
# far more than the files take: an hour of many workers has ten thousands of files
_MAX_RECORD, _MAX_STATUS = 1 << 28, 1 << 16
_TARGET = re.compile(r"[0-9a-f]{16}")
_RECORD = re.compile(r"(\d{4}-\d\d-\d\dT\d\d)\.json")
# an older status is that of a process that hangs or has gone
FRESH_NS = 120 * 10**9


class Shipped(Struct, frozen=True, array_like=True):
    """A file as it was shipped: its size, and when it changed last, in ns since 1970."""

    size: int
    at_ns: int


_Hour = dict[str, Shipped]
_Version = tuple[int, int, int] | None
_HOURS: Decoder[_Hour] = Decoder(_Hour)


class ShipStatus(Struct, frozen=True):
    """How far the shipper is.

    Attributes:
        files, bytes: what was shipped since shipping began.
        waiting_files, waiting_bytes: what is published and not shipped.
        oldest_ns: when the oldest of these was published, in ns since 1970; 0: there is none.
        failures: how many tries have failed, by cause.
        failing: the cause of the last try's failure; "": it did not fail.
        at_ns: the time of this status, in ns since 1970; 0: there is no status yet.
    """

    files: int = 0
    bytes: int = 0
    waiting_files: int = 0
    waiting_bytes: int = 0
    oldest_ns: int = 0
    failures: dict[str, int] = {}
    failing: str = ""
    at_ns: int = 0


_STATUS = Decoder(ShipStatus)


def hour_of(at_ns: int) -> str:
    """The name of an hour's record, without its ending. `at_ns`: in the hour, in ns since 1970."""
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%dT%H}"


def read_status(folder: Path) -> ShipStatus | None:
    """The newest status; None if there is none, or if it can't be read."""
    with (
        suppress(OSError, InvalidEntryError),
        Folder.at(folder) as capture,
        capture.folder(SHIP_FOLDER) as ship,
    ):
        found: ShipStatus = decode_checked(_STATUS, ship.read(STATUS_FILE, _MAX_STATUS))
        return found
    return None


def write_status(ship: Folder, status: ShipStatus) -> None:
    """Replaces the status file. Errors: OSError."""
    ship.replace(STATUS_FILE, encode(status), mode=0o644, sync=False)


class ShippedFiles:
    """The records of all targets. Reads those that have changed since the last look."""

    def __init__(self) -> None:
        # (target, hour) -> what tells its file from the next one, and what it says
        self._hours: dict[tuple[str, str], tuple[_Version, _Hour]] = {}

    def look(self, capture: Folder) -> None:
        """Reads the records. What is no record is passed over. Errors: OSError."""
        known, self._hours = self._hours, {}
        with suppress(FileNotFoundError), capture.folder(SHIP_FOLDER) as ship:
            for target in filter(_TARGET.fullmatch, ship.names()):
                with ship.folder(target) as opened:
                    for hour in _hours(opened):
                        found = opened.stat(f"{hour}.json")
                        version = (found.st_mtime_ns, found.st_ino, found.st_size) if found else None
                        before = known.get((target, hour), (None, {}))
                        is_known = version is not None and version == before[0]
                        self._hours[target, hour] = before if is_known else (version, _read(opened, hour))

    def has(self, path: str, hour: str, file: Shipped) -> bool:
        """True if some bucket has the file. `hour`: that of its record."""
        return any(files.get(path) == file for (_, of_hour), (_, files) in self._hours.items() if of_hour == hour)


class Records:
    """The records of one target, which this process alone writes: it has locked `ship`. Errors of all: OSError."""

    def __init__(self, ship: Folder, url: str) -> None:
        target = hashlib.sha256(url.encode()).hexdigest()[:16]
        self._folder = ship.make_folder(target)
        self._folder.replace(_URL_FILE, url.encode(), mode=0o644)
        self._hours = defaultdict[str, _Hour](dict)
        self._hours.update({hour: _read(self._folder, hour) for hour in _hours(self._folder)})
        self._unsaved = set[str]()

    def has(self, path: str, hour: str, file: Shipped) -> bool:
        """True if the target has the file, also if that is not saved yet."""
        return self._hours[hour].get(path) == file

    def add(self, path: str, hour: str, file: Shipped) -> None:
        """Counts a file as shipped; `save` makes it last."""
        self._hours[hour][path] = file
        self._unsaved.add(hour)

    def save(self) -> None:
        """Writes what was added."""
        while self._unsaved:
            hour = self._unsaved.pop()
            try:
                self._folder.replace(f"{hour}.json", encode(self._hours[hour]), mode=0o644)
            except OSError:
                self._unsaved.add(hour)
                raise

    def keep_only(self, hours: set[str]) -> None:
        """Removes the records of all other hours: nothing of them is left in the capture."""
        for hour in [hour for hour in self._hours if hour not in hours]:
            del self._hours[hour]
            self._unsaved.discard(hour)
            self._folder.remove(f"{hour}.json")

    def close(self) -> None:
        """Closes the folder."""
        self._folder.close()


def _hours(target: Folder) -> Iterator[str]:
    yield from (found[1] for name in target.names() if (found := _RECORD.fullmatch(name)))


def _read(target: Folder, hour: str) -> _Hour:
    """What a record says; nothing if it can't be read: its files are looked for in the bucket then."""
    with suppress(FileNotFoundError, InvalidEntryError):
        found: _Hour = decode_checked(_HOURS, target.read(f"{hour}.json", _MAX_RECORD))
        return found
    return {}
