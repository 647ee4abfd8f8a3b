"""The losses of a capture, as one value for all readers of captures, and as a table.

A count means little without the losses. So every view begins with them: gaps (by cause and API), frames and parts of
frames that the settings left out, sessions that died, frames that are not in the Parquet files yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from proxy.terminal import harmless
from recorder.capture.frames import LOST_FROM_LOG
from recorder.terminal import Cell, Column, count, fitted, size

# the tables of settings by which something was recorded, or redacted; in each, those of a sample and of chosen topics
TABLES = ("capture.", "redact.")
SHARE, SHARES, ONLY_TOPICS = "share", "shares.", "only.topics"


@dataclass(frozen=True, slots=True)
class Gaps:
    """All gaps of a cause. `frames` and `bytes` are sums of the known sizes; those of a damaged spool are unknown.

    `connections`: those that were not recorded at all; `frames` and `bytes` include theirs.
    """

    cause: str
    gaps: int
    connections: int
    frames: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LostOfApi:
    """The losses of an API in gaps of a cause. `bytes` is None in captures of versions that did not count them."""

    cause: str
    api: str
    frames: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Missing:
    """All losses.

    `left_out`: frames that the settings left out, on connections that have been closed. `cut_frames`: frames of which
    the settings left out a part; `cut_bytes`: the size of these parts. `died`: sessions whose proxy did not end in
    order. `notes`: printable sentences on frames that are not in the Parquet files yet, or can't be. `without_records`:
    frames of which a rule left records out. `samples`: the settings by which only a share of the traffic was recorded;
    nothing is scaled. `only_topics`: those by which only traffic of chosen topics was.
    """

    gaps: list[Gaps] = field(default_factory=list)
    apis: list[LostOfApi] = field(default_factory=list)
    left_out: int = 0
    cut_frames: int = 0
    cut_bytes: int = 0
    died: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    without_records: int = 0
    samples: list[str] = field(default_factory=list)
    only_topics: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.is_counted or bool(self.notes)

    @property
    def is_counted(self) -> bool:
        """True if there is more than notes."""
        by_settings = self.left_out or self.cut_frames or self.without_records or self.samples or self.only_topics
        return bool(self.gaps or self.died or by_settings)

    def as_json(self) -> dict[str, Any]:
        """The losses, ready for JSON."""
        return asdict(self)


def samples(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The settings, as a capture tells them (name, value), by which only a share of the traffic was recorded."""
    for name, key, value in _of_recording(settings):
        if (key == SHARE or key.startswith(SHARES)) and value not in ("1", "1.0"):
            yield f"{name} = {value}"


def only_topics(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The settings, as a capture tells them, by which only traffic of chosen topics was recorded."""
    return (f"{name} = {value}" for name, key, value in _of_recording(settings) if key == ONLY_TOPICS)


def _of_recording(settings: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """The settings of TABLES: name, key in its table, value."""
    for name, value in settings:
        for table in TABLES:
            if name.startswith(table):
                yield name, name.removeprefix(table), value


def chosen_parts(found_samples: Iterable[str], found_topics: Iterable[str]) -> Iterator[str]:
    """Sentences on a capture of a part of the traffic. Args: results of `samples` and `only_topics`."""
    yield from (f"a sample, of which nothing is scaled: {sample}" for sample in found_samples)
    yield from (f"chosen topics only: {chosen}" for chosen in found_topics)


def missing_table(found: Missing, width: int) -> RenderableType:
    """The losses as a table that fits into `width`; as sentences if there are only notes, or no losses."""
    if not found:
        return Text("Nothing is missing: no gaps, nothing left out, every session ended in order.")
    if not found.is_counted:
        return Text("\n".join(["What is missing:", *map(harmless, found.notes)]))
    columns = [Column("what"), Column("API"), Column("frames", True), Column("bytes", True)]
    return fitted("What is missing", columns, list(_rows(found)), width)


def _rows(found: Missing) -> Iterator[list[Cell]]:
    for gap in sorted(found.gaps, key=lambda gap: -gap.frames):
        unseen = f", {count(gap.connections, 'connection')} never seen" if gap.connections else ""
        how = "lost from the log" if gap.cause in LOST_FROM_LOG else "not recorded"
        yield [f"{how}: {gap.cause}, {count(gap.gaps, 'gap')}{unseen}", "", count(gap.frames), size(gap.bytes)]
        yield from _lost(gap, [lost for lost in found.apis if lost.cause == gap.cause])
    if found.left_out:
        yield ["left out by the settings", "", count(found.left_out), ""]
    if found.cut_frames:
        yield ["frames kept in part, by the settings", "", count(found.cut_frames), size(found.cut_bytes)]
    if found.without_records:
        yield ["records left out or hashed, by the settings", "", count(found.without_records), ""]
    for sentence in chosen_parts(found.samples, found.only_topics):
        yield [sentence, "", "", ""]
    for name in found.died:
        yield [f"session {name} died: what its proxy had not written yet", "", "", ""]
    for note in found.notes:
        yield [Text(harmless(note)), "", "", ""]


def _lost(gap: Gaps, apis: list[LostOfApi]) -> Iterator[list[Cell]]:
    """The rows of a gap's losses by API, and a row for the frames whose API is unknown."""
    for lost in sorted(apis, key=lambda lost: -lost.frames):
        yield ["", lost.api, count(lost.frames), size(lost.bytes)]
    rest = gap.frames - sum(lost.frames for lost in apis)
    if apis and rest > 0:
        yield ["", "of unknown API", count(rest), ""]
