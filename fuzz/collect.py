"""Makes corpus/ of what passed: `python -m fuzz.collect CAPTURE`, a folder that `kafka-wiretap proxy --record` wrote.

One frame of each api, version and kind, the richest of those that are small: corpus/ is to stay small. Frames that were
masked are left out, and so are messages that may hold secrets.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fuzz.corpus import FOLDER
from proxy.wire import catalog
from recorder.query.columns import Rows
from recorder.reading.rows import all_bodies, rows

# of a frame; nearly all are smaller
MAX_BYTES = 4000


def collect(found: Iterable[dict[str, Any]]) -> dict[tuple[str, str], bytes]:
    """(kind, file name) -> the frame, the largest of at most MAX_BYTES for each."""
    best: dict[tuple[str, str], bytes] = {}
    for row in found:
        if not _wanted(row):
            continue
        name = row["kind"], f"{row['api_key']:02}-{row['api']}-v{row['api_version']}"
        if len(row["frame"]) > len(best.get(name, b"")):
            best[name] = row["frame"]
    return best


def _wanted(row: dict[str, Any]) -> bool:
    if row["kind"] not in ("request", "response") or not row["frame"] or not row["api"]:
        return False
    secret = row["masked"] or row["omitted"] or catalog.may_hold_secrets(row["kind"], row["api_key"])
    return not secret and not row["note"] and len(row["frame"]) <= MAX_BYTES


def write(frames: dict[tuple[str, str], bytes], folder: Path) -> None:
    """A file each; a frame that is there already stays if it is larger."""
    for (kind, name), frame in frames.items():
        file = folder / kind / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.stat().st_size < len(frame):
            file.write_bytes(frame)


if __name__ == "__main__":
    for capture in sys.argv[1:]:
        write(collect(rows(Path(capture), Rows(), bodies=all_bodies)), FOLDER / "corpus")
