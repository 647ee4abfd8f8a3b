"""What of a tree the columns of `frames` decide: an expression for Parquet, and the time that rows may have.

The expression lets pass every row that a subject needs, and maybe others: `evaluation` decides. Of an exchange, only
columns that both of its frames share are asked. Its time is its request's: a response may come much later, but hardly
earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

import pyarrow.compute as pc
import pyarrow.dataset as ds

from recorder.capture import frames as c
from recorder.capture.reader import hour_may_hold
from recorder.query.fields import FIELDS, Kind
from recorder.query.syntax import EQUAL, LIKE, ORDERS, UNEQUAL, And, Comparison, Node, Not, Or, required
from recorder.query.values import Api, Client, Pattern

# a response whose last byte came before its request's: the broker refused what it had seen of it
_EARLY_NS = 60 * 10**9
# the longest that a response is looked for behind `until`, in hours of files
_LATE_NS = c.HOUR_NS

OF_EXCHANGES: Mapping[str, str] = {field.name: field.column for field in FIELDS.values() if field.column}
OF_FRAMES: Mapping[str, str] = {
    **OF_EXCHANGES,
    c.NODE: c.NODE,
    c.PRINCIPAL: c.PRINCIPAL,
    c.KIND: c.KIND,
    c.SIZE: c.SIZE,
    "at": c.AT_NS,
    "latency": c.LATENCY_NS,
    "queued": c.QUEUED_NS,
    "transfer": c.TRANSFER_NS,
}


class Rows(NamedTuple):
    """The rows of `frames` that a reader needs. `expression`: None for all; times in ns since 1970, None: no bound."""

    expression: Any = None
    since_ns: int | None = None
    until_ns: int | None = None

    def in_hour(self, start_ns: int) -> bool:
        """True if the hour that begins at `start_ns` can hold such rows."""
        return hour_may_hold(start_ns, self.since_ns, self.until_ns)


def rows_of_ids(
    sessions: Sequence[str] = (),
    connections: Sequence[int] = (),
    *,
    sequences: Sequence[int] = (),
    kinds: Sequence[str] = (),
    exchanges: Sequence[int] = (),
) -> Rows:
    """The frames that match all of these ids; an empty one matches everything. `sessions`: or prefixes of names."""
    parts = [pc.starts_with(ds.field(c.SESSION), pattern=each) for each in sessions]
    given = [reduce(or_, parts)] if parts else []
    ids = {c.CONNECTION: connections, c.SEQUENCE: sequences, c.EXCHANGE: exchanges, c.KIND: kinds}
    given += [ds.field(column).isin(list(values)) for column, values in ids.items() if values]
    return Rows(reduce(and_, given) if given else None)


def rows_of_frames(node: Node) -> Rows:
    """The frames that may pass."""
    return Rows(_expression(node, OF_FRAMES), *between(node))


def rows_of_exchanges(node: Node) -> Rows:
    """The frames of exchanges that may pass."""
    since_ns, until_ns = between(node)
    parts = [_expression(node, OF_EXCHANGES)]
    if since_ns is not None:
        since_ns -= _EARLY_NS
        parts.append(ds.field(c.AT_NS) >= since_ns)
    if until_ns is not None:
        parts.append((ds.field(c.KIND) == c.RESPONSE) | (ds.field(c.AT_NS) <= until_ns))
        until_ns += _LATE_NS
    given = [part for part in parts if part is not None]
    return Rows(reduce(and_, given) if given else None, since_ns, until_ns)


def between(node: Node) -> tuple[int | None, int | None]:
    """The first and the last time that a tree lets pass; None: no bound."""
    since: int | None = None
    until: int | None = None
    for part in required(node):
        if isinstance(part, Comparison) and part.field.name == "at":
            (value,) = part.values
            if part.operator.startswith(">"):
                since = value if since is None else max(since, value)
            else:
                until = value if until is None else min(until, value)
    return since, until


def _expression(node: Node, columns: Mapping[str, str]) -> Any:
    """An expression that is true for each row that may pass; None if no column decides."""
    match node:
        case And(parts):
            return _joined([_expression(part, columns) for part in parts], and_)
        case Or(parts):
            every = [_expression(part, columns) for part in parts]
            return None if any(each is None for each in every) else _joined(every, or_)
        case Not():
            return None
        case Comparison():
            column = columns.get(node.field.name)
            if node.field.kind is Kind.CLIENT:
                return _any([_client(each) for each in node.values]) if node.operator == EQUAL else None
            return None if column is None else _compared(node, column)


def _joined(parts: list[Any], join: Callable[[Any, Any], Any]) -> Any:
    given = [part for part in parts if part is not None]
    return reduce(join, given) if given else None


def _any(parts: list[Any]) -> Any:
    return reduce(or_, parts)


def _compared(asked: Comparison, column: str) -> Any:
    if asked.operator in ORDERS:
        return ORDERS[asked.operator](ds.field(column), asked.values[0])
    if asked.operator == LIKE:
        return _like(asked, column)
    if asked.operator not in (EQUAL, UNEQUAL):
        return None
    if asked.field.kind is Kind.API:
        return _any([_api(each) for each in asked.values]) if asked.operator == EQUAL else None
    is_one = ds.field(column).isin(list(asked.values))
    return is_one if asked.operator == EQUAL else ~is_one


def _like(asked: Comparison, column: str) -> Any:
    pattern: Pattern = asked.values[0]
    begun = pattern.beginning
    if begun is None or asked.field.kind is not Kind.TEXT:
        return None
    return pc.starts_with(ds.field(column), pattern=begun)


def _api(api: Api) -> Any:
    named = ds.field(c.API_KEY) == api.key
    return named if api.dialect is None else named & (ds.field(c.DIALECT) == api.dialect)


def _client(client: Client) -> Any:
    address = client.address
    begun = [pc.starts_with(ds.field(c.CLIENT), pattern=each) for each in address.beginnings]
    return _any([ds.field(c.CLIENT_ID) == client.name, ds.field(c.CLIENT).isin(list(address.exact)), *begun])
