"""The Parquet files of one range: one for each hour (UTC) in which frames or events of it arrived.

Frames of the APIs that carry records have row groups of their own: nearly all bytes are theirs, and whoever asks for
other frames need not read them.
"""

from __future__ import annotations

from pathlib import Path

from recorder.capture import frames as c
from recorder.capture.columns import EventRows, FrameRows, SharedTables
from recorder.capture.partitions import range_name
from recorder.capture.storage import RangeFile


class RangeFiles:
    """Collects rows, writes a row group whenever one is full, and returns the files once all rows are there."""

    def __init__(self, folder: Path, session: str, segment: int, cluster: str | None) -> None:
        self.shared = SharedTables()
        self.cluster = cluster
        self._folder = folder
        self._session = session
        self._name = range_name(session, segment)
        self._groups: dict[tuple[int, bool], FrameRows] = {}
        self._events: dict[int, EventRows] = {}
        self._files: dict[tuple[str, int], RangeFile] = {}

    def frames(self, at_ns: int, clock_ns: int, size: int, *, is_data: bool) -> FrameRows:
        """The row group for a frame of this size and time; a full row group is written first.

        `is_data`: as of `FrameRows`.
        """
        hour = at_ns // c.HOUR_NS
        group = self._groups.get((hour, is_data))
        if group is not None and group.has_room(size) and group.clock_ns == clock_ns:
            return group
        if group is not None:
            self._write(c.FRAMES_FOLDER, hour, group)
        group = FrameRows(self._session, self.cluster, self.shared, clock_ns, is_data=is_data)
        self._groups[hour, is_data] = group
        return group

    def events(self, at_ns: int) -> EventRows:
        """The rows of the hour of `at_ns` (wall clock)."""
        hour = at_ns // c.HOUR_NS
        rows = self._events.get(hour)
        if rows is not None and not rows.is_full:
            return rows
        if rows is not None:
            self._write(c.EVENTS_FOLDER, hour, rows)
        rows = self._events[hour] = EventRows(self._session, self.cluster)
        return rows

    def finish(self) -> list[RangeFile]:
        """Writes the remaining rows. The caller closes and publishes the returned files."""
        for (hour, _), group in self._groups.items():
            if len(group):
                self._write(c.FRAMES_FOLDER, hour, group)
        for hour, rows in self._events.items():
            self._write(c.EVENTS_FOLDER, hour, rows)
        return list(self._files.values())

    def discard(self) -> None:
        """Removes the unpublished files."""
        for file in self._files.values():
            file.discard()

    def _write(self, kind: str, hour: int, rows: FrameRows | EventRows) -> None:
        table = rows.table()
        file = self._files.get((kind, hour))
        if file is None:
            file = self._files[kind, hour] = RangeFile(self._folder, kind, hour, self._name, table.schema)
        file.write(table)
