"""The error codes of responses that arrive in pieces: those of one connection, where one is open at a time.

A response that a chunk holds whole is read where it stands, when it is counted (`traffic.py`). One that a chunk's end
cuts is read piece by piece, step by step; nothing of it is kept.
"""

from __future__ import annotations

from proxy.conversation.responses import ResponseSide
from proxy.conversation.step import Step
from proxy.wire.error_probes import NOTHING, ArrivingErrors, FoundErrors, error_probe


class Arriving:
    """Follows the responses of a connection, from the side of its conversation that tells them apart."""

    __slots__ = ("_end", "_errors", "_side")

    def __init__(self, side: ResponseSide) -> None:
        self._side = side
        # of the response that the last step left open: what it says, and the stream offset behind it
        self._errors: ArrivingErrors | None = None
        self._end = 0

    def follow(self, step: Step) -> FoundErrors:
        """Takes note of the newest step. Returns what the response says that began before it and ends in it."""
        ended = NOTHING
        if self._errors is not None:
            self._errors.feed(memoryview(step.data)[: self._end - step.offset])
            if self._end <= step.offset + len(step.data):
                ended, self._errors = self._errors.found, None
        if self._side.left:
            self._begin(step)
        return ended

    def _begin(self, step: Step) -> None:
        """Reads the beginning of the response that the step leaves open, if it holds it."""
        exchange = self._side.open
        if exchange is None or exchange.response_at < 0:
            return
        probe = error_probe(exchange.route.api_key, exchange.route.api_version)
        if probe is not None:
            self._errors, self._end = probe.begin(), self._side.boundary
            self._errors.feed(memoryview(step.data)[exchange.response_at :])
