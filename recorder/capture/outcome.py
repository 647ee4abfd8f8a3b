"""The outcomes of exchanges and sessions: one vocabulary for all readers of a capture, with Spark and without."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How an exchange ended, as far as the capture tells."""

    ANSWERED = "answered"
    BY_PROXY = "by_proxy"  # answered by the proxy; the request never left it
    ONE_WAY = "one_way"  # no response was expected (acks=0)
    UNANSWERED = "unanswered"  # a response was expected and is not in the capture
    PENDING = "pending"  # neither the response nor the connection's end is in the capture: both may come later
    REQUEST_LOST = "request_lost"  # the response is in the capture, and its request fell into a gap


# causes of the `session` event at a session's end: the proxy closed the session, or did not
ENDED, DIED = "ended", "died"
# cause of the `session` event that tells of which packet dump the session was made
IMPORTED = "imported"
