"""How an exchange ended: the words that everything which reads a capture has for it, with Spark and without."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How an exchange ended, as far as the capture tells."""

    ANSWERED = "answered"
    BY_PROXY = "by_proxy"  # the proxy answered itself; the request never left it
    ONE_WAY = "one_way"  # no answer was to come (acks=0)
    UNANSWERED = "unanswered"  # an answer was due and is not in the capture
    REQUEST_LOST = "request_lost"  # the response is there, its request fell into a gap


# the cause of the `session` event at a session's end: its proxy ended in order, or it did not
ENDED, DIED = "ended", "died"
