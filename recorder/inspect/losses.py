"""The losses of a capture, counted without Spark while files are read. (`analysis.questions.losses` counts with Spark.)

No event counts the frames that the settings left out. Their number is the closing event's count of frames, minus the
connection's rows and the frames of its gaps. It is unknown for connections with a gap of unknown size, and for those
without an opening: their beginning was removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from proxy.wire.errors import OverBudget
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.outcome import DIED
from recorder.capture.reader import Row, files, row_groups
from recorder.capture.remote import Place
from recorder.inspect.details import detail, numbers, texts
from recorder.missing import Gaps, LostOfApi, Missing, chosen_parts, only_topics, samples

Connection = tuple[str, int]


@dataclass(slots=True)
class Losses:
    """Sums over the rows and events added so far."""

    gaps: dict[str, Counter[str]] = field(default_factory=dict)
    apis: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    cut_frames: int = 0
    cut_bytes: int = 0
    without_records: int = 0
    samples: set[str] = field(default_factory=set)
    only_topics: set[str] = field(default_factory=set)
    # connections with an opening event, with a closing event
    _opened: set[Connection] = field(default_factory=set)
    _closed: set[Connection] = field(default_factory=set)
    # connections with a gap of unknown size
    _unknown: set[Connection] = field(default_factory=set)
    # by connection: the frames that its closing event counts, minus those in rows and in gaps
    _uncounted: Counter[Connection] = field(default_factory=Counter)

    def add_frames(self, session: str, connection: int, number: int) -> None:
        """Adds `number` rows of a connection."""
        self._uncounted[session, connection] -= number

    def add_cut(self, frames: Any) -> None:
        """Adds the frames of a table that were stored only in part, or without their records."""
        self.without_records += len(frames) - frames[c.RECORDS].null_count
        left_out = pc.subtract(frames[c.SIZE], frames[c.STORED])
        self.cut_frames += pc.sum(pc.greater(left_out, 0)).as_py() or 0
        self.cut_bytes += pc.sum(left_out).as_py() or 0

    def add_events(self, events: Iterable[Row]) -> None:
        """Adds rows of `events`."""
        for event in events:
            if event[c.KIND] == c.EVENT_GAP:
                self._add_gap(event)
            elif event[c.KIND] == c.EVENT_OPENED:
                self._opened.add((event[c.SESSION], event[c.CONNECTION]))
            elif event[c.KIND] == c.EVENT_CLOSED:
                self._closed.add((event[c.SESSION], event[c.CONNECTION]))
                self._uncounted[event[c.SESSION], event[c.CONNECTION]] += event[c.FRAMES] or 0
            elif event[c.KIND] == c.EVENT_SETTINGS:
                settings = _settings(event)
                self.samples |= {*samples(settings)}
                self.only_topics |= {*only_topics(settings)}
            elif event[c.KIND] == c.EVENT_SESSION and event[c.CAUSE] == DIED:
                self.died.append(event[c.SESSION])

    def _add_gap(self, gap: Row) -> None:
        cause, frames = gap[c.CAUSE] or "", gap[c.FRAMES] or 0
        found = detail(gap)
        connections = numbers(found).get("connections", 0)
        counts = {"gaps": 1, "connections": connections, "frames": frames, "bytes": gap[c.BYTES] or 0}
        self.gaps.setdefault(cause, Counter()).update(counts)
        if gap[c.CONNECTION] is not None:
            self._uncounted[gap[c.SESSION], gap[c.CONNECTION]] -= frames
            if gap[c.FRAMES] is None:
                self._unknown.add((gap[c.SESSION], gap[c.CONNECTION]))
        lost = found.get("lost")
        for api, each in lost.items() if isinstance(lost, dict) else ():
            self.apis.setdefault((cause, api), Counter()).update(numbers(each))

    @property
    def lines(self) -> int:
        """The number of lines in the table of losses."""
        return len(self.gaps) + len(self.apis) + len(self.died) + len(self.notes)

    @property
    def connections(self) -> int:
        """The number of connections seen."""
        return len(self._uncounted)

    @property
    def missing(self) -> Missing:
        """The sums as a value."""
        known = (self._closed & self._opened) - self._unknown
        left_out = sum(max(number, 0) for key, number in self._uncounted.items() if key in known)
        return Missing(
            [
                Gaps(cause, counts["gaps"], counts["connections"], counts["frames"], counts["bytes"])
                for cause, counts in self.gaps.items()
            ],
            [_lost(cause, api, counts) for (cause, api), counts in self.apis.items()],
            left_out,
            self.cut_frames,
            self.cut_bytes,
            sorted(self.died),
            self.notes,
            self.without_records,
            sorted(self.samples),
            sorted(self.only_topics),
        )


def _settings(event: Row) -> list[tuple[str, str]]:
    return [*texts(detail(event).get(c.SETTINGS)).items()]


def chosen_parts_of(folder: Place) -> list[str]:
    """Sentences on the parts of the traffic that a capture has, by the settings of sessions with readable events."""
    found = Losses()
    with suppress(DamagedFileError, UnknownFormatError, OverBudget, OSError):
        for file in files(folder, c.EVENTS_FOLDER):
            for table in row_groups(file, [c.KIND, c.DETAIL], where=ds.field(c.KIND) == c.EVENT_SETTINGS):
                found.add_events(table.to_pylist())
    return [*chosen_parts(sorted(found.samples), sorted(found.only_topics))]


def _lost(cause: str, api: str, counts: Counter[str]) -> LostOfApi:
    frames = counts["requests"] + counts["responses"] + counts["frames"]
    sizes = [counts[name] for name in ("request_bytes", "response_bytes") if name in counts]
    return LostOfApi(cause, api, frames, sum(sizes) if sizes else None)
