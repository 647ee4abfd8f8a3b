"""What a test sees of a recording: the log's entries, the capture's rows."""

from pathlib import Path
from typing import Any

from recorder.capture import frames as c
from recorder.capture import reader, spool
from recorder.capture.spool import Entry, SegmentReader


def log_entries(folder: Path) -> list[Entry]:
    """All whole entries of a session's spool folder, in order."""
    found: list[Entry] = []
    for number in spool.segments(folder):
        reading = SegmentReader(spool.segment_path(folder, number))
        while entries := reading.read():
            found += entries
        reading.close()
    return found


def log_bytes(folder: Path) -> bytes:
    return b"".join(spool.segment_path(folder, number).read_bytes() for number in spool.segments(folder))


def frame_rows(folder: Path, connection: int | None = None) -> list[dict[str, Any]]:
    """Rows of frames, by connection and sequence; spans as tuples."""
    rows = [row for row in reader.rows(folder) if connection is None or row[c.CONNECTION] == connection]
    for row in rows:
        for name in (c.MASKED, c.OMITTED):
            row[name] = row[name] and [(span["start"], span["length"]) for span in row[name]]
    return sorted(rows, key=lambda row: (row[c.CONNECTION], row[c.SEQUENCE]))


def event_rows(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    names = [name for name, _ in c.EVENT_COLUMNS]
    rows = list(reader.rows(folder, names, kind=c.EVENTS_FOLDER))
    return [row for row in rows if kind is None or row[c.KIND] == kind]


def assert_holds(rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Each row has what is wanted of it, in order, and there are no others."""
    got = [{name: row[name] for name in want} for row, want in zip(rows, wanted, strict=False)]
    assert got == wanted[: len(got)]
    assert len(rows) == len(wanted)
