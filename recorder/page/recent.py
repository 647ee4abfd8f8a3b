"""The newest exchanges, in bounded memory: what the page shows and searches.

A feed's thread calls `take` and `missed`; requests read from other threads. An exchange never changes once it is kept,
and has a number that grows. So readers need no lock: they look at numbers from the newest down, and find that the
oldest have gone.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

from recorder.capture import frames as c
from recorder.capture.reader import ALL, Row
from recorder.page.counts import Counts
from recorder.page.series import Series
from recorder.query.evaluation import Element
from recorder.query.fields import OF_BATCHES, OF_ELEMENTS, OF_RECORDS
from recorder.query.language import parse
from recorder.query.syntax import EVERYTHING, Node, names, resolved
from recorder.reading.elements import Told
from recorder.reading.exchanges import LARGEST_KEPT, Pair
from recorder.reading.passing import Judge, Unsure

# fields of elements that are read of each exchange once, when it comes; others need its batches unfolded
KEPT_FIELDS = OF_ELEMENTS - OF_BATCHES - OF_RECORDS
# with those of heads that only other frames tell
FIELDS_READ = KEPT_FIELDS | {"software", "software_version"}
# bytes of memory, measured: of a row without its body, and of an element of a side
_ROW_SIZE, _ELEMENT_SIZE = 900, 400
_NAMES = tuple(name for name in ALL if name != c.AT)
# exchanges between two looks at the clock, while many are searched
_AT_ONCE = 256


def opens_batches(fields: Set[str]) -> bool:
    """True if a filter with these fields needs batches unfolded, which are not kept so."""
    return not fields.isdisjoint(OF_BATCHES | OF_RECORDS)


class Kept(NamedTuple):
    """An exchange in little memory: its rows are tuples, whose texts are shared with other rows."""

    number: int
    request: tuple[Any, ...] | None
    response: tuple[Any, ...] | None
    pair: Pair
    size: int

    def whole(self) -> Pair:
        """The exchange with its rows."""
        return self.pair._replace(request=_row(self.request), response=_row(self.response))


class Matches(NamedTuple):
    """Exchanges that pass a filter, the newest first.

    Attributes:
        found: each with its number.
        next: the number below which there may be more; None: there are none.
        unsure: what may have passed, of those that were looked at.
    """

    found: list[tuple[int, Pair]]
    next: int | None
    unsure: Unsure


class Arrivals(NamedTuple):
    """What has come since a number. `passed_over`: exchanges that are gone already, or too many for one look."""

    found: list[tuple[int, Pair]]
    last: int
    passed_over: int


class Recent:
    """Keeps the newest exchanges. A consumer of the live stream (`take`, `missed`).

    Args:
        told: names of topics and clients' software, which whoever feeds the exchanges learns from other frames.
        most_bytes, most_exchanges: what is kept at most; the oldest go first.
        clock: the time in ns since 1970.

    Attributes:
        counts, series: sums of all exchanges that were taken: those by topic, group and so on; those by second.
        behind: how far the feed is behind, in seconds, while it passes over what comes; 0: it does not.
    """

    def __init__(
        self,
        told: Told,
        *,
        most_bytes: int,
        most_exchanges: int = 100_000,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.told, self.counts, self.series = told, Counts(told), Series()
        self._most_bytes, self._most_exchanges, self._clock = most_bytes, most_exchanges, clock
        # by its number; the oldest first
        self._kept: dict[int, Kept] = {}
        self._first, self._next, self._size = 0, 0, 0
        self._reader = Judge(EVERYTHING, told, FIELDS_READ)
        self._missed: Counter[str] = Counter()
        self.behind = 0.0

    def take(self, pair: Pair) -> None:
        """Keeps an exchange, and counts it. Called by the feed."""
        pair = self.with_sides(pair)
        head, elements = self._reader.head(pair), self._reader.elements(pair)
        self.counts.add(pair, head, elements)
        self.series.add(pair, head)
        kept = _kept(self._next, pair)
        self._kept[kept.number] = kept
        self._size += kept.size
        # behind the exchange, so that a reader finds each number below it
        self._next += 1
        while len(self._kept) > self._most_exchanges or self._size > self._most_bytes:
            self._size -= self._kept.pop(self._first).size
            self._first += 1

    def with_sides(self, pair: Pair) -> Pair:
        """The exchange with what its frames say; without bodies that are too large to be kept."""
        request, response = pair.request, pair.response
        if pair.asked is not None or pair.told is not None:
            return pair._replace(request=_bounded(request), response=_bounded(response))
        return self._reader.opened(pair)._replace(request=_bounded(request), response=_bounded(response))

    def missed(self, why: str, frames: int | None = None) -> None:
        """Counts frames that are missing. `frames`: None if nobody knows how many."""
        self._missed[why if len(self._missed) < 100 or why in self._missed else "other reasons"] += frames or 0

    @property
    def losses(self) -> dict[str, int]:
        """By the reason: how many frames are missing, as far as is known."""
        return dict(self._missed)

    @property
    def last(self) -> int:
        """The number of the newest exchange; -1: there is none."""
        return self._next - 1

    @property
    def held(self) -> tuple[int, int]:
        """How many exchanges are kept, and their bytes of memory."""
        return len(self._kept), self._size

    def newest(self, node: Node, limit: int, *, before: int | None = None, seconds: float = 0.5) -> Matches:
        """The newest exchanges that pass a filter, within a time.

        Args:
            node: the filter, with its moments resolved.
            before: only those with smaller numbers.
            seconds: after so long the search ends, with `next` to go on from.
        """
        passes, unsure = self._filter(node)
        found: list[tuple[int, Pair]] = []
        end = time.monotonic() + seconds
        number = begin = self._next if before is None else min(self._next, before)
        for number in range(begin - 1, self._first - 1, -1):
            kept = self._kept.get(number)
            if kept is None:
                break
            pair = kept.whole()
            if passes(pair):
                found.append((number, pair))
            if len(found) == limit or (not number % _AT_ONCE and time.monotonic() > end):
                break
        return Matches(found, number if number > self._first else None, unsure)

    def after(self, node: Node, last: int, *, limit: int, looked_at: int = 2000) -> Arrivals:
        """What has come behind a number and passes a filter, the oldest first.

        `limit`: so many at most, the newest of them. `looked_at`: of how many at most the filter is asked.
        """
        passes, _ = self._filter(node)
        end = self._next
        begin = max(last + 1, self._first, end - looked_at)
        kept = [self._kept.get(number) for number in range(begin, end)]
        pairs = ((one.number, one.whole()) for one in kept if one is not None)
        found = [(number, pair) for number, pair in pairs if passes(pair)]
        passed_over = begin - min(last + 1, end) + max(len(found) - limit, 0)
        return Arrivals(found[-limit:], end - 1, passed_over)

    def find(self, session: str, connection: int, exchange: int) -> Pair | None:
        """An exchange by its id; None if it is not kept."""
        for number in range(self._next - 1, self._first - 1, -1):
            kept = self._kept.get(number)
            if kept is None:
                return None
            row = kept.request or kept.response or ()
            if (row[_EXCHANGE], row[_CONNECTION], row[_SESSION]) == (exchange, connection, session):
                return kept.whole()
        return None

    def head(self, pair: Pair) -> dict[str, Any]:
        """What a filter may ask of an exchange's head."""
        return self._reader.head(pair)

    def elements(self, pair: Pair) -> Sequence[Element]:
        """What an exchange says of partitions, groups, members and so on."""
        return self._reader.elements(pair)

    def node(self, text: str) -> Node:
        """A filter as a tree, with its moments resolved. Errors: FilterError."""
        return resolved(parse(text), self.newest_ns) if text.strip() else EVERYTHING

    def newest_ns(self) -> int:
        """The moment that a filter's times count from, in ns since 1970: when the newest exchange ended."""
        return self.series.last_ns or self._clock()

    def _filter(self, node: Node) -> tuple[Callable[[Pair], bool], Unsure]:
        judge = Judge(node, self.told)
        if not opens_batches(names(node)):
            return judge.passes, judge.unsure
        return lambda pair: judge.passes(judge.opened(pair)), judge.unsure


_EXCHANGE, _CONNECTION, _SESSION = (_NAMES.index(name) for name in (c.EXCHANGE, c.CONNECTION, c.SESSION))


def _bounded(row: Row | None) -> Row | None:
    if row is None or len(row[c.FRAME] or b"") <= LARGEST_KEPT:
        return row
    return row | {c.FRAME: None}


def _kept(number: int, pair: Pair) -> Kept:
    request, response = _packed(pair.request), _packed(pair.response)
    bodies = sum(len(row[c.FRAME] or b"") for row in (pair.request, pair.response) if row)
    rows = sum(row is not None for row in (request, response))
    elements = sum(side.number + 1 for side in (pair.asked, pair.told) if side)
    size = bodies + rows * _ROW_SIZE + elements * _ELEMENT_SIZE
    return Kept(number, request, response, pair._replace(request=None, response=None), size)


def _packed(row: Row | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(_shared(row.get(name)) for name in _NAMES)


def _shared(value: Any) -> Any:
    return sys.intern(value) if type(value) is str else value


def _row(packed: tuple[Any, ...] | None) -> Row | None:
    return None if packed is None else dict(zip(_NAMES, packed, strict=True))
