"""The errors in a recorded response, and whether the response may have waited; or why that is unknown.

Used by all readers of a capture, with Spark and without. Missing bytes never count as "no errors": the result then says
why the errors are unknown.
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
    """`codes`: the error codes other than 0, each as often as it occurs; empty if the response is unread."""

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
    """Reads a response of which nothing was left out. `masked_from`: where its first masked span starts.

    `is_cut`: it never came whole. `budget`: pays for its codes, by default a new one.
    """
    budget = budget or Budget()
    found = error_codes(frame, api_key, api_version, masked_from=masked_from, dialect=dialect, budget=budget)
    if isinstance(found, Unread):
        why = Unread.CUT if is_cut and found is Unread.MALFORMED else found
        return Reading([], why, unread_wait(dialect, api_key))
    wait = unread_wait(dialect, api_key)
    return Reading(found, None, wait and waited(frame, api_key, api_version, budget=budget))


def read_row(response: Mapping[str, Any], *, budget: Budget | None = None) -> Reading:
    """Reads a response's row, which must hold its body if the capture has it. `budget`: as for `read`."""
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
    """INCLUDES_WAIT for an unread response whose latency may include a wait, otherwise None."""
    return Wait.INCLUDES_WAIT if dialect == Dialect.KAFKA and api_key in LONG_POLLS else None


def is_cut(note: str | None) -> bool:
    """True if a row's note says that the frame never came whole."""
    return note is not None and note.startswith(c.CUT)
