"""Reads frames from the capture again, by their place in it.

They are asked for nearly in the capture's order. So row groups are read forward, frame by frame, and the last frames
are kept: an exchange's answer stands behind other requests.
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire.errors import OverBudget
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.reader import MAX_GROUPS, CaptureFile, streamed_bodies
from recorder.replay.plan import FramePlace

# bytes of the last frames that are kept of a row group
RECENT = 8 << 20
# Rows that are read to reach a frame ahead. For one further ahead, reading begins anew and can skip whole pages.
NEAR = 32


class RereadFrames:
    """The frames of a capture. The row groups that were read last stay open."""

    def __init__(self) -> None:
        self._open: dict[tuple[CaptureFile, int], _Forward] = {}

    def frames(self, request: FramePlace, answer: FramePlace | None) -> tuple[bytes | None, bytes | None]:
        """The frames at these places; None for a frame that is not there or can't be read any more. Blocks."""
        return self._frame(request), self._frame(answer)

    def _frame(self, place: FramePlace | None) -> bytes | None:
        if place is None:
            return None
        assert isinstance(place.file, CaptureFile)
        where = place.file, place.group
        forward = self._open.pop(where, None) or _Forward(*where)
        while len(self._open) >= MAX_GROUPS:
            del self._open[next(iter(self._open))]
        self._open[where] = forward
        try:
            return forward.at(place.row)
        except (DamagedFileError, UnknownFormatError, OverBudget):
            del self._open[where]
            return None


class _Forward:
    """The frames of one row group, read forward."""

    def __init__(self, file: CaptureFile, group: int) -> None:
        self._file, self._group = file, group
        self._next = 0
        self._bodies: Iterator[bytes | None] = iter(())
        self._recent: dict[int, bytes | None] = {}
        self._size = 0

    def at(self, row: int) -> bytes | None:
        """The frame of a row. Errors: those of `row_groups`."""
        if row in self._recent:
            return self._recent[row]
        if not 0 < self._next <= row < self._next + NEAR:
            self._next, self._bodies = row, streamed_bodies(self._file, self._group, row)
        for body in self._bodies:
            self._keep(self._next, body)
            self._next += 1
            if self._next > row:
                return body
        return None

    def _keep(self, row: int, body: bytes | None) -> None:
        self._recent[row] = body
        self._size += len(body or b"")
        while self._size > RECENT and len(self._recent) > 1:
            self._size -= len(self._recent.pop(next(iter(self._recent))) or b"")
