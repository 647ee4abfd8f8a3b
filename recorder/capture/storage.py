"""Writes Parquet files, and publishes them so that a crash leaves no visible file half written.

Used by `ranges`, `compaction`, `merging` and `origins`. A file is hidden (its name starts with `.`) until it is whole
and synced; then it is renamed. Compaction and merging first remove the hidden files that a crash has left
(`remove_unpublished`). Compaction then makes all files of the interrupted segment again, with the names that they had.
Folders are made and opened by `proxy.files`, which follows no links.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from proxy.files import Folder
from recorder.capture import frames as c
from recorder.capture.partitions import COMPACTED_TABLES, files_of, hidden, hour_folders

# called before each step of publishing, with the step's name; tests crash there
BeforeStep = Callable[[str], None]

# columns with few distinct values: dictionary encoding makes only these smaller
_DICTIONARY = (
    *(c.SESSION, c.CLUSTER, c.DIALECT, c.KIND, c.MADE_BY, c.NODE, c.LISTENER, c.CLIENT, c.PRINCIPAL),
    *(c.API_KEY, c.API, c.API_VERSION, c.CLIENT_ID, c.NOTE, c.CONNECTION, c.ORIGIN_SESSION, c.ORIGIN_CONNECTION),
)


def ignore_step(step: str) -> None:
    """Does nothing before a step."""


class TableFile:
    """One Parquet file with rows of one table and hour, hidden until `storage.publish`.

    Resource handling: the file is open until `close`; its folder until `discard` or `storage.publish`.

    Args:
        table_name: "frames", "events" or "origins"; of facts the folders "facts/partitions", and so on.
        hour: the hour, counted since 1970.
        dictionary: columns with few distinct values.
        delta: columns of integers that differ little from row to row.
    """

    def __init__(
        self,
        folder: Path,
        table_name: str,
        hour: int,
        name: str,
        schema: Any,
        *,
        dictionary: Sequence[str] = _DICTIONARY,
        delta: Sequence[str] = (),
    ) -> None:
        self.folder = _make_folders(folder, *table_name.split("/"), *hour_folders(hour))
        self.name = name
        # the umask decides who may read the capture
        self._file = open(self.folder.create(hidden(self.name), mode=0o666), "wb")  # noqa: SIM115
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            use_dictionary=[name for name in dictionary if name in schema.names],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in delta if name in schema.names} or None,
            write_statistics=[name for name in schema.names if name != c.FRAME],
            # neither Parquet nor zstd would notice a flipped bit otherwise
            write_page_checksum=True,
        )

    def write(self, table: Any) -> None:
        """Writes one row group."""
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def close(self) -> None:
        """Writes the footer, and syncs. The file stays hidden. A second call does nothing."""
        if self._file.closed:
            return
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Removes the file, closed or not."""
        with suppress(OSError, ValueError):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        # a file that can't be removed now is removed at the next run (`remove_unpublished`)
        with suppress(OSError):
            self.folder.remove(hidden(self.name))
        self.folder.close()


def publish(files: Iterable[TableFile], before_step: BeforeStep) -> None:
    """Closes all files, then renames them to their visible names, then syncs their folders."""
    files = list(files)
    for file in files:
        before_step(f"close {file.folder.path.name} {file.name}")
        file.close()
    for file in files:
        before_step(f"rename {file.folder.path.name} {file.name}")
        file.folder.rename(hidden(file.name), file.name)
    for file in files:
        before_step(f"sync {file.folder.path.name}")
        file.folder.sync()
        file.folder.close()


def _make_folders(folder: Path, *names: str) -> Folder:
    """Opens the innermost of nested folders. Missing folders are made, and their parents synced."""
    innermost = Folder.at(folder)
    for name in names:
        with innermost:
            innermost = innermost.make_folder(name)
    return innermost


def remove_unpublished(folder: Path, session: str, table_names: Iterable[str] = COMPACTED_TABLES) -> None:
    """Removes a session's hidden files of these tables: a crash has left them unpublished."""
    with Folder.at(folder) as capture:
        for file in files_of(capture, session, table_names):
            if file.is_hidden:
                file.folder.remove(file.name)


def unpublish(folder: Path, session: str, segment: int) -> None:
    """Removes a session's published files of later segments than this one."""
    with Folder.at(folder) as capture:
        for file in files_of(capture, session):
            if not file.is_hidden and file.last > segment:
                file.folder.remove(file.name)
