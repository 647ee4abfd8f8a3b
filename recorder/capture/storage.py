"""Where closed files go, and in which order they become visible.

A file is written under a name that starts with `.`, synced, and renamed when it is whole; a rerun of the same range
makes the same names and replaces the same files. Folders are the hours (UTC) in which the rows arrived.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from recorder.capture import frames as c
from recorder.capture.session import private

HOUR_NS = 3_600_000_000_000

# called with the name of each step that a crash may come before; tests crash there
Steps = Callable[[str], None]

# columns of few values; a dictionary for the others would only cost
_DICTIONARY = (
    *(c.SESSION, c.CLUSTER, c.DIALECT, c.KIND, c.MADE_BY, c.NODE, c.LISTENER, c.CLIENT, c.PRINCIPAL),
    *(c.API_KEY, c.API, c.API_VERSION, c.CLIENT_ID, c.NOTE, c.CONNECTION),
)


def no_steps(step: str) -> None:
    """Nothing happens between the steps."""


def hour_folder(hour: int) -> str:
    """The partition folders of an hour, counted since 1970."""
    at = datetime.fromtimestamp(hour * 3600, UTC)
    return f"{c.DATE}={at:%Y-%m-%d}/{c.HOUR}={at:%H}"


class RangeFile:
    """One Parquet file of a range: rows of one hour, invisible until `publish`."""

    def __init__(self, folder: Path, kind: str, hour: int, name: str, schema: Any) -> None:
        self.final = folder / kind / hour_folder(hour) / f"{name}.parquet"
        self._temporary = self.final.with_name("." + self.final.name)
        make_folders(self.final.parent)
        self._writer = pq.ParquetWriter(
            self._temporary,
            schema,
            compression="zstd",
            use_dictionary=[name for name in _DICTIONARY if name in schema.names],
            write_statistics=[name for name in schema.names if name != c.FRAME],
        )

    def write(self, table: Any) -> None:
        """One row group."""
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def close(self) -> None:
        """Writes the footer, and syncs; the file is still invisible."""
        self._writer.close()
        sync(self._temporary)

    def publish(self) -> None:
        """Gives it its final name, over any file that has it."""
        self._temporary.replace(self.final)

    def discard(self) -> None:
        """Removes it, closed or not."""
        self._writer.close()
        self._temporary.unlink(missing_ok=True)


def publish(files: Iterable[RangeFile], steps: Steps) -> None:
    """Makes the files of a range visible, and sure to stay so."""
    files = list(files)
    for file in files:
        steps(f"close {file.final.parent.name} {file.final.name}")
        file.close()
    for file in files:
        steps(f"rename {file.final.parent.name} {file.final.name}")
        file.publish()
    for parent in sorted({file.final.parent for file in files}):
        steps(f"sync {parent.name}")
        sync(parent)


def sync(path: Path) -> None:
    """A file's bytes, or a folder's names, onto the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folders(folder: Path) -> None:
    """Makes a folder and those above it, each of them synced into its parent."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)


def write_synced(path: Path, content: bytes) -> None:
    """A whole file of the spool in one step: its old content or the new one, through any crash."""
    temporary = path.with_name("." + path.name)
    with open(temporary, "wb", opener=private) as file:
        file.write(content)
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)


def remove_unpublished(folder: Path, session: str) -> None:
    """Removes what a crash left half written of a session."""
    for kind in (c.FRAMES_FOLDER, c.EVENTS_FOLDER):
        for path in (folder / kind).glob(f"{c.DATE}=*/{c.HOUR}=*/.{session}-*.parquet"):
            path.unlink()
