"""Pairs requests with responses in one pass, in the order in which exchanges end.

Only unpaired rows are kept: a request until its response comes, or a response that arrived before its request was
complete. Rows that are unpaired at the end have no other half in the capture. Each body is read once, as it passes: a
response's body for its errors and its wait, unless facts tell them; a request's for the longest wait that it allows.
Bodies are kept only if the caller wants them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple, TypeVar

from proxy.units import MIB
from proxy.wire.budget import DEFAULT_BUDGET, Budget
from proxy.wire.errors import OverBudget, in_bytes
from proxy.wire.long_polls import LONG_POLLS, allowed_ms, only_renews
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome
from recorder.capture.reader import Row
from recorder.facts.response_errors import ResponseErrors, row_errors
from recorder.reading.elements import Side
from recorder.reading.known import answered
from recorder.reading.rows import ORDER

# Memory of a row without its body as a Python value: two dozen columns, half of them texts.
ROW_SIZE = 3000
# bytes of a frame: those who keep exchanges in memory keep no larger body, or a few would push out all other exchanges
LARGEST_KEPT = MIB
_arrival = itemgetter(*ORDER)
Key = TypeVar("Key")
Value = TypeVar("Value")
Read = Callable[[Row, ResponseErrors | None], Side | None]


class Pair(NamedTuple):
    """An exchange; one of the rows may be missing, not both. `reading`: the response's errors, if there is one."""

    request: Row | None
    response: Row | None
    reading: ResponseErrors | None = None
    # of a long poll: the longest wait that its request allows, in milliseconds
    allowed_ms: int | None = None
    # the request only renews locks, which is no poll
    only_renews: bool = False
    # what the frames say of partitions, groups and so on, if a filter asks for it
    asked: Side | None = None
    told: Side | None = None

    @property
    def head(self) -> Row:
        """The row with the facts that both rows share."""
        return self.request or self.response or {}

    @property
    def outcome(self) -> Outcome:
        """The exchange's outcome, as far as the capture shows it."""
        if self.response is None:
            return Outcome.UNANSWERED if self.head[c.AWAITS] else Outcome.ONE_WAY
        if self.response[c.MADE_BY] == c.BY_PROXY:
            return Outcome.BY_PROXY
        return Outcome.ANSWERED if self.request else Outcome.REQUEST_LOST


def exchange_id(row: Row) -> str:
    """An exchange's id, as an argument of `inspect show`: SESSION/CONNECTION/eEXCHANGE. `row`: of either frame."""
    return f"{row[c.SESSION]}/{short_exchange_id(row)}"


def short_exchange_id(row: Row) -> str:
    """An exchange within its session: CONNECTION/eEXCHANGE."""
    return f"{row[c.CONNECTION]}/e{row[c.EXCHANGE]}"


