"""The error codes of responses that arrive in pieces, on one connection, where one response is open at a time.

A response that a chunk holds whole is read when it is counted (`traffic.py`). A response that a chunk's end cuts is
read piece by piece; no bytes are kept.
"""

from __future__ import annotations

from proxy.conversation.responses import ResponseSide
from proxy.conversation.step import Step
from proxy.wire.error_probes import NOTHING, ArrivingErrors, FoundErrors, error_probe


class Arriving:
    """Follows the responses of a connection, by the side of its conversation."""

    __slots__ = ("_end", "_errors", "_side")

    def __init__(self, side: ResponseSide) -> None:
        self._side = side
        # the response that the last step left open: its errors, and the stream offset behind it
        self._errors: ArrivingErrors | None = None
        self._end = 0

    def follow(self, step: Step) -> FoundErrors:
        """Reads the newest step. Returns the errors of the response that began before the step and ends in it."""
        ended = NOTHING
        if self._errors is not None:
            self._errors.feed(memoryview(step.data)[: self._end - step.offset])
            if self._end <= step.offset + len(step.data):
                ended, self._errors = self._errors.found, None
        if self._side.bytes_left:
            self._begin(step)
        return ended

    def _begin(self, step: Step) -> None:
        """Reads the beginning of the response that the step leaves open, if the step holds it."""
        exchange = self._side.open_exchange
        if exchange is None or exchange.response_at < 0:
            return
        probe = error_probe(exchange.route.api_key, exchange.route.api_version)
        if probe is not None:
            self._errors, self._end = probe.begin(), self._side.boundary
            self._errors.feed(memoryview(step.data)[exchange.response_at :])
