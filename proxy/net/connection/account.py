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

    finished: the exchanges whose responses end in the chunk that is to be sent to the client.
    one_way: the exchanges of the chunk that is to be sent to the broker which get no response.
    """

    __slots__ = ("_arriving", "_traffic", "finished", "one_way")

    def __init__(self, traffic: Traffic, conversation: Conversation) -> None:
        self._traffic = traffic
        # reads the error code of a response that spans chunks
        self._arriving = Arriving(conversation.responses_side)
        self.finished: Sequence[Exchange] = ()
        self.one_way: Sequence[Exchange] = ()

    def request_sent(self, step: Step, at_ns: int) -> None:
        """The chunk of requests that arrived at `at_ns` has been sent to the broker."""
        traffic = self._traffic
        traffic.proxied(Direction.REQUEST, clock() - at_ns)
        if step.one_way:
            traffic.one_way(step.one_way)
            self.one_way = ()
        if step.opaque:
            traffic.opaque(step.opaque)

    def response_sent(self, step: Step, at_ns: int) -> None:
        """The chunk of responses that arrived at `at_ns` has been sent to the client."""
        traffic, sent_ns = self._traffic, clock()
        traffic.proxied(Direction.RESPONSE, sent_ns - at_ns)
        traffic.finished(step.finished, sent_ns, step.data, self._arriving.follow(step))
        self.finished = ()
        if step.unanswered:
            traffic.unanswered(step.unanswered)

    def unanswered(self, exchanges: Sequence[Exchange]) -> None:
        """The client gets no response to these exchanges."""
        self._traffic.unanswered(exchanges)

    def close(self) -> None:
        """Counts the exchanges of chunks that were never sent; one-way ones count as if they had been."""
        self._traffic.unanswered(self.finished)
        self._traffic.one_way(self.one_way)
