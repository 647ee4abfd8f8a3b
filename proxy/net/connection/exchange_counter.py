"""Counts one connection's chunks and exchanges for the metrics. The relay reports each chunk that it has sent."""

from __future__ import annotations

import time
from collections.abc import Sequence

from proxy.conversation import Conversation, Direction, Exchange, Step
from proxy.metrics.split_responses import SplitResponses
from proxy.metrics.traffic import CountedConnection, Traffic

clock = time.monotonic_ns


class ExchangeCounter:
    """Counts an exchange once its last chunk is sent. `close` counts the exchanges whose last chunk was not sent.

    The relay sets these attributes while it sends a chunk. Otherwise they are empty:

    unsent_finished: exchanges whose response ends in the chunk for the client.
    unsent_one_way: exchanges without a response whose request ends in the chunk for the broker.
    """

    __slots__ = ("_connection", "_split_responses", "_traffic", "unsent_finished", "unsent_one_way")

    def __init__(self, traffic: Traffic, connection: CountedConnection, conversation: Conversation) -> None:
        self._traffic = traffic
        self._connection = connection
        # reads the error codes of responses that span chunks
        self._split_responses = SplitResponses(conversation.responses_side)
        self.unsent_finished: Sequence[Exchange] = ()
        self.unsent_one_way: Sequence[Exchange] = ()

    def request_sent(self, step: Step, at_ns: int) -> None:
        """Counts a chunk of requests, which arrived at `at_ns` and has just been sent to the broker."""
        traffic = self._traffic
        if _sends_chunk_bytes(step):
            traffic.proxied(Direction.REQUEST, clock() - at_ns)
        if step.one_way:
            traffic.one_way(step.one_way)
            self.unsent_one_way = ()
        if step.opaque_reasons:
            traffic.opaque(step.opaque_reasons)

    def response_sent(self, step: Step, at_ns: int) -> None:
        """Counts a chunk of responses, which arrived at `at_ns` and has just been sent to the client."""
        traffic, sent_ns = self._traffic, clock()
        if _sends_chunk_bytes(step):
            traffic.proxied(Direction.RESPONSE, sent_ns - at_ns)
        traffic.finished(step.finished, sent_ns, step.data, self._split_responses.follow(step), self._connection)
        self.unsent_finished = ()
        if step.unanswered:
            traffic.unanswered(step.unanswered)

    def unanswered(self, exchanges: Sequence[Exchange]) -> None:
        """Counts exchanges to which the client gets no response."""
        self._traffic.unanswered(exchanges)

    def close(self) -> None:
        """Counts the exchanges of unsent chunks: the finished exchanges as unanswered, the others as one-way."""
        self._traffic.unanswered(self.unsent_finished)
        self._traffic.one_way(self.unsent_one_way)


def _sends_chunk_bytes(step: Step) -> bool:
    """False if no byte of the step's chunk is sent: all are held back, or of requests that the proxy answers."""
    return step.stop > 0 and (not step.edits or any(step.outgoing()))
