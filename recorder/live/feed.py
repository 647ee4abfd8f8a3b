"""The log of a proxy that records nothing, for the live stream alone: in memory, bounded, and removed as it is read.

It is a capture's log in every way: the same tap writes it, so secrets are masked before they reach it, and what finds
no room is a gap. It lies in a folder of its own on a tmpfs (`folder.LiveFolder`), so that nothing of it is on a disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.units import MIB
from recorder.capture.keep import NO_FLOOR, Floor
from recorder.capture.session import Fsync, RecordSettings
from recorder.capture.tap import Tap, open_tap

# what a tap and its log may take: seconds of traffic, and little beside what the readers take
QUEUE, SPOOL, SEGMENT = 16 * MIB, 64 * MIB, 8 * MIB
# a segment is removed once it was read to its end
SEGMENT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSettings(RecordSettings):
    """The log of a feed. `folder`: that of its capture."""

    folder: Path
    queue: int = QUEUE
    spool: int = SPOOL
    segment: int = SEGMENT
    segment_seconds: float = SEGMENT_SECONDS
    fsync: Fsync = Fsync.NEVER
    keep_free: Floor = NO_FLOOR


class Feed(Tap):
    """A tap whose log only the live stream reads. What it loses is no loss of a recording."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # no exchange can be looked up later by its name
        self.session = ""

    @property
    def losses(self) -> Mapping[str, Any]:
        """Nothing: see the class."""
        return {}

    def counters(self) -> Mapping[str, float]:
        """The numbers of the feed, by the names of the metrics' table."""
        told = super().counters()
        return {f"live_{name}": told[name] for name in ("dropped_bytes", "gaps", "spool_bytes")}


def open_feed(settings: FeedSettings) -> Tap:
    """Begins a session in the feed's folder. Errors: as of `open_tap`."""
    return open_tap(settings.folder, settings, kind=Feed)
