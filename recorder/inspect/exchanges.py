"""Requests and responses paired while they pass by, in the order in which exchanges end.

What waits for its other half is kept, nothing else: a request until its response comes, a response that arrived before
its request was complete. What is still waiting at the end has no other half in the capture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from proxy.wire.error_codes import kafka_error
from proxy.wire.error_paths import error_codes
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """An exchange; one of the rows may be missing, not both."""

    request: Row | None
    response: Row | None

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

    def errors(self) -> list[str]:
        """Names of the error codes in the response, each once; none if its body is not there or can't be read."""
        return error_names(self.response) if self.response else []


def error_names(response: Mapping[str, Any]) -> list[str]:
    """Names of the error codes in a response's row, which must hold its body."""
    body, key = response.get(c.FRAME), response[c.API_KEY]
    if body is None or key is None or response[c.OMITTED]:
        return []
    masked, version = response[c.MASKED], response[c.API_VERSION]
    masked_from = masked[0]["start"] if masked else None
    codes = error_codes(body, key, version, masked_from=masked_from, dialect=response[c.DIALECT])
    return [kafka_error(code).name for code in dict.fromkeys(codes or [])]


def pairs(rows: Iterable[Row]) -> Iterator[Pair]:
    """Exchanges of rows in the order of arrival; rows without an exchange are passed over."""
    waiting: dict[tuple[str, int, int], Row] = {}
    for row in rows:
        if row[c.EXCHANGE] is None:
            continue
        key = row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]
        other = waiting.pop(key, None)
        if other is not None:
            yield _pair(row, other)
        elif row[c.KIND] == c.REQUEST and row[c.AWAITS] is False:
            yield Pair(row, None)
        else:
            waiting[key] = row
    yield from (Pair(row, None) if row[c.KIND] == c.REQUEST else Pair(None, row) for row in waiting.values())


def _pair(one: Row, other: Row) -> Pair:
    return Pair(one, other) if one[c.KIND] == c.REQUEST else Pair(other, one)
