"""What a response in a capture tells: the errors in it, whether it may have waited; or why nobody can tell.

The same for everything that reads a capture, with Spark and without. What is not there is never an answer: a response
without its bytes has neither errors nor none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.error_paths import Unread, error_codes
from proxy.wire.long_polls import LONG_POLLS, Wait, waited
from proxy.wire.primitives import Buffer
from recorder.capture import frames as c


class Reading(NamedTuple):
    """`codes`: the error codes other than 0, each as often as it stands there; none of a response that is unread."""

    codes: list[int]
    unread: Unread | None = None
    wait: Wait | None = None


def read(
    frame: Buffer,
    *,
    dialect: str,
    api_key: int,
    api_version: int | None,
    masked_from: int | None,
    is_cut: bool,
    budget: Budget | None = None,
) -> Reading:
    """A response whose bytes are all here, as far as they came. `masked_from`: where its first masked span starts.

    `budget`: what its codes are taken from, by default a new one.
    """
    budget = budget or Budget()
    found = error_codes(frame, api_key, api_version, masked_from=masked_from, dialect=dialect, budget=budget)
    if isinstance(found, Unread):
        why = Unread.CUT if is_cut and found is Unread.MALFORMED else found
        return Reading([], why, unread_wait(dialect, api_key))
    wait = unread_wait(dialect, api_key)
    return Reading(found, None, wait and waited(frame, api_key, api_version, budget=budget))


def read_row(response: Mapping[str, Any], *, budget: Budget | None = None) -> Reading:
    """A response's row, which must hold its body if the capture has it. `budget`: as for `read`."""
    frame, dialect, api_key = response[c.FRAME], response[c.DIALECT], response[c.API_KEY]
    if frame is None or response[c.OMITTED]:
        return Reading([], Unread.OMITTED, unread_wait(dialect, api_key))
    if api_key is None:
        return Reading([], Unread.UNKNOWN_VERSION)
    masked = response[c.MASKED]
    return read(
        frame,
        dialect=dialect,
        api_key=api_key,
        api_version=response[c.API_VERSION],
        masked_from=masked[0]["start"] if masked else None,
        is_cut=is_cut(response[c.NOTE]),
        budget=budget,
    )


def unread_wait(dialect: str, api_key: int | None) -> Wait | None:
    """Of a response that is not read: whether its latency may hold a wait."""
    return Wait.INCLUDES_WAIT if dialect == Dialect.KAFKA and api_key in LONG_POLLS else None


def is_cut(note: str | None) -> bool:
    """Whether a row's note says that the frame never came whole."""
    return note is not None and note.startswith(c.CUT)
