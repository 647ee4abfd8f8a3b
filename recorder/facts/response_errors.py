"""Reads the error codes in a recorded response, and whether the response may have waited on purpose (a long poll).

Used by `inspect` and by `analysis`. If the codes can't be read, the result says why: the response is cut, masked or
unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.error_reader import Unread, error_codes
from proxy.wire.long_polls import LONG_POLLS, Wait, waited
from proxy.wire.primitives import Buffer


class ResponseErrors(NamedTuple):
    """The errors of one response.

    Attributes:
        codes: the error codes other than 0, each as often as it occurs; empty if `unread` is given.
        unread: why the errors are unknown; None: they are known.
        wait: what the response shows of a wait on purpose; None for APIs without long polls.
    """

    codes: list[int]
    unread: Unread | None = None
    wait: Wait | None = None


def response_errors(
    frame: Buffer,
    *,
    dialect: str,
    api_key: int,
    api_version: int | None,
    masked_from: int | None,
    is_cut: bool,
    budget: Budget | None = None,
) -> ResponseErrors:
    """The errors of a response. Needs a body: `row_errors` handles responses whose body the settings left out.

    Args:
        masked_from: the offset of its first masked span; None: nothing is masked.
        is_cut: True if the response never came whole.
        budget: pays for the codes; None: a new one.
    """
    budget = budget or Budget()
    codes = error_codes(frame, api_key, api_version, masked_from=masked_from, dialect=dialect, budget=budget)
    if isinstance(codes, Unread):
        unread = Unread.CUT if is_cut and codes is Unread.MALFORMED else codes
        return ResponseErrors([], unread, unread_wait(dialect, api_key))
    wait = unread_wait(dialect, api_key)
    return ResponseErrors(codes, None, wait and waited(frame, api_key, api_version, budget=budget))


def row_errors(response: Mapping[str, Any], *, budget: Budget | None = None) -> ResponseErrors:
    """The errors of the response in a row, which must have the column `frame`. `budget`: as of `response_errors`."""
    frame, dialect, api_key = response["frame"], response["dialect"], response["api_key"]
    if frame is None or response["omitted"]:
        return ResponseErrors([], Unread.OMITTED, unread_wait(dialect, api_key))
    if api_key is None:
        return ResponseErrors([], Unread.UNKNOWN_VERSION)
    masked = response["masked"]
    return response_errors(
        frame,
        dialect=dialect,
        api_key=api_key,
        api_version=response["api_version"],
        masked_from=masked[0]["start"] if masked else None,
        is_cut=is_cut(response["note"]),
        budget=budget,
    )


def unread_wait(dialect: str, api_key: int | None) -> Wait | None:
    """The wait of a response that was not read: INCLUDES_WAIT if its API has long polls, otherwise None."""
    return Wait.INCLUDES_WAIT if dialect == Dialect.KAFKA and api_key in LONG_POLLS else None


def is_cut(note: str | None) -> bool:
    """True if a row's note says that the frame never came whole."""
    return note is not None and note.startswith("cut: ")
