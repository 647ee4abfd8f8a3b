"""Frames that are read from the capture once more, by their place in it."""

from __future__ import annotations

from proxy.wire.budget import DEFAULT_BUDGET, Allowance
from proxy.wire.errors import OverBudget
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.reader import GROUP, READING, ROW, Bodies, CaptureFile
from recorder.replay.plan import Place


class Places:
    """The file that was read last stays open: what waits is asked for in the order of the capture."""

    def __init__(self) -> None:
        self._bodies: tuple[CaptureFile, Bodies] | None = None

    def frames(self, request: Place, answer: Place | None) -> tuple[bytes | None, bytes | None]:
        """The frames at these places; None where there is none, or it can't be read any more. Blocks."""
        return self._frame(request), self._frame(answer)

    def _frame(self, place: Place | None) -> bytes | None:
        if place is None:
            return None
        assert isinstance(place.file, CaptureFile)
        if self._bodies is None or self._bodies[0] != place.file:
            self._bodies = place.file, Bodies(place.file, Allowance(READING, DEFAULT_BUDGET))
        try:
            return self._bodies[1].of({GROUP: place.group, ROW: place.row})
        except (DamagedFileError, UnknownFormatError, OverBudget):
            return None
