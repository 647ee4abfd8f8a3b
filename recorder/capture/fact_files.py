"""The files of facts beside a capture's files of frames, and the markers by which they count.

    facts/<table>/date=…/hour=…/<stem>.parquet     the facts of frames/date=…/hour=…/<stem>.parquet, and of nothing else
    facts/_done/<stem>                             the marker: the facts' number; of each hour's file of frames its size
                                                   and digest, and the rows, size and digest of each table's file

Facts can be made anew from the frames at any time, so nothing is lost with them. A marker is renamed into place after
all files that it tells of; before the files are made anew, one that counts for nothing takes its place. So facts count
once they are whole, through any crash, and what a crash leaves is found by the hours in the marker. A table without
rows has no file. Facts don't count either if their number is another, if a file of theirs has gone or has another size,
or if the frames' file has changed. Who reads facts also looks at their digests (`checked`): not every engine checks
Parquet's checksums.

Usually the facts' folder is in the capture. A reader may keep it elsewhere, as `facts` in a folder of its own.

`facts/_done` is locked as long as a process makes facts: two would write the same hidden files.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.json import Decoder, encode

from proxy.files import Folder
from recorder.capture import frames as c
from recorder.capture.entry_json import InvalidEntryError, decode_checked
from recorder.capture.partitions import DONE_FOLDER, FACTS_FOLDER, hidden, hour_folders
from recorder.capture.reader import CaptureFile, files
from recorder.capture.remote import Place, S3Path, size_of
from recorder.capture.storage import BeforeStep, TableFile, publish
from recorder.facts.tables import NUMBER, TABLES

# far more than a marker takes
MAX_MARKER = 1 << 20
# the number of a marker whose facts are yet to be made
_UNMADE = -1
_HASHED_BYTES = 1 << 20
HOUR = re.compile(rf"{c.DATE}=\d{{4}}-\d\d-\d\d/{c.HOUR}=\d\d")


class State(StrEnum):
    """What is there of a file's facts. All but CURRENT ones are made anew."""

    CURRENT = "current"
    MISSING = "missing"
    OTHER_NUMBER = "of another number"
    OTHER_FRAMES = "of other frames"
    DAMAGED = "damaged"


class TableFacts(Struct, frozen=True):
    """One table's file of an hour."""

    rows: int
    bytes: int
    digest: str


class HourFacts(Struct, frozen=True):
    """The facts of one file of frames, which had this size and digest; the tables with rows."""

    size: int
    digest: str
    tables: dict[str, TableFacts]


class Marker(Struct, frozen=True):
    """What a marker tells. `hours`: by the hour's folders ("date=2026-11-21/hour=12")."""

    number: int
    hours: dict[str, HourFacts]


_MARKERS: Decoder[Marker] = Decoder(Marker)


def void_marker(stem: Stem) -> bytes:
    """A marker that counts for nothing: the stem's facts are yet to be made."""
    return encode(Marker(_UNMADE, {hour_key(file): HourFacts(0, "", {}) for file in stem.files}))


def state_of_number(number: int) -> State:
    """What a marker's number tells of its facts."""
    return State.CURRENT if number == NUMBER else State.MISSING if number == _UNMADE else State.OTHER_NUMBER


class Stem(NamedTuple):
    """The files of frames with one name, one for each hour of its segments: they share a marker."""

    name: str
    files: tuple[CaptureFile, ...]


def stems(folder: Place) -> list[Stem]:
    """The files of frames by name, in the order of the log. Errors: as of `reader.files`."""
    by_name = defaultdict[str, list[CaptureFile]](list)
    for file in files(folder):
        by_name[file.path.stem].append(file)
    return [Stem(name, tuple(found)) for name, found in by_name.items()]


