"""A capture folder made ready to be read: what a finished session left in its log becomes columns first."""

from __future__ import annotations

from pathlib import Path

import click

from recorder.capture.frames import FRAMES_FOLDER
from recorder.capture.session import SPOOL_FOLDER, RecordSettings, is_live, sessions

_DELAY = f"frames appear up to {RecordSettings().segment_seconds:g} s (capture.segment_age) after they passed"


class NoCapture(click.ClickException):
    """There is nothing to read; the message is one line. Exit code 2, like any wrong argument."""

    exit_code = 2


def ready(folder: Path) -> list[str]:
    """Compact what is finished and not compacted yet; lines that say what can't be shown.

    Raises NoCapture if the folder holds no capture, or one without a single frame.
    """
    if not (folder / FRAMES_FOLDER).is_dir() and not (folder / SPOOL_FOLDER).is_dir():
        raise NoCapture(f"{folder} holds no capture: record one with  kafka-wiretap proxy --record {folder} ...")
    notes, recorded = _compacted(folder)
    if not any((folder / FRAMES_FOLDER).glob("*/*/*.parquet")):
        yet = " yet" if recorded else ""
        why = f" ({notes[0]})" if notes else ""
        raise NoCapture(f"the capture in {folder} holds no frames{yet}{why}")
    return notes


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
    notes = [f"a proxy is still recording session {name}, or has just ended: {_DELAY}" for name in live]
    notes += [f"session {name} is being compacted by another process: try again" for name in busy]
    return notes, bool(notes)
