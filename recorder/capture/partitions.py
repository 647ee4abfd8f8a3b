"""The folders that a capture's tables are parted into: one for each hour (UTC) in which rows arrived.

They may come from anywhere, and nothing that others have put in the place of one is followed (`proxy.files`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from proxy.files import Folder
from recorder.capture import frames as c


def hour_folders(hour: int) -> tuple[str, str]:
    """The partition folders of an hour, counted since 1970, one in the other."""
    at = datetime.fromtimestamp(hour * 3600, UTC)
    return f"{c.DATE}={at:%Y-%m-%d}", f"{c.HOUR}={at:%H}"


def hours(capture: Folder, kind: str) -> Iterator[tuple[str, str, Folder]]:
    """The partitions of `frames` or `events`: date, hour, and the folder, which is open until the next one."""
    if capture.stat(kind) is None:
        return
    with capture.folder(kind) as whole:
        for date in _partitions(whole, c.DATE):
            with whole.folder(date) as day:
                for hour in _partitions(day, c.HOUR):
                    with day.folder(hour) as opened:
                        yield date.partition("=")[2], hour.partition("=")[2], opened


def _partitions(folder: Folder, column: str) -> list[str]:
    return [name for name in folder.names() if name.startswith(f"{column}=")]