def hour_key(file: CaptureFile) -> str:
    """The folders of a file's hour, as a marker has them."""
    return "/".join(hour_folders(file.hour_ns // c.HOUR_NS))


def open_facts(folder: Path) -> Folder:
    """The folder of the markers, made if it is missing. Errors: OSError."""
    with Folder.at(folder) as capture, capture.make_folder(FACTS_FOLDER) as facts:
        return facts.make_folder(DONE_FOLDER)


def read_marker(done: Folder, stem: str) -> Marker | None:
    """What a marker tells; None if there is none, or if it is no marker. Errors: OSError."""
    try:
        return marker_in(done.read(stem, MAX_MARKER))
    except (FileNotFoundError, InvalidEntryError):
        return None


def marker_in(data: bytes) -> Marker:
    """What a marker's bytes tell. Errors: InvalidEntryError."""
    return decode_checked(_MARKERS, data)  # type: ignore[no-any-return]


def state_of(folder: Path, stem: Stem, *, checked: bool = False, tables: Collection[str] | None = None) -> State:
    """What is there of the facts of a stem's files. Errors: OSError.

    `checked`: also by the digests of facts; `tables`: of these tables, None: of all.
    """
    try:
        with (
            Folder.at(folder) as capture,
            capture.folder(FACTS_FOLDER) as facts,
            facts.folder(DONE_FOLDER) as done,
        ):
            marker = read_marker(done, stem.name)
            if marker is None:
                return State.DAMAGED if done.stat(stem.name) else State.MISSING
            made_ns = (done.stat(stem.name) or os.stat_result([0] * 10)).st_mtime_ns
            state = _state(facts, stem, marker, made_ns)
            are_good = state is not State.CURRENT or not checked or _are_as_made(folder, stem, marker, tables)
            return state if are_good else State.DAMAGED
    except FileNotFoundError:
        return State.MISSING


def _state(facts: Folder, stem: Stem, marker: Marker, made_ns: int) -> State:
    if (state := state_of_number(marker.number)) is not State.CURRENT:
        return state
    for file in stem.files:
        hour = marker.hours.get(hour_key(file))
        if hour is None or not _is_of(hour, file.path, made_ns):
            return State.OTHER_FRAMES
        if {name: table.bytes for name, table in hour.tables.items()} != _sizes(facts, file):
            return State.DAMAGED
    return State.CURRENT


def _is_of(hour: HourFacts, path: Place, made_ns: int) -> bool:
    """True if the frames' file is that of the facts. Its bytes are only read if it is newer than the marker.

    In a bucket a file's time is that of its upload, so its size alone is looked at.
    """
    if isinstance(path, S3Path):
        return size_of(path) == hour.size
    found = path.stat()
    return found.st_size == hour.size and (found.st_mtime_ns < made_ns or digest_of(path) == hour.digest)


def _are_as_made(folder: Path, stem: Stem, marker: Marker, tables: Collection[str] | None) -> bool:
    return all(
        digest_of(path) == marker.hours[hour_key(file)].tables[table].digest
        for file in stem.files
        for table, path in _paths(folder, file, marker).items()
        if tables is None or table in tables
    )


def _paths(folder: Path, file: CaptureFile, marker: Marker) -> dict[str, Path]:
    """The files of the facts of a file of frames, by table."""
    named = zip(marker.hours[hour_key(file)].tables, fact_paths_of(file, marker), strict=True)
    return {table: folder / FACTS_FOLDER / path for table, path in named}


def fact_paths_of(file: CaptureFile, marker: Marker) -> list[str]:
    """The files of the facts of a file of frames, in the folder of facts; none if the marker does not know the file.

    Errors: InvalidEntryError for a marker that names no table of facts.
    """
    hour = marker.hours.get(hour_key(file))
    tables = hour.tables if hour else {}
    if not {table.name for table in TABLES} >= tables.keys():
        raise InvalidEntryError("a marker names other tables than those of facts")
    return [f"{table}/{hour_key(file)}/{file.path.name}" for table in tables]


def fact_paths(folder: Path, stem: Stem) -> dict[str, dict[str, str]]:
    """The files of a stem's current facts: by the path of each file of frames, by table. Errors: OSError."""
    with Folder.at(folder) as capture, capture.folder(FACTS_FOLDER) as facts, facts.folder(DONE_FOLDER) as done:
        marker = read_marker(done, stem.name)
    if marker is None or any(hour_key(file) not in marker.hours for file in stem.files):
        return {}
    return {
        str(file.path): {table: str(path) for table, path in _paths(folder, file, marker).items()}
        for file in stem.files
    }


def _sizes(facts: Folder, file: CaptureFile) -> dict[str, int]:
    """The sizes of the files of a file's facts, by table."""
    return {table: size for table, hour in _table_hours(facts, hour_key(file)) if (size := hour.size(file.path.name))}


def _table_hours(facts: Folder, key: str) -> Iterator[tuple[str, Folder]]:
    """The tables that have a folder of an hour (`hour_key`). The folder is open until the next table."""
    date, hour = key.split("/")
    for table in TABLES:
        with (
            suppress(FileNotFoundError),
            facts.folder(table.name) as whole,
            whole.folder(date) as day,
            day.folder(hour) as opened,
        ):
            yield table.name, opened


def digest_of(path: Place) -> str:
    """The digest of a file. Errors: OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASHED_BYTES):
            digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def forget(folder: Path, done: Folder, stem: Stem, before_step: BeforeStep) -> None:
    """Makes a stem's marker count for nothing, and removes the files of facts, also hidden ones that a crash has left.

    Errors: OSError.
    """
    before_step("void marker")
    done.replace(stem.name, void_marker(stem), mode=0o666)
    with Folder.at(folder) as capture, capture.folder(FACTS_FOLDER) as facts:
        for file in stem.files:
            for table, hour in _table_hours(facts, hour_key(file)):
                before_step(f"remove {table}")
                hour.remove(file.path.name)
                hour.remove(hidden(file.path.name))


def forget_gone(folder: Path, done: Folder, stems: Iterable[Stem]) -> None:
    """Removes the facts of frames that have gone, as after merging. `stems`: those of all files of frames.

    Files of facts without a marker stay: a marker names the hours. The caller has locked `done`. Errors: OSError.
    """
    present = {hour_key(file) + file.path.name for stem in stems for file in stem.files}
    with Folder.at(folder) as capture, capture.folder(FACTS_FOLDER) as facts:
        for name in done.names():
            if name.startswith("."):
                # a marker that was never renamed
                done.remove(name)
                continue
            marker = read_marker(done, name)
            gone = [hour for hour in marker.hours if f"{hour}{name}.parquet" not in present] if marker else []
            for hour in gone:
                _remove_hour(facts, hour, f"{name}.parquet")
            if marker and len(gone) == len(marker.hours):
                done.remove(name)


def _remove_hour(facts: Folder, hour: str, name: str) -> None:
    """Removes the files of one hour's facts. A marker may come from anywhere: what names no hour is passed over."""
    if HOUR.fullmatch(hour):
        for _, opened in _table_hours(facts, hour):
            opened.remove(name)
            opened.remove(hidden(name))


def publish_facts(
    done: Folder, stem: Stem, made: Iterable[TableFile], hours: Mapping[str, HourFacts], before_step: BeforeStep
) -> None:
    """Renames a stem's files of facts into place, and then its marker. Errors: OSError."""
    publish(made, before_step)
    before_step("marker")
    done.replace(stem.name, encode(Marker(NUMBER, dict(hours))), mode=0o666)
