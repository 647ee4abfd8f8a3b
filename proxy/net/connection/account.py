"""Counts one connection's traffic for the metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence

from proxy.conversation import Conversation, Direction, Exchange, Step
from proxy.metrics.arriving import Arriving
from proxy.metrics.traffic import Traffic

clock = time.monotonic_ns


class Account:
    """One connection's account. A chunk is counted once it has been sent.

    answered: the exchanges whose responses end in the chunk at hand.
    one_way: the exchanges in the chunk at hand that no response follows.
    """

    __slots__ = ("_arriving", "_traffic", "answered", "one_way")

    def __init__(self, traffic: Traffic, conversation: Conversation) -> None:
        self._traffic = traffic
        self._arriving = Arriving(conversation.responses_side)
        self.answered: Sequence[Exchange] = ()
        self.one_way: Sequence[Exchange] = ()

    def request_sent(self, step: Step, at_ns: int) -> None:
        """The broker has been sent the request chunk that arrived at this time."""
        traffic = self._traffic
        traffic.proxied(Direction.REQUEST, clock() - at_ns)
        if step.one_way:
            traffic.one_way(step.one_way)
            self.one_way = ()
        if step.opaque:
            traffic.opaque(step.opaque)

    def response_sent(self, step: Step, at_ns: int) -> None:
        """The client has been sent the response chunk that arrived at this time."""
        traffic, sent_ns = self._traffic, clock()
        traffic.proxied(Direction.RESPONSE, sent_ns - at_ns)
        traffic.finished(step.finished, sent_ns, step.data, self._arriving.follow(step))
        self.answered = ()
        if step.unanswered:
            traffic.unanswered(step.unanswered)

    def unanswered(self, exchanges: Sequence[Exchange]) -> None:
        """The client gets no response to these exchanges."""
        self._traffic.unanswered(exchanges)

    def close(self) -> None:
        """The connection has ended: the chunk at hand, if there is one, has not been sent on."""
        self._traffic.unanswered(self.answered)
        self._traffic.one_way(self.one_way)
