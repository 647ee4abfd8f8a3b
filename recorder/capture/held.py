"""Lists the published files of a whole capture by hour: rows of all sessions, and facts.

Used by `retention`, which removes them, and by `unshipped`, which finds what no bucket has. A listing of an hour's
folder is kept until the folder changes: a capture of weeks is looked at every few seconds.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from proxy.files import Folder
from recorder.capture import frames as c
from recorder.capture.partitions import COMPACTED_TABLES, FACTS_FOLDER, hours, read_range_name

# the tables of rows, in the order in which they are removed
ROW_TABLES = (c.EVENTS_FOLDER, c.FRAMES_FOLDER, c.ORIGINS_FOLDER)
assert {*COMPACTED_TABLES} <= {*ROW_TABLES}
# a listing of a folder that changed less than this before may lack a file of the same moment
SETTLED_NS = 2 * 10**9


class HeldFile(NamedTuple):
    """A file of a session's rows. `first`: its first segment; `is_own`: it is this user's."""

    table: str
    date: str
    hour: str
    name: str
    session: str
    first: int
    size: int
    at_ns: int
    is_own: bool

    @property
    def stem(self) -> str:
        """The name without its ending: all files of the same segments have it, and the marker of their facts."""
        return self.name.removesuffix(".parquet")

    @property
    def folders(self) -> tuple[str, ...]:
        """The nested folders that it lies in."""
        return (*self.table.split("/"), f"{c.DATE}={self.date}", f"{c.HOUR}={self.hour}")

    @property
    def path(self) -> str:
        """Its path in the capture."""
        return "/".join((*self.folders, self.name))


# the published files by (date, hour), oldest first
Held = Mapping[tuple[str, str], list[HeldFile]]
# (table, date, hour) -> when the folder last changed, and its files
_Listed = dict[tuple[str, str, str], tuple[int, list[HeldFile]]]


class Lister:
    """Lists a capture again and again."""

    def __init__(self) -> None:
        self._listed: _Listed = {}

    def files(self, capture: Folder) -> Held:
        """The files of all sessions. Errors: OSError, StrangeFileError included."""
        found = defaultdict[tuple[str, str], list[HeldFile]](list)
        known, self._listed = self._listed, {}
        for table in ROW_TABLES:
            self._add(found, known, capture, table, table)
        with opened_folder(capture, FACTS_FOLDER) as facts:
            if facts is not None:
                for name in filter(facts.is_folder, facts.names()):
                    self._add(found, known, facts, name, f"{FACTS_FOLDER}/{name}")
        return dict(sorted((place, files) for place, files in found.items() if files))

    def _add(
        self, found: dict[tuple[str, str], list[HeldFile]], known: _Listed, around: Folder, name: str, table: str
    ) -> None:
        for date, hour, opened in hours(around, name):
            place, changed_ns = (table, date, hour), opened.changed_ns
            known_ns, files = known.get(place, (0, []))
            if known_ns != changed_ns:
                files = [*_listed(*place, opened)]
            if time.time_ns() - changed_ns > SETTLED_NS:
                self._listed[place] = changed_ns, files
            found[date, hour] += files


def _listed(table: str, date: str, hour: str, opened: Folder) -> Iterator[HeldFile]:
    for name in opened.names():
        said, found = read_range_name(name), opened.stat(name)
        if said is not None and found is not None and not said.is_hidden:
            of_file = found.st_size, found.st_mtime_ns, found.st_uid == os.geteuid()
            yield HeldFile(table, date, hour, name, said.session, said.first, *of_file)


@contextmanager
def opened_folder(folder: Folder, *names: str) -> Iterator[Folder | None]:
    """The innermost of nested folders, open within the block; None if one is missing. Errors: StrangeFileError."""
    with ExitStack() as stack:
        innermost: Folder | None = folder
        try:
            for name in names:
                innermost = stack.enter_context(innermost.folder(name)) if innermost else None
        except FileNotFoundError:
            innermost = None
        yield innermost
