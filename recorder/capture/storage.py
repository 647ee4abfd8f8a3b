"""Writes Parquet files, and publishes them in a safe order.

A file is written under a name that starts with `.`, synced, and renamed when it is whole. A range is the rows of one
segment; a rerun of a range makes the same names and replaces the same files. A folder holds the rows that arrived in
one hour (UTC). `proxy.files` makes and opens all folders: links in their place are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from proxy.files import Folder
from recorder.capture import frames as c
from recorder.capture.partitions import files_of, hidden, hour_folders

HOUR_NS = 3_600_000_000_000

# called with each step's name before that step, so that tests can crash there
Steps = Callable[[str], None]

# columns of few distinct values: a dictionary makes only these smaller
_DICTIONARY = (
    *(c.SESSION, c.CLUSTER, c.DIALECT, c.KIND, c.MADE_BY, c.NODE, c.LISTENER, c.CLIENT, c.PRINCIPAL),
    *(c.API_KEY, c.API, c.API_VERSION, c.CLIENT_ID, c.NOTE, c.CONNECTION, c.ORIGIN_SESSION, c.ORIGIN_CONNECTION),
)


def no_steps(step: str) -> None:
    """Nothing happens between the steps."""


class RangeFile:
    """One Parquet file of a range: rows of one hour, invisible until the module's `publish`.

    Resource handling: the file is open until `close`; its folder until `discard`, or until the module's `publish`.
    """

    def __init__(self, folder: Path, kind: str, hour: int, name: str, schema: Any) -> None:
        self.folder = _make_folders(folder, kind, *hour_folders(hour))
        self.name = name
        # the umask decides who may read the capture
        self._file = open(self.folder.create(hidden(self.name), mode=0o666), "wb")  # noqa: SIM115
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            use_dictionary=[name for name in _DICTIONARY if name in schema.names],
            write_statistics=[name for name in schema.names if name != c.FRAME],
        )

    def write(self, table: Any) -> None:
        """Writes one row group."""
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def close(self) -> None:
        """Writes the footer, and syncs; the file is still invisible."""
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Removes the file, closed or not."""
        with suppress(OSError, ValueError):
            self._writer.close()
        # if this fails, `remove_unpublished` removes the file at the next run
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self.folder.remove(hidden(self.name))
        self.folder.close()


def publish(files: Iterable[RangeFile], steps: Steps) -> None:
    """Makes the files of a range visible, durably."""
    files = list(files)
    for file in files:
        steps(f"close {file.folder.path.name} {file.name}")
        file.close()
    for file in files:
        steps(f"rename {file.folder.path.name} {file.name}")
        file.folder.rename(hidden(file.name), file.name)
    for file in files:
        steps(f"sync {file.folder.path.name}")
        file.folder.sync()
        file.folder.close()


def _make_folders(folder: Path, *names: str) -> Folder:
    """The innermost of nested folders. Makes missing folders, each synced into its parent."""
    innermost = Folder.at(folder)
    for name in names:
        with innermost:
            innermost = innermost.make_folder(name)
    return innermost


def remove_unpublished(folder: Path, session: str) -> None:
    """Removes a session's hidden files: a crash kept them from being published."""
    with Folder.at(folder) as capture:
        for file in files_of(capture, session):
            if file.is_hidden:
                file.folder.remove(file.name)
