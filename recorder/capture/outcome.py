"""The outcomes of an exchange: one vocabulary for all readers of a capture, with Spark and without."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How an exchange ended, as far as the capture tells."""

    ANSWERED = "answered"
    BY_PROXY = "by_proxy"  # answered by the proxy; the request never left it
    ONE_WAY = "one_way"  # no response was expected (acks=0)
    UNANSWERED = "unanswered"  # a response was expected and is not in the capture
    PENDING = "pending"  # no response is in the capture, nor the end of the connection: it may have come later
    REQUEST_LOST = "request_lost"  # the response is there, its request fell into a gap


# causes of the `session` event at a session's end: the proxy ended in order, or it did not
ENDED, DIED = "ended", "died"
