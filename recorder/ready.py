"""A capture folder made ready to be read: what a finished session left in its log becomes columns first."""

from __future__ import annotations

from pathlib import Path

import click

from recorder.capture.frames import AT_NS, FRAMES_FOLDER, KIND, SESSION
from recorder.capture.session import SPOOL_FOLDER, is_live, sessions, spool_folder
from recorder.terminal import size


class NoCapture(click.ClickException):
    """There is nothing to read; the message is one line. Exit code 2, like any wrong argument."""

    exit_code = 2


def ready(folder: Path) -> list[str]:
    """Compact what is finished and not compacted yet; lines that say what can't be shown.

    Raises NoCapture if the folder holds no capture, or one without a single frame, or can't be looked into.
    """
    try:
        return _made_ready(folder)
    except OSError as error:
        raise NoCapture(f"{folder} can't be read: {error.strerror or error}") from error


def _made_ready(folder: Path) -> list[str]:
    if not (folder / FRAMES_FOLDER).is_dir() and not (folder / SPOOL_FOLDER).is_dir():
        raise NoCapture(f"{folder} holds no capture: record one with  kafka-wiretap proxy --record {folder} ...")
    notes, recorded = _compacted(folder)
    files = sorted((folder / FRAMES_FOLDER).glob("*/*/*.parquet"))
    _check_ours(folder, files)
    if not files:
        yet = " yet" if recorded else ""
        why = f" ({notes[0]})" if notes else ""
        raise NoCapture(f"the capture in {folder} holds no frames{yet}{why}")
    return notes


def _check_ours(folder: Path, files: list[Path]) -> None:
    """Other people's Parquet would be read as columns that are all null, and answered as if nothing had passed."""
    strangers = [file for file in files[:1] if file.stat().st_size and not _is_ours(file)]
    if strangers:
        raise NoCapture(f"{folder} holds no capture: {strangers[0]} is Parquet without a capture's columns")


def _is_ours(file: Path) -> bool:
    """What can't be read at all is the reader's to tell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(file).names
    except (OSError, pa.ArrowException):
        return True
    return {SESSION, KIND, AT_NS} <= set(names)


def _compacted(folder: Path) -> tuple[list[str], bool]:
    """What can't be shown, and whether that is to come."""
    from recorder.capture.spool import DamagedSegmentError

    try:
        if not sessions(folder):
            return [], False
        from recorder.capture.compactor import compact

        done = compact(folder)
        # a proxy's own compactor keeps everybody else from its session, as long as it lives
        live = sorted({*done.live, *(name for name in done.busy if is_live(folder, name))})
    except (OSError, DamagedSegmentError) as error:
        return [str(error)], False
    busy = [name for name in done.busy if name not in live]
    notes = [
        f"a proxy is still recording session {name}, or has just ended: {_yet_to_come(folder, name)}" for name in live
    ]
    notes += [f"session {name} is being compacted by another process: try again" for name in busy]
    return notes, bool(notes)


def _yet_to_come(folder: Path, session: str) -> str:
    """How long a live session's frames take to appear, as its log says, and how much of that log there is."""
    segments = sorted(spool_folder(folder, session).glob("*.log"))
    age = _age_seconds(segments[-1]) if segments else None
    when = "once a segment of its log is full or old enough" if age is None else f"up to {age:g} s"
    waiting = sum(segment.stat(follow_symlinks=False).st_size for segment in segments)
    return f"frames appear {when} (capture.segment_age) after they passed; {size(waiting)} of log are still to come"


def _age_seconds(segment: Path) -> float | None:
    from recorder.capture.spool import DamagedSegmentError, SegmentReader

    try:
        reader = SegmentReader(segment)
    except (OSError, DamagedSegmentError):
        return None
    reader.close()
    return reader.head.age_seconds
