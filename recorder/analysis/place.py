"""A capture's location, and where questions about it run. No pyspark: commands know it before they import any."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recorder.capture.frames import FRAMES_FOLDER
from recorder.capture.remote import place_at, size_of

Files = Mapping[str, Sequence[str]]


@dataclass(slots=True)
class Place:
    """A capture's location, and where questions about it run: on the embedded engine, or on Spark at `master`.

    `files`: the capture's files by table; None behind a URL.
    `facts`: the facts of files of frames, as of `sources.captured`; those that can't be read are left out.
    `broken`: files that could not be read, each with the reason. Questions fill it in.
    """

    folder: str
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    files: Files | None = None
    facts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    is_embedded: bool = False

    @property
    def size(self) -> float:
        """The bytes of the files of frames that are there; infinite behind a URL, where they are unknown."""
        return math.inf if self.files is None else sum(map(_size_of, self.files[FRAMES_FOLDER]))

    def readable(self) -> Files | None:
        """Returns the files that are not known to be broken; None behind a URL."""
        if self.files is None:
            return None
        return {table: [one for one in names if one not in self.broken] for table, names in self.files.items()}


def _size_of(file: str) -> int:
    try:
        return size_of(place_at(file))
    except FileNotFoundError:
        # removed after it was listed: the question says so
        return 0
