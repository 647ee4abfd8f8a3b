"""Reads the partitions that Fetch requests name, and their fetch sessions (KIP-227, version 7 on).

Within a session, a request names only new partitions, partitions with a new offset, and partitions to forget.

    FETCH_REQUESTS  a row for each request, without a partition, and one for each partition that it names
    FETCH_SIZES  a row for each request, with the number of its partitions
    FETCH_ANSWERS   the session that an answer names
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.wire import keys
from proxy.wire.budget import Budget
from recorder.facts.frame import REQUEST, RESPONSE, Frame, none_if_negative, opened
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column
from recorder.facts.topics import PLACE, forgotten, places

_SESSION = (
    Column("fetch_session", "int", "the session's id; 0 for none; null before version 7"),
    Column("fetch_epoch", "int", "counts the session's requests: 0 opens one, -1 closes it"),
)
_REQUESTED = (
    *PLACE,
    Column("fetch_offset", "bigint", "the first offset asked for"),
    Column("is_forgotten", "boolean", "the partition leaves the session"),
)
_ANSWERED = (
    Column("answered_session", "int", "the session's id; 0 for none"),
    Column("answered_error", "smallint", "the answer's own error"),
)
_SIZE = (Column("partitions", "int", "how many partitions the request names"),)
_NOTHING = (None,) * len(_REQUESTED)


def read_request(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The row of the request, and those of its partitions. Errors: Unreadable."""
    values = opened(frame, budget)
    fetched = [(*place.named, none_if_negative(place.values["fetch_offset"]), False) for place in places(frame, budget)]
    gone = [(*place.named, None, True) for place in forgotten(frame, budget)]
    yield Group((values.get("session_id"), values.get("session_epoch")), [_NOTHING, *fetched, *gone])


def read_size(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The request's row, with the number of its partitions. Errors: Unreadable."""
    values = opened(frame, budget)
    size = len(places(frame, budget))
    yield Group((values.get("session_id"), values.get("session_epoch")), [(size,)])


def read_answer(frame: Frame, budget: Budget) -> Iterator[Group]:
    """The session that the answer names. Errors: Unreadable."""
    values = opened(frame, budget)
    yield Group((), [(values.get("session_id"), values.get("error_code"))])


FETCH_REQUESTS = Decoder(
    "fetch_requests",
    "a Fetch request, or its partition",
    (FrameSelector(REQUEST, (keys.FETCH,)),),
    _SESSION,
    _REQUESTED,
    read_request,
)
FETCH_SIZES = Decoder(
    "fetch_sizes", "a Fetch request", (FrameSelector(REQUEST, (keys.FETCH,)),), _SESSION, _SIZE, read_size
)
FETCH_ANSWERS = Decoder(
    "fetch_answers",
    "an answer to such a request",
    (FrameSelector(RESPONSE, (keys.FETCH,)),),
    (),
    _ANSWERED,
    read_answer,
)