class Pairing:
    """Pairs rows as they come; keeps those whose other half has not come.

    Args:
        most: the limit in bytes of memory for the error codes of a response, and for all unpaired rows.
        with_bodies: keep the bodies in the rows of a pair.
        read: makes the `asked` and `told` of a pair, of rows that still have their bodies, and of a response's errors.
    """

    def __init__(
        self,
        *,
        most: int = DEFAULT_BUDGET,
        with_bodies: bool = False,
        read: Read = lambda row, reading: None,
    ) -> None:
        self._most, self._with_bodies, self._read = most, with_bodies, read
        # by session, connection and exchange: an end looks only at what ends
        self._waiting: defaultdict[str, dict[int, dict[int, Pair]]] = defaultdict(dict)
        # lines of memory that the waiting rows take, as many as they have elements
        self._lines = 0

    def take(self, row: Row) -> Pair | None:
        """Takes the next row in the order of arrival; returns the exchange that ends with it. Errors: OverBudget."""
        if row[c.EXCHANGE] is None:
            return None
        session, connection, exchange = row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]
        other = self._popped(session, connection, exchange)
        half = _half(row, self._most, self._with_bodies, self._read)
        if other is not None:
            return _joined(half, other)
        if row[c.KIND] == c.REQUEST and row[c.AWAITS] is False:
            return half
        self._waiting[session].setdefault(connection, {})[exchange] = half
        self._lines += _lines(half)
        if self._lines * ROW_SIZE > self._most:
            raise OverBudget(f"keeping exchanges that have no end makes more than {in_bytes(self._most)}")
        return None

    def rest(
        self, session: str | None = None, connection: int | None = None, exchange: int | None = None
    ) -> Iterator[Pair]:
        """The exchanges whose other half has not come, which are not waited for any more, in the order of arrival.

        Those of all sessions, of a session, of one of its connections, or a single one.
        """
        keys = [
            (own, each, one)
            for own, connections in _chosen(self._waiting, session)
            for each, exchanges in _chosen(connections, connection)
            for one, _ in _chosen(exchanges, exchange)
        ]
        found = [half for key in keys if (half := self._popped(*key)) is not None]
        yield from sorted(found, key=lambda half: _arrival(half.head))

    def _popped(self, session: str, connection: int, exchange: int) -> Pair | None:
        """What waits of an exchange, which waits no more."""
        connections = self._waiting.get(session, {})
        exchanges = connections.get(connection, {})
        half = exchanges.pop(exchange, None)
        if half is not None:
            self._lines -= _lines(half)
            if not exchanges:
                del connections[connection]
            if not connections:
                del self._waiting[session]
        return half


def _chosen(waiting: dict[Key, Value], key: Key | None) -> list[tuple[Key, Value]]:
    """What waits under a key; under all keys without one."""
    if key is None:
        return [*waiting.items()]
    return [(key, waiting[key])] if key in waiting else []


def pairs(
    rows: Iterable[Row],
    *,
    most: int = DEFAULT_BUDGET,
    with_bodies: bool = False,
    read: Read = lambda row, reading: None,
) -> Iterator[Pair]:
    """The exchanges of rows, which come in the order of arrival; rows without an exchange are skipped.

    Args:
        rows: with the bodies of responses that facts don't know (`known.answered`). Without the body of a request that
            is a long poll (`LONG_POLLS`), the wait that it allows is unknown.
        most, with_bodies, read: as of `Pairing`.
    Errors: OverBudget; the errors of `rows`.
    """
    pairing = Pairing(most=most, with_bodies=with_bodies, read=read)
    yield from filter(None, map(pairing.take, rows))
    yield from pairing.rest()


def _lines(half: Pair) -> int:
    return 1 + sum(side.number for side in (half.asked, half.told) if side)


def _half(row: Row, most: int, with_bodies: bool, read: Read) -> Pair:
    """A pair with one row only."""
    is_request = row[c.KIND] == c.REQUEST
    reading = None if is_request else answered(row) or row_errors(row, budget=Budget(most))
    side = read(row, reading)
    kept = row if with_bodies or row.get(c.FRAME) is None else row | {c.FRAME: None}
    if is_request:
        if row.get(c.FRAME) is None:
            return Pair(kept, None, asked=side)
        return Pair(kept, None, allowed_ms=_allowed_ms(row), only_renews=_only_renews(row), asked=side)
    return Pair(None, kept, reading, told=side)


def _joined(later: Pair, earlier: Pair) -> Pair:
    asked = later if later.request else earlier
    answered = later if later.response else earlier
    reading = answered.reading
    if reading is not None and asked.only_renews:
        reading = reading._replace(wait=None)
    return Pair(
        asked.request, answered.response, reading, asked.allowed_ms, asked.only_renews, asked.asked, answered.told
    )


def _allowed_ms(request: Row) -> int | None:
    key = request[c.API_KEY]
    if request[c.DIALECT] != c.KAFKA or key not in LONG_POLLS:
        return None
    return allowed_ms(request[c.FRAME], key, request[c.API_VERSION])


def _only_renews(request: Row) -> bool:
    is_kafka = request[c.DIALECT] == c.KAFKA
    return is_kafka and only_renews(request[c.FRAME], request[c.API_KEY], request[c.API_VERSION])
