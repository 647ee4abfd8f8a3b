"""Requests and responses paired while they pass by, in the order in which exchanges end; and what an answer tells.

What waits for its other half is kept, nothing else: a request until its response comes, a response that arrived before
its request was complete. What is still waiting at the end has no other half in the capture. A body is read once, when
it passes: of a response for its errors and for whether it may have waited, of a request for how long it may. Bodies are
not kept, unless somebody shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import OverBudget, in_bytes
from proxy.wire.long_polls import LONG_POLLS, allowed_ms
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome
from recorder.capture.reader import Row
from recorder.capture.reading import Reading, read_row

# What a row without its body takes as a Python value: two dozen columns, half of them texts.
ROW_SIZE = 3000


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


def pairs(rows: Iterable[Row], *, most: int = DEFAULT_BUDGET, with_bodies: bool = False) -> Iterator[Pair]:
    """Exchanges of rows in the order of arrival, which hold the bodies of responses; rows without one are passed over.

    Args:
        rows: of requests the bodies of long polls are wanted (`LONG_POLLS`), where they say how long they may wait.
        most: bytes of memory that the error codes of a response may take, and all rows that wait for another.
        with_bodies: whether the rows of a pair have them.
    Errors: OverBudget; those of `rows`.
    """
    waiting: dict[tuple[str, int, int], Pair] = {}
    for row in rows:
        if row[c.EXCHANGE] is None:
            continue
        key = row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]
        other, half = waiting.pop(key, None), _half(row, most, with_bodies)
        if other is not None:
            yield _joined(half, other)
        elif row[c.KIND] == c.REQUEST and row[c.AWAITS] is False:
            yield half
        else:
            waiting[key] = half
            if len(waiting) * ROW_SIZE > most:
                raise OverBudget(f"keeping exchanges that have no end makes more than {in_bytes(most)}")
    yield from waiting.values()


def _half(row: Row, most: int, with_bodies: bool) -> Pair:
    """What one row alone tells."""
    kept = row if with_bodies or row.get(c.FRAME) is None else row | {c.FRAME: None}
    if row[c.KIND] == c.REQUEST:
        return Pair(kept, None, allowed_ms=_allowed_ms(row))
    return Pair(None, kept, read_row(row, budget=Budget(most)))


def _joined(later: Pair, earlier: Pair) -> Pair:
    asked = later if later.request else earlier
    told = later if later.response else earlier
    return Pair(asked.request, told.response, told.reading, asked.allowed_ms)


def _allowed_ms(request: Row) -> int | None:
    body, key = request.get(c.FRAME), request[c.API_KEY]
    if body is None or request[c.DIALECT] != c.KAFKA or key not in LONG_POLLS:
        return None
    return allowed_ms(body, key, request[c.API_VERSION])
