"""Writes the Parquet files of one range (the rows of one segment): one for each table and hour (UTC) of arrival.

Used by `compaction`. Frames of the APIs that carry records have row groups of their own: nearly all bytes are theirs,
and a reader of other frames need not read them.
"""

from __future__ import annotations

from pathlib import Path

from recorder.capture import frames as c
from recorder.capture.columns import EventRows, FrameRows, SharedDictionaries
from recorder.capture.partitions import range_name
from recorder.capture.storage import TableFile


class RangeFiles:
    """Collects rows, writes each row group when it is full, and returns the files at the end (`finish`)."""

    def __init__(self, folder: Path, session: str, segment: int, cluster: str | None) -> None:
        self.shared = SharedDictionaries()
        self.cluster = cluster
        self._folder = folder
        self._session = session
        self._name = range_name(session, segment)
        self._groups: dict[tuple[int, bool], FrameRows] = {}
        self._events: dict[int, EventRows] = {}
        self._files: dict[tuple[str, int], TableFile] = {}

    def frame_rows(self, at_ns: int, clock_offset_ns: int, size: int, *, carries_records: bool) -> FrameRows:
        """The row group for a frame of `size` bytes that arrived at `at_ns` (wall clock).

        Writes the current one first if it is full or its clock offset is another. `carries_records`: True for frames of
        APIs that carry records.
        """
        hour = at_ns // c.HOUR_NS
        group = self._groups.get((hour, carries_records))
        if group is not None and group.has_room(size) and group.clock_offset_ns == clock_offset_ns:
            return group
        if group is not None:
            self._write(c.FRAMES_FOLDER, hour, group)
        group = FrameRows(self._session, self.cluster, self.shared, clock_offset_ns, carries_records=carries_records)
        self._groups[hour, carries_records] = group
        return group

    def event_rows(self, at_ns: int) -> EventRows:
        """The row group for an event at `at_ns` (wall clock). Writes a full one first."""
        hour = at_ns // c.HOUR_NS
        rows = self._events.get(hour)
        if rows is not None and not rows.is_full:
            return rows
        if rows is not None:
            self._write(c.EVENTS_FOLDER, hour, rows)
        rows = self._events[hour] = EventRows(self._session, self.cluster)
        return rows

    @property
    def hours(self) -> list[int]:
        """The hours that have rows."""
        return sorted({*(hour for hour, _ in self._groups), *self._events, *(hour for _, hour in self._files)})

    def finish(self) -> list[TableFile]:
        """Writes the remaining rows; returns the files, for the caller to publish."""
        for (hour, _), group in self._groups.items():
            if len(group):
                self._write(c.FRAMES_FOLDER, hour, group)
        for hour, rows in self._events.items():
            self._write(c.EVENTS_FOLDER, hour, rows)
        # events first: who finds a file of frames finds what its events tell
        return [file for _, file in sorted(self._files.items())]

    def discard(self) -> None:
        """Removes the files, none of which has been published."""
        for file in self._files.values():
            file.discard()

    def _write(self, table_name: str, hour: int, rows: FrameRows | EventRows) -> None:
        table = rows.table()
        file = self._files.get((table_name, hour))
        if file is None:
            file = self._files[table_name, hour] = TableFile(self._folder, table_name, hour, self._name, table.schema)
        file.write(table)
