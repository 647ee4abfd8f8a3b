"""Counts one connection's traffic for the metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence

from proxy.conversation import Conversation, Direction, Exchange, Step
from proxy.metrics.arriving import Arriving
from proxy.metrics.traffic import Traffic

clock = time.monotonic_ns


class Account:
    """One connection's account. An exchange is counted when its chunk has been sent, or by `close`.

    The relay sets both attributes before it sends a chunk; they are empty again once the chunk is sent.

    finished: exchanges whose responses end in the chunk for the client.
    one_way: exchanges that get no response, of the chunk for the broker.
    """

    __slots__ = ("_arriving", "_traffic", "finished", "one_way")

    def __init__(self, traffic: Traffic, conversation: Conversation) -> None:
        self._traffic = traffic
        # reads the error codes of responses that span chunks
        self._arriving = Arriving(conversation.responses_side)
        self.finished: Sequence[Exchange] = ()
        self.one_way: Sequence[Exchange] = ()

    def request_sent(self, step: Step, at_ns: int) -> None:
        """Counts a chunk of requests, which arrived at `at_ns` and has just been sent to the broker."""
        traffic = self._traffic
        traffic.proxied(Direction.REQUEST, clock() - at_ns)
        if step.one_way:
            traffic.one_way(step.one_way)
            self.one_way = ()
        if step.opaque:
            traffic.opaque(step.opaque)

    def response_sent(self, step: Step, at_ns: int) -> None:
        """Counts a chunk of responses, which arrived at `at_ns` and has just been sent to the client."""
        traffic, sent_ns = self._traffic, clock()
        traffic.proxied(Direction.RESPONSE, sent_ns - at_ns)
        traffic.finished(step.finished, sent_ns, step.data, self._arriving.follow(step))
        self.finished = ()
        if step.unanswered:
            traffic.unanswered(step.unanswered)

    def unanswered(self, exchanges: Sequence[Exchange]) -> None:
        """Counts exchanges to which the client gets no response."""
        self._traffic.unanswered(exchanges)

    def close(self) -> None:
        """Counts the exchanges of chunks that were never sent: as unanswered, or as one-way."""
        self._traffic.unanswered(self.finished)
        self._traffic.one_way(self.one_way)
