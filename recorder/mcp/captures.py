"""The captures in the folders that the server was given, by short names.

Agents know these names alone. Folders are looked through anew at each question, since captures come and go; no link is
followed, so that nothing outside the folders has a name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from proxy.terminal import printable
from recorder.capture.frames import EVENTS_FOLDER, FRAMES_FOLDER
from recorder.capture.partitions import FACTS_FOLDER
from recorder.capture.session import SPOOL_FOLDER

# folders below one that was given in which captures are looked for, and the most folders that are looked into
MAX_DEPTH, MAX_FOLDERS = 4, 10_000
# a capture has one of these; a link in place of any would lead out of it
_MARKS = (FRAMES_FOLDER, SPOOL_FOLDER)
_PARTS = (*_MARKS, EVENTS_FOLDER, FACTS_FOLDER)


def captures_in(folders: Sequence[Path]) -> Mapping[str, Path]:
    """The captures in these folders, by name: the folder's own name and the path below it.

    A name that two captures would share ends with a number for the second. Folders that can't be read are left out.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        for path in _captures(folder):
            name = usual = printable(path.relative_to(folder.parent))
            number = 1
            while name in found:
                number += 1
                name = f"{usual} ({number})"
            found[name] = path
    return found


def _captures(folder: Path) -> Iterator[Path]:
    """The captures in a folder and below it, in the order of their paths; those within captures are none."""
    waiting, left = [(folder, 0)], MAX_FOLDERS
    while waiting and left:
        left -= 1
        path, depth = waiting.pop()
        entries = _entries(path)
        if any(entries.get(mark) == "folder" for mark in _MARKS):
            if all(entries.get(part, "folder") == "folder" for part in _PARTS):
                yield path
        elif depth < MAX_DEPTH:
            below = sorted((name for name, kind in entries.items() if kind == "folder"), reverse=True)
            waiting += [(path / name, depth + 1) for name in below]


def _entries(path: Path) -> dict[str, str]:
    """What a folder has: by name "folder", or "other"."""
    try:
        with os.scandir(path) as entries:
            return {entry.name: "folder" if entry.is_dir(follow_symlinks=False) else "other" for entry in entries}
    except OSError:
        return {}
