"""Reads the error codes of responses that span chunks. Each connection has one `SplitResponses`.

The error codes of a response that one chunk holds whole are read when it is counted (`errors.py`). A response that
spans chunks is read piece by piece, and no bytes are kept. A connection has at most one incomplete response.
"""

from __future__ import annotations

from proxy.conversation.responses import ResponseSide
from proxy.conversation.step import Step
from proxy.wire.error_reader import NOTHING, ArrivingErrors, FoundErrors, error_reader


class SplitResponses:
    """Reads one connection's responses. `side`: the response side of its conversation."""

    __slots__ = ("_end", "_errors", "_side")

    def __init__(self, side: ResponseSide) -> None:
        self._side = side
        # of the response that the last step left incomplete: its errors, and the stream offset of its end
        self._errors: ArrivingErrors | None = None
        self._end = 0

    def follow(self, step: Step) -> FoundErrors:
        """Reads the newest step. Returns the errors of a response that began in an earlier step and ends in it."""
        ended = NOTHING
        if self._errors is not None:
            self._errors.feed(memoryview(step.data)[: self._end - step.offset])
            if self._end <= step.offset + len(step.data):
                ended, self._errors = self._errors.found, None
        if self._side.bytes_left:
            self._begin(step)
        return ended

    def _begin(self, step: Step) -> None:
        """Reads the first piece of the response that the step leaves incomplete, if it begins in this step."""
        exchange = self._side.open_exchange
        if exchange is None or exchange.response_at < 0:
            return
        probe = error_reader(exchange.route.api_key, exchange.route.api_version)
        if probe is not None:
            self._errors, self._end = probe.begin(), self._side.next_offset
            self._errors.feed(memoryview(step.data)[exchange.response_at :])
