"""Errors in responses, by API and code."""

from __future__ import annotations

from dataclasses import dataclass, field

from recorder.analysis.summary.bounds import Section, Series, Table, Top


@dataclass(frozen=True, slots=True)
class ErrorOfApi:
    """An error code in an API's responses. `is_flow`: the code is part of the protocol's normal course."""

    api: str
    error: str
    code: int
    count: int
    share: float | None = None
    is_flow: bool = False
    is_retriable: bool | None = None
    first_at_ns: int | None = None
    last_at_ns: int | None = None
    subject: str | None = None
    example: str | None = None


@dataclass(frozen=True, slots=True)
class Errors(Section):
    """Errors in responses. `over_time`: those outside the normal course, by name. Examples: ids for `inspect show`."""

    errors: Table[ErrorOfApi] = field(default_factory=Table)
    over_time: Top[Series] = field(default_factory=Top)
