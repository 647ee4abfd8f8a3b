"""What a capture lacks, in the words that everything which reads a capture has for it, and as people see it.

A count says nothing where what it counts is not all there. So every answer begins with this: gaps (by cause, and of
which API), what the settings left out, what of frames was not kept, sessions that died, what is not in the Parquet
files yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from proxy.terminal import harmless
from recorder.capture.frames import GAP_DAMAGE
from recorder.terminal import Cell, Column, count, fitted, size


@dataclass(frozen=True, slots=True)
class Gaps:
    """All gaps of a cause. `frames` and `bytes` are what is known: of a damaged spool nobody knows.

    `connections`: that came and went without being recorded at all; their frames and bytes are among the others.
    """

    cause: str
    gaps: int
    connections: int
    frames: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LostOfApi:
    """What gaps of a cause lost of an API. `bytes` is null in captures of versions that did not count them."""

    cause: str
    api: str
    frames: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Missing:
    """Everything that is missing.

    `left_out`: frames that the settings left out, on connections that have been closed. `cut_frames`, `cut_bytes`:
    frames of which the settings left out a part, and how much. `died`: sessions whose proxy did not end in order.
    `notes`: sentences on what is not in the Parquet files yet, or can't be; what is foreign in them is printable.
    """

    gaps: list[Gaps] = field(default_factory=list)
    apis: list[LostOfApi] = field(default_factory=list)
    left_out: int = 0
    cut_frames: int = 0
    cut_bytes: int = 0
    died: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.gaps or self.left_out or self.cut_frames or self.died or self.notes)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)


def missing_table(found: Missing, width: int) -> RenderableType:
    """What is missing as a table that fits; sentences where nothing can be counted."""
    if not found:
        return Text("Nothing is missing: no gaps, nothing left out, every session ended in order.")
    if not (found.gaps or found.left_out or found.cut_frames or found.died):
        return Text("\n".join(["What is missing:", *map(harmless, found.notes)]))
    columns = [Column("what"), Column("API"), Column("frames", True), Column("bytes", True)]
    return fitted("What is missing", columns, list(_rows(found)), width)


def _rows(found: Missing) -> Iterator[list[Cell]]:
    for gap in sorted(found.gaps, key=lambda gap: -gap.frames):
        unseen = f", {count(gap.connections, 'connection')} never seen" if gap.connections else ""
        how = "lost from the log" if gap.cause == GAP_DAMAGE else "not recorded"
        yield [f"{how}: {gap.cause}, {count(gap.gaps, 'gap')}{unseen}", "", count(gap.frames), size(gap.bytes)]
        yield from _lost(gap, [lost for lost in found.apis if lost.cause == gap.cause])
    if found.left_out:
        yield ["left out by the settings", "", count(found.left_out), ""]
    if found.cut_frames:
        yield ["frames kept in part, by the settings", "", count(found.cut_frames), size(found.cut_bytes)]
    for name in found.died:
        yield [f"session {name} died: what its proxy had not written yet", "", "", ""]
    for note in found.notes:
        yield [Text(harmless(note)), "", "", ""]


def _lost(gap: Gaps, apis: list[LostOfApi]) -> Iterator[list[Cell]]:
    """What of it is known by API; where that is not all, the rest."""
    for lost in sorted(apis, key=lambda lost: -lost.frames):
        yield ["", lost.api, count(lost.frames), size(lost.bytes)]
    rest = gap.frames - sum(lost.frames for lost in apis)
    if apis and rest > 0:
        yield ["", "of unknown API", count(rest), ""]
