"""Finds what of a capture is published and not in a bucket: oldest first, facts before the marker by which they count.

Frames, events and origins are shipped as they are published. Facts are shipped once their marker counts, and the marker
once all of them are: so a bucket's facts count when they are whole, as in the capture. Facts that are made anew get
another marker, and are shipped again. Nothing else is shipped: no log, no hidden file.

Rows whose segment is still in the log have no state behind them yet. If the key of an encrypted log is lost then, they
are taken back and counted in a gap. A bucket gives nothing back, so they are shipped once their segment has gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from proxy.files import Folder
from recorder.capture import frames as c
from recorder.capture.entry_json import InvalidEntryError
from recorder.capture.fact_files import MAX_MARKER, marker_in
from recorder.capture.held import ROW_TABLES, SETTLED_NS, Held, HeldFile, Lister, opened_folder
from recorder.capture.keep import KEEP_FOLDER, declarations
from recorder.capture.partitions import DONE_FOLDER, FACTS_FOLDER
from recorder.capture.segments import segments
from recorder.capture.session import SPOOL_FOLDER
from recorder.capture.shipped import SHIP_FOLDER, Shipped, ShippedFiles


class Unshipped(NamedTuple):
    """A file to ship.

    Attributes:
        folders, name: where it is in the capture.
        stem: the name that all files of its segments share.
        hour: of its record.
        version: its size and time, as of now.
        digest: what a marker says of it ("sha256:…"); None: nothing does.
        behind: the files that are to be shipped before it: those of facts, before their marker.
    """

    folders: tuple[str, ...]
    name: str
    stem: str
    hour: str
    version: Shipped
    digest: str | None = None
    behind: tuple[Unshipped, ...] = ()

    @property
    def path(self) -> str:
        """Its path in the capture, which is its key in the bucket, too."""
        return "/".join((*self.folders, self.name))


# path, hour of its record, version -> True if it is shipped
Has = Callable[[str, str, Shipped], bool]


class ShippingList:
    """Lists what is to be shipped of a capture, again and again."""

    def __init__(self) -> None:
        # when the folder of markers changed last, and their states by name
        self._markers: tuple[int, Mapping[str, Shipped]] = (0, {})

    def files(self, capture: Folder, held: Held, has: Has) -> list[Unshipped]:
        """What `has` does not have of the files in `held`, oldest first, and the markers. Errors: OSError."""
        with opened_folder(capture, FACTS_FOLDER, DONE_FOLDER) as done:
            return [*_unshipped(held, has, done, self._listed(done))]

    def _listed(self, done: Folder | None) -> Mapping[str, Shipped]:
        if done is None:
            return {}
        changed_ns = done.changed_ns
        if self._markers[0] != changed_ns:
            found = {name: Shipped(one.st_size, one.st_mtime_ns) for name in done.names() if (one := done.stat(name))}
            is_settled = time.time_ns() - changed_ns > SETTLED_NS
            self._markers = changed_ns if is_settled else 0, found
        return self._markers[1]


def _unshipped(held: Held, has: Has, done: Folder | None, markers: Mapping[str, Shipped]) -> Iterator[Unshipped]:
    facts = {file.path: file for files in held.values() for file in files if file.table not in ROW_TABLES}
    # a stem has a file of frames in each hour of its segments, and one marker
    seen = set[str]()
    for (date, hour), files in held.items():
        record = f"{date}T{hour}"
        found = [_of_rows(file, record) for file in files if file.table in ROW_TABLES]
        found = [file for file in found if not has(file.path, record, file.version)]
        stems = {file.stem for file in files if file.table == c.FRAMES_FOLDER} - seen
        seen |= stems
        for stem in stems & markers.keys():
            if done is not None and not has(_marker_path(stem), record, markers[stem]):
                found += _of_facts(done, stem, markers[stem], record, facts, has)
        yield from sorted(found, key=lambda file: (file.version.at_ns, bool(file.behind), file.path))


def _marker_path(stem: str) -> str:
    return f"{FACTS_FOLDER}/{DONE_FOLDER}/{stem}"


def _of_rows(file: HeldFile, record: str) -> Unshipped:
    return Unshipped(file.folders, file.name, file.stem, record, Shipped(file.size, file.at_ns))


def _of_facts(
    done: Folder, stem: str, version: Shipped, record: str, facts: Mapping[str, HeldFile], has: Has
) -> Iterator[Unshipped]:
    """The files of facts that a marker names, and the marker. Nothing while they are made anew."""
    try:
        marker = marker_in(done.read(stem, MAX_MARKER))
    except (FileNotFoundError, InvalidEntryError):
        return
    behind = []
    for place, hour in marker.hours.items():
        for table, told in hour.tables.items():
            file = facts.get(f"{FACTS_FOLDER}/{table}/{place}/{stem}.parquet")
            if file is None or file.size != told.bytes:
                return
            behind.append(_of_rows(file, f"{file.date}T{file.hour}")._replace(digest=told.digest))
    if marker.number >= 0:
        yield from (file for file in behind if not has(file.path, file.hour, file.version))
        yield Unshipped((FACTS_FOLDER, DONE_FOLDER), stem, stem, record, version, behind=tuple(behind))


def stems_held_back(capture: Folder, held: Held, shipped: ShippedFiles, listed: ShippingList) -> frozenset[str]:
    """The stems of which no bucket has all that is to be shipped: retention removes none of them. Errors: OSError."""
    shipped.look(capture)
    return frozenset(file.stem for file in listed.files(capture, held, shipped.has))


def stems_in_the_log(capture: Folder, held: Held) -> frozenset[str]:
    """The stems whose segments are still in the log. `held`: listed before this call. Errors: OSError."""
    names = {file.session for files in held.values() for file in files}
    logged = set[tuple[str, int]]()
    with opened_folder(capture, SPOOL_FOLDER) as spool:
        if spool is not None:
            for session in filter(spool.is_folder, names):
                # another user's log is closed to others; a session may end meanwhile
                with suppress(FileNotFoundError, PermissionError), spool.folder(session) as opened:
                    logged |= {(session, number) for number in segments(opened)}
    return frozenset(file.stem for files in held.values() for file in files if (file.session, file.first) in logged)


def waiting(folder: Path) -> list[Unshipped]:
    """What is not shipped of a capture that is shipped; nothing of one that is not. Errors: OSError."""
    with Folder.at(folder) as capture:
        with opened_folder(capture, KEEP_FOLDER) as keep:
            ships = keep is not None and any(one.ship for _, one in declarations(keep))
        if not ships and capture.stat(SHIP_FOLDER) is None:
            return []
        shipped = ShippedFiles()
        shipped.look(capture)
        return ShippingList().files(capture, Lister().files(capture), shipped.has)
