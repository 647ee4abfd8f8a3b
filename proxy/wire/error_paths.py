"""Where a response says what went wrong: every error code inside its body, read without decoding the rest.

A projection over the paths that the message language names `..error_code`: it steps over records and never builds a
value that nobody asked for. The same function serves Spark's executors and `kafka-wiretap inspect`.

What is masked is zeros, and a zero is also "no error" and "no elements". Where only values are masked, everything else
still reads; a response masked from its body's start tells nothing.

0.7's responses have their codes elsewhere, but these mean the same: the names of later versions serve for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cache

from proxy.wire import catalog, kafka07
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.error_codes import is_error_code
from proxy.wire.errors import OverBudget, WireError
from proxy.wire.headers import response_head
from proxy.wire.language import Field

Buffer = bytes | bytearray | memoryview
Projection = Callable[[Buffer, int, Callable[[int], None]], dict[str, list[tuple[int, int, int]]]]


class Unread(StrEnum):
    """Why nobody can tell whether a response holds errors. The value is that of columns and of JSON."""

    MASKED = "masked"  # whole: it may hold a secret
    UNKNOWN_VERSION = "unknown_version"  # or an unknown api
    MALFORMED = "malformed"
    OVER_BUDGET = "over_budget"  # all its codes take more memory than the reader was told to use
    # of frames that are not there as they were
    OMITTED = "omitted"  # left out by a setting
    CUT = "cut"  # it never came whole
    TOO_LARGE = "too_large"  # larger than the reader was told to read


def apis_with_errors(dialect: Dialect = Dialect.KAFKA) -> list[int]:
    """Keys of the APIs whose responses hold an error code in any version."""
    if dialect is Dialect.KAFKA_07:
        return [int(asked) for asked in kafka07.RequestType if asked.awaits_response]
    return [key for key in catalog.api_keys() if any(error_paths(key, version) for version in catalog.versions(key))]


@cache
def error_paths(api_key: int, api_version: int) -> tuple[str, ...]:
    """Paths of the error codes in this response; empty if it has none or is not in the catalog."""
    codec = catalog.codec("response", api_key, api_version)
    return tuple(_paths(codec.message.fields, api_version)) if codec else ()


def _paths(fields: Sequence[Field], version: int, prefix: str = "") -> Iterator[str]:
    for field in fields:
        if version not in field.versions:
            continue
        path = prefix + field.name
        if is_error_code(field.name):
            yield path
        yield from _paths(field.fields, version, path + ".")


@cache
def _projection(api_key: int, api_version: int) -> Projection | None:
    codec = catalog.codec("response", api_key, api_version)
    paths = error_paths(api_key, api_version)
    return codec.project_within(paths) if codec and paths else None


def error_codes(
    frame: Buffer,
    api_key: int,
    api_version: int | None,
    *,
    masked_from: int | None = None,
    dialect: str = Dialect.KAFKA,
    budget: Budget | None = None,
) -> list[int] | Unread:
    """The codes other than 0 in a response, in wire order within each path; one for each time it stands there.

    `frame` is the whole response behind its length; `masked_from` the start of its first masked span, if it has any;
    `budget` what the codes are taken from, by default a new one.
    """
    budget = budget or Budget()
    if dialect == Dialect.KAFKA_07:
        return _codes_of_07(frame, api_key, budget)
    if api_version is None or (project := _projection(api_key, api_version)) is None:
        return Unread.UNKNOWN_VERSION
    try:
        body = response_head(frame, api_key, api_version).body
        if masked_from is not None and masked_from <= body:
            return Unread.MASKED
        found = project(frame, body, budget.values.take)
    except OverBudget:
        return Unread.OVER_BUDGET
    except WireError:
        return Unread.MALFORMED
    return [value for path in found.values() for value, _, _ in path if value]


def _codes_of_07(frame: Buffer, api_key: int, budget: Budget) -> list[int] | Unread:
    asked = kafka07.RequestHead(0, api_key).type
    if asked is None or not asked.awaits_response:
        return Unread.UNKNOWN_VERSION
    try:
        codes = kafka07.error_codes(frame, asked, budget=budget)
    except OverBudget:
        return Unread.OVER_BUDGET
    return Unread.MALFORMED if codes is None else codes
