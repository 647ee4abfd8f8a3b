"""A capture folder made ready to be read: what a finished session left in its log becomes columns first."""

from __future__ import annotations

from pathlib import Path

import click

from recorder.capture.frames import FRAMES_FOLDER
from recorder.capture.session import SPOOL_FOLDER, sessions


class NoCapture(click.ClickException):
    """There is nothing to read; the message is one line. Exit code 2, like any wrong argument."""

    exit_code = 2


def ready(folder: Path) -> list[str]:
    """Compact what is finished and not compacted yet; lines that say what can't be shown.

    Raises NoCapture if the folder holds no capture, or one without a single frame.
    """
    if not (folder / FRAMES_FOLDER).is_dir() and not (folder / SPOOL_FOLDER).is_dir():
        raise NoCapture(f"{folder} holds no capture: record one with  kafka-wiretap proxy --record {folder} ...")
    notes = _compacted(folder)
    if not any((folder / FRAMES_FOLDER).glob("*/*/*.parquet")):
        why = f" ({notes[0]})" if notes else ""
        raise NoCapture(f"the capture in {folder} holds no frames yet{why}")
    return notes


def _compacted(folder: Path) -> list[str]:
    from recorder.capture.spool import DamagedSegmentError

    try:
        if not sessions(folder):
            return []
        from recorder.capture.compactor import compact

        done = compact(folder)
    except (OSError, DamagedSegmentError) as error:
        return [str(error)]
    live = [f"session {name} is still being recorded: its newest frames are not shown" for name in done.live]
    return live + [f"session {name} is being compacted by another process: try again" for name in done.busy]
