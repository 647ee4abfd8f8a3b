"""The layout of a capture's tables: a folder for each hour (UTC) of arrival, with files of each session.

    <table>/date=<date>/hour=<hour>/<session>-<first>-<last>.parquet

`first` and `last` are segments. In the table of origins, which has no segments, both are the file's number.

A capture may come from anywhere, so links in the place of folders are not followed (`proxy.files`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from proxy.files import Folder
from recorder.capture import frames as c
from recorder.capture.segments import NUMBER

# the tables that the compactor writes
COMPACTED_TABLES = (c.FRAMES_FOLDER, c.EVENTS_FOLDER)
# the folder of the tables of facts, and in it that of their markers
FACTS_FOLDER, DONE_FOLDER = "facts", "_done"


def hour_folders(hour: int) -> tuple[str, str]:
    """The two nested partition folders of an hour, counted since 1970."""
    at = datetime.fromtimestamp(hour * 3600, UTC)
    return f"{c.DATE}={at:%Y-%m-%d}", f"{c.HOUR}={at:%H}"


def begin_ns(date: str, hour: str) -> int:
    """When the hour of a partition begins, in ns since 1970. Errors: ValueError for folders of no date and hour."""
    return (datetime.fromisoformat(f"{date}T{hour}:00:00") - datetime(1970, 1, 1)) // timedelta(hours=1) * c.HOUR_NS


def hours(capture: Folder, table_name: str) -> Iterator[tuple[str, str, Folder]]:
    """The partitions of a table: date, hour, and the folder, which is open until the next partition.

    Retention may remove some of them meanwhile.
    """
    if capture.stat(table_name) is None:
        return
    with capture.folder(table_name) as whole:
        for date, day in _partitions(whole, c.DATE):
            for hour, opened in _partitions(day, c.HOUR):
                yield date, hour, opened


def _partitions(folder: Folder, column: str) -> Iterator[tuple[str, Folder]]:
    """The values of a column, each with its folder, which is open until the next one."""
    for name in folder.names():
        if name.startswith(f"{column}="):
            try:
                opened = folder.folder(name)
            except FileNotFoundError:
                continue
            with opened:
                yield name.partition("=")[2], opened


class SessionFile(NamedTuple):
    """A file of a session's rows. `last`: the last segment in the file.

    `folder`: its hour's folder, open until the next file. `is_hidden`: True if the file is still being made, or a crash
    has left it half written.
    """

    table_name: str
    folder: Folder
    name: str
    last: int
    is_hidden: bool


def range_name(session: str, first: int, last: int | None = None) -> str:
    """The name of a session's file for the segments `first` to `last`; `last` None: for `first` alone."""
    return f"{session}-{first:08d}-{first if last is None else last:08d}.parquet"


def hidden(name: str) -> str:
    """The name of a file while it is made."""
    return "." + name


_RANGE_NAME = re.compile(rf"(\.?)([^.].*)-({NUMBER})-({NUMBER})\.parquet")


class RangeName(NamedTuple):
    """What the name of a session's file says: its session, its first and last segment, and whether it is hidden."""

    session: str
    first: int
    last: int
    is_hidden: bool


def read_range_name(name: str) -> RangeName | None:
    """What a file's name says; None if it is no name of `range_name`, hidden or not."""
    found = _RANGE_NAME.fullmatch(name)
    return None if found is None else RangeName(found[2], int(found[3]), int(found[4]), bool(found[1]))


def files_of(capture: Folder, session: str, table_names: Iterable[str] = COMPACTED_TABLES) -> Iterator[SessionFile]:
    """The files of a session's rows, in all partitions of these tables, recognised by their names."""
    for table_name in table_names:
        for *_, hour in hours(capture, table_name):
            for name in hour.names():
                found = read_range_name(name)
                if found is not None and found.session == session:
                    yield SessionFile(table_name, hour, name, found.last, found.is_hidden)
