"""Requests and responses paired while they pass by, in the order in which exchanges end; and what an answer tells.

What waits for its other half is kept, nothing else: a request until its response comes, a response that arrived before
its request was complete. What is still waiting at the end has no other half in the capture. The body of a response is
read once, for its errors and for whether it may have waited, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.long_polls import LONG_POLLS, allowed_ms
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome
from recorder.capture.reading import Reading, read_row

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """An exchange; one of the rows may be missing, not both. `reading`: of the response, if there is one."""

    request: Row | None
    response: Row | None
    reading: Reading | None = None
    # of a long poll: how long the broker may keep it waiting, in milliseconds, as its request says
    allowed_ms: int | None = None

    @property
    def head(self) -> Row:
        """The row that tells the facts both share."""
        return self.request or self.response or {}

    @property
    def outcome(self) -> Outcome:
        """How it ended, as far as the capture tells."""
        if self.response is None:
            return Outcome.UNANSWERED if self.head[c.AWAITS] else Outcome.ONE_WAY
        if self.response[c.MADE_BY] == c.BY_PROXY:
            return Outcome.BY_PROXY
        return Outcome.ANSWERED if self.request else Outcome.REQUEST_LOST


def pairs(rows: Iterable[Row], *, most: int = DEFAULT_BUDGET) -> Iterator[Pair]:
    """Exchanges of rows in the order of arrival, which hold the bodies of responses; rows without one are passed over.

    Of requests the bodies of long polls are wanted (`LONG_POLLS`), where they say how long they may wait. `most`: bytes
    of memory that the error codes of a response may take.
    """
    waiting: dict[tuple[str, int, int], Row] = {}
    for row in rows:
        if row[c.EXCHANGE] is None:
            continue
        key = row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]
        other = waiting.pop(key, None)
        if other is not None:
            yield _pair(row, other, most=most)
        elif row[c.KIND] == c.REQUEST and row[c.AWAITS] is False:
            yield _pair(row, most=most)
        else:
            waiting[key] = row
    yield from (_pair(row, most=most) for row in waiting.values())


def _pair(*rows: Row, most: int) -> Pair:
    request = next((row for row in rows if row[c.KIND] == c.REQUEST), None)
    response = next((row for row in rows if row[c.KIND] != c.REQUEST), None)
    reading = None if response is None else read_row(response, budget=Budget(most))
    return Pair(request, response, reading, None if request is None else _allowed_ms(request))


def _allowed_ms(request: Row) -> int | None:
    body, key = request.get(c.FRAME), request[c.API_KEY]
    if body is None or request[c.DIALECT] != c.KAFKA or key not in LONG_POLLS:
        return None
    return allowed_ms(body, key, request[c.API_VERSION])
