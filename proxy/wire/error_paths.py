"""Error codes of a response: every one inside its body, read without decoding the rest.

The codes are found by a projection over the paths that end in `error_code`; records and other values are stepped over.
One function serves Spark's executors and `kafka-wiretap inspect`.

Masked bytes are zeros, and a zero also means "no error" and "no elements". If only values are masked, the codes can
still be read; a response that is masked from its body's start has none.

Kafka 0.7's responses hold their codes elsewhere; the codes have the same meaning as in later versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cache

from proxy.wire import apis, catalog, kafka07
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.error_codes import is_error_code
from proxy.wire.errors import OverBudget, WireError
from proxy.wire.headers import response_head
from proxy.wire.language import Field
from proxy.wire.primitives import Buffer

Projection = Callable[[Buffer, int, Callable[[int], None]], dict[str, list[tuple[int, int, int]]]]


class Unread(StrEnum):
    """Why the error codes of a response are unknown. The value is that of columns and of JSON."""

    MASKED = "masked"  # as a whole, because it may hold a secret
    UNKNOWN_VERSION = "unknown_version"  # or an unknown api
    MALFORMED = "malformed"
    OVER_BUDGET = "over_budget"  # the codes take more memory than the budget
    # the capture lacks the frame, or a part of it
    OMITTED = "omitted"  # left out by a setting
    CUT = "cut"  # the connection ended within the frame
    TOO_LARGE = "too_large"  # larger than the reader's limit


def apis_with_errors(dialect: Dialect = Dialect.KAFKA) -> list[int]:
    """Keys of the APIs whose responses hold an error code in any version."""
    if dialect is Dialect.KAFKA_07:
        return [int(asked) for asked in kafka07.RequestType if asked.awaits_response]
    return [key for key in apis.api_keys() if any(error_paths(key, version) for version in apis.versions(key))]


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
    """The codes other than 0 in a response, with repetitions, path by path, in wire order within each path.

    `frame`: the whole response behind its length. `masked_from`: the start of its first masked span. `budget`: pays for
    the codes; by default a new one.
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
    request_type = kafka07.RequestHead(0, api_key).type
    if request_type is None or not request_type.awaits_response:
        return Unread.UNKNOWN_VERSION
    try:
        codes = kafka07.error_codes(frame, request_type, budget=budget)
    except OverBudget:
        return Unread.OVER_BUDGET
    return Unread.MALFORMED if codes is None else codes
